"""Pictures of times, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from arrayferry.cli.exits import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["available", "bars", "require"]

_KINDS = (".png", ".svg", ".pdf")
_INK, _GREY = "#1f6f8b", "#b8b8b8"


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def require(file: Path) -> None:
    """Refuse before the work what could not be saved after it."""
    if not available():
        raise UsageError('pictures need matplotlib: pip install "arrayferry[cli]"')
    if file.suffix not in _KINDS:
        raise UsageError(f"{file}: a picture's name ends in {', '.join(_KINDS)}")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{file}: there is no folder {file.absolute().parent}")


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure  # not pyplot: no windows, no state

    return Figure(figsize=(width, height), layout="constrained")


def bars(file: Path, title: str, times: Mapping[str, float]) -> None:
    """Microseconds a step, as bars."""
    figure = _figure(7, 0.8 + 0.45 * len(times))
    axes = figure.subplots()
    names = list(times)[::-1]
    drawn = axes.barh(names, [times[name] for name in names], color=[_colour(name) for name in names])
    axes.bar_label(drawn, fmt="%.1f", padding=3)
    axes.margins(x=0.12)  # room for the labels
    axes.set(title=title, xlabel="microseconds a step")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def _colour(name: str) -> str:
    return _INK if name == "arrayferry" else _GREY
