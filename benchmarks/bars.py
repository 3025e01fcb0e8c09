"""Plots as SVG that follow the reader's colours, and are large enough on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from math import ceil, floor, log10

__all__ = ["grouped", "panels", "svg"]

WIDTH = 480
# With a page behind it: a site that is dark in a system that is light would show dark text on dark.
_PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 {height}" role="img"
 aria-label="{label}">
<style>
.page {{ fill: #fff }}
text {{ font: 17px system-ui, sans-serif; fill: #1b1b1b }}
.small {{ font-size: 14px; fill: #666 }}
.bare {{ fill: #b0b8bd }} .rest {{ fill: #d98b5f }} .ours {{ fill: #2a8fb3 }}
line {{ stroke: #8884 }} path {{ stroke-width: 2.5 }}
.bare path {{ stroke: #b0b8bd }} .rest path {{ stroke: #d98b5f }} .ours path {{ stroke: #2a8fb3 }}
@media (prefers-color-scheme: dark) {{
  .page {{ fill: #161b22 }} text {{ fill: #eee }} .small {{ fill: #aaa }}
  .bare {{ fill: #5d666c }} .bare path {{ stroke: #8b949a }}
}}
</style>
<rect class="page" width="480" height="{height}" rx="6"/>
{parts}
</svg>
"""


def _picture(height: float, label: str, parts: Iterable[str]) -> str:
    return _PICTURE.format(height=round(height), label=escape(label, quote=True), parts="\n".join(parts))


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}"/>'


def svg(
    title: str, times: Mapping[str, float], bare: float, ours: str, left: int = 110, digits: int = 1
) -> str:
    """Return a picture of times in microseconds, in each of which the part that no rival can save is grey."""
    scale, parts = (420 - left) / max(times.values()), [_text(2, 18, title, "small")]
    for index, (name, us) in enumerate(times.items()):
        y, added, start = 34 + 38 * index, max(us - bare, 0) * scale, left + bare * scale
        parts += [
            _text(2, y + 19, name),
            _bar(left, y, bare * scale, 26, "bare"),
            _bar(start, y, added, 26, "ours" if name == ours else "rest"),
            _text(start + added + 8, y + 19, f"{us:,.{digits}f}"),
        ]
    label = ", ".join(f"{name} {us:.{digits}f}" for name, us in times.items()) + " microseconds a step"
    return _picture(38 * len(times) + 40, label, parts)


def grouped(title: str, groups: Mapping[str, Mapping[str, float]], kinds: Mapping[str, str]) -> str:
    """Return a picture of times in microseconds: a bar for each rival, to the scale of its group.

    Args:
        title: what all bars show.
        groups: the times of the rivals, by group.
        kinds: the rivals in order, each with the class of its colour.
    """
    parts, y = [_text(2, 18, title, "small")], 46.0
    for group, times in groups.items():
        scale = 250 / max(times.values())
        parts.append(_text(2, y, group))
        for rival, kind in kinds.items():
            if rival in times:
                us = times[rival]
                parts += [
                    _text(2, y + 20, rival, "small"),
                    _bar(90, y + 8, us * scale, 14, kind),
                    _text(96 + us * scale, y + 20, f"{us:.1f} µs", "small"),
                ]
                y += 20
        y += 42
    label = "; ".join(
        f"{group}: " + ", ".join(f"{rival} {us:.1f}" for rival, us in times.items())
        for group, times in groups.items()
    )
    return _picture(y - 20, f"{title}: {label}", parts)


def _power(power: int) -> str:
    """Return a power of ten, as in 100k."""
    thousands = max(0, power // 3)
    return f"{10.0 ** (power - 3 * thousands):g}{' kMG'[thousands].strip()}"


def panels(lines: Mapping[str, Mapping[str, Mapping[int, float]]], kinds: Mapping[str, str]) -> str:
    """Return a picture of curves on logarithmic scales, one panel below the other.

    Args:
        lines: by the title of a panel, and by the name of a curve, its points.
        kinds: the class of the colour of each curve.
    """
    parts: list[str] = []
    for index, (title, curves) in enumerate(lines.items()):
        top, left, right, height = 300 * index + 40, 50, WIDTH - 80, 210
        ends: list[float] = []
        xs = [log10(x) for points in curves.values() for x in points]
        ys = [log10(y) for points in curves.values() for y in points.values()]
        low, high = floor(min(ys)), ceil(max(ys))

        def place(x: float, y: float) -> tuple[float, float]:
            across = (x - min(xs)) / (max(xs) - min(xs))  # noqa: B023  (called in this turn)
            return left + across * (right - left), top + height * (high - y) / (high - low)  # noqa: B023

        parts.append(_text(2, top - 18, title, "small"))
        for power in range(low, high + 1):
            _, y = place(min(xs), power)
            parts += [
                f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>',
                _text(left - 6, y + 5, _power(power), "small", "end"),
            ]
        for power in range(ceil(min(xs)), floor(max(xs)) + 1, 2 if max(xs) > 4 else 1):
            x, _ = place(power, low)
            parts.append(_text(x, top + height + 20, _power(power), "small", "middle"))
        from_the_top = sorted(curves.items(), key=lambda curve: -curve[1][max(curve[1])])
        for name, points in from_the_top:
            at = [place(log10(x), log10(y)) for x, y in points.items()]
            curve = " L".join(f"{x:.1f},{y:.1f}" for x, y in at)
            parts.append(f'<g class="{kinds[name]}"><path fill="none" d="M{curve}"/></g>')
            end = at[-1][1] + 5
            while any(abs(end - other) < 16 for other in ends):
                end += 16
            ends.append(end)
            parts.append(_text(right + 6, end, name, "small"))
    return _picture(300 * len(lines) + 10, "; ".join(lines), parts)
