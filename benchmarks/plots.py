"""The plots that the docs show: a whole step, overhead by work, and cost by leaves, depth and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from works import BARE, BY_HAND, OURS, THEIRS

_COLOURS = {OURS: "#1f6f8b", BY_HAND: "#b8b8b8", THEIRS: "#d98b5f", "torch": "#1f6f8b", "JAX": "#d98b5f"}


def draw(results: dict[str, Any], folder: Path) -> None:
    """All pictures, as SVG."""
    (folder / "step.svg").write_text(step(results["CartPole-v1"]))
    bars(results["overhead"], folder / "overhead.svg")
    lines(results, folder / "growth.svg")


# Written by hand, so that it follows the reader's colours and is large enough on a phone.
_STEP = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 {height}" role="img" aria-label="{label}">
<style>
text {{ font: 17px system-ui, sans-serif; fill: #1b1b1b }}
.small {{ font-size: 14px; fill: #666 }}
.bare {{ fill: #b0b8bd }} .rest {{ fill: #d98b5f }} .ours {{ fill: #2a8fb3 }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #eee }} .small {{ fill: #aaa }} .bare {{ fill: #5d666c }}
}}
</style>
<text class="small" x="2" y="18">CartPole-v1 to torch: microseconds a step</text>
{rows}
</svg>
"""
_ROW = """<text x="2" y="{text}">{name}</text>
<rect class="bare" x="110" y="{y}" width="{bare:.1f}" height="26"/>
<rect class="{kind}" x="{start:.1f}" y="{y}" width="{added:.1f}" height="26"/>
<text x="{end:.1f}" y="{text}">{us:.1f}</text>"""


def step(times: dict[str, float]) -> str:
    """Four bars on a linear scale: a whole step, bare and with each rival, in microseconds."""
    scale, bare, rows = 310 / max(times.values()), times[BARE], []
    for index, (name, us) in enumerate(times.items()):
        y, added = 34 + 38 * index, max(us - bare, 0) * scale
        start, kind = 110 + bare * scale, "ours" if name == OURS else "rest"
        place = {"y": y, "text": y + 19, "start": start, "added": added, "end": start + added + 8}
        rows.append(_ROW.format(name=name, bare=bare * scale, kind=kind, us=us, **place))
    label = ", ".join(f"{name} {us:.1f}" for name, us in times.items()) + " microseconds a step"
    return _STEP.format(height=38 * len(times) + 40, label=label, rows="\n".join(rows))


def bars(overhead: dict[str, dict[str, float]], file: Path) -> None:
    """A group of bars for each work."""
    names = list(overhead)[::-1]
    figure = Figure(figsize=(8, 0.6 * len(names) + 1), layout="constrained")
    axes = figure.subplots()
    for position, rival in enumerate((OURS, BY_HAND, THEIRS)):
        where = [index + (1 - position) * 0.27 for index in range(len(names))]
        drawn = axes.barh(
            where,
            [overhead[name].get(rival, float("nan")) for name in names],
            0.25,
            color=_COLOURS[rival],
            label=rival,
        )
        axes.bar_label(drawn, fmt="%.1f", padding=3, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set(xscale="log", xlabel="overhead over the bare environment, microseconds a step")
    axes.margins(x=0.1)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def lines(results: dict[str, Any], file: Path) -> None:
    """Cost by leaves, by depth and by bytes."""
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    labels = {"by leaves": "arrays", "by depth": "dicts around 100 arrays", "by bytes": "bytes, copied"}
    for axes, (key, label) in zip(figure.subplots(1, 3), labels.items()):
        rows = results[key]
        for name in next(iter(rows.values())):
            style = "--" if name == "memcpy" else "o-"
            points = [row[name] for row in rows.values()]
            axes.plot(
                [int(n) for n in rows], points, style, color=_COLOURS.get(name, "black"), label=name, ms=3
            )
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="microseconds")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)
