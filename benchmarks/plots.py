"""The plots that the docs show: a whole step, overhead by work, and cost by leaves, depth and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bars import svg
from matplotlib.figure import Figure
from works import BARE, BY_HAND, OURS, THEIRS

_COLOURS = {OURS: "#1f6f8b", BY_HAND: "#b8b8b8", THEIRS: "#d98b5f", "torch": "#1f6f8b", "JAX": "#d98b5f"}


def draw(results: dict[str, Any], folder: Path) -> None:
    """All pictures, as SVG."""
    times = results["CartPole-v1"]
    (folder / "step.svg").write_text(
        svg("CartPole-v1 to torch: microseconds a step", times, times[BARE], OURS)
    )
    bars(results["overhead"], folder / "overhead.svg")
    lines(results, folder / "growth.svg")


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
