"""Bars on a linear scale, for pages that are read in the dark and on a phone."""

from __future__ import annotations

__all__ = ["svg"]

# Written by hand, so that it follows the reader's colours and is large enough on a phone. It has a page of
# its own behind it: a site that is dark in a system that is light would show dark text on dark.
_PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 {height}" role="img"
 aria-label="{label}">
<style>
.page {{ fill: #fff }}
text {{ font: 17px system-ui, sans-serif; fill: #1b1b1b }}
.small {{ font-size: 14px; fill: #666 }}
.bare {{ fill: #b0b8bd }} .rest {{ fill: #d98b5f }} .ours {{ fill: #2a8fb3 }}
@media (prefers-color-scheme: dark) {{
  .page {{ fill: #161b22 }} text {{ fill: #eee }} .small {{ fill: #aaa }} .bare {{ fill: #5d666c }}
}}
</style>
<rect class="page" width="480" height="{height}" rx="6"/>
<text class="small" x="2" y="18">{title}</text>
{rows}
</svg>
"""
_ROW = """<text x="2" y="{text}">{name}</text>
<rect class="bare" x="{left}" y="{y}" width="{bare:.1f}" height="26"/>
<rect class="{kind}" x="{start:.1f}" y="{y}" width="{added:.1f}" height="26"/>
<text x="{end:.1f}" y="{text}">{us:,.{digits}f}</text>"""


def svg(title: str, times: dict[str, float], bare: float, ours: str, left: int = 110, digits: int = 1) -> str:
    """Return a picture of times in microseconds, in each of which the part that no rival can save is grey."""
    scale, rows = (420 - left) / max(times.values()), []
    for index, (name, us) in enumerate(times.items()):
        y, added = 34 + 38 * index, max(us - bare, 0) * scale
        start, kind = left + bare * scale, "ours" if name == ours else "rest"
        place = {
            "left": left,
            "y": y,
            "text": y + 19,
            "start": start,
            "added": added,
            "end": start + added + 8,
        }
        rows.append(_ROW.format(name=name, bare=bare * scale, kind=kind, us=us, digits=digits, **place))
    label = ", ".join(f"{name} {us:.{digits}f}" for name, us in times.items()) + " microseconds a step"
    return _PICTURE.format(height=38 * len(times) + 40, label=label, title=title, rows="\n".join(rows))
