"""The plots that the docs show: a whole step, overhead by work, and cost by leaves, depth and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bars import grouped, panels, svg
from works import BARE, BY_HAND, OURS, THEIRS

_LABELS = {"by leaves": "arrays", "by depth": "dicts around 100 arrays", "by bytes": "bytes, copied"}


def draw(results: dict[str, Any], folder: Path) -> None:
    """Write all pictures, as SVG."""
    times = results["CartPole-v1"]
    step = svg("CartPole-v1 to torch: microseconds a step", times, times[BARE], OURS)
    title = "what a step costs over the bare environment"
    overhead = grouped(title, results["overhead"], {BY_HAND: "bare", THEIRS: "rest", OURS: "ours"})
    curves = {
        f"microseconds by {label}": {
            name: {int(n): row[name] for n, row in results[key].items()}
            for name in next(iter(results[key].values()))
        }
        for key, label in _LABELS.items()
    }
    growth = panels(curves, {"torch": "ours", "JAX": "rest", "memcpy": "bare"})
    for name, picture in {"step": step, "overhead": overhead, "growth": growth}.items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
