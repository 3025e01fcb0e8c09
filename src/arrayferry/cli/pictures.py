"""Pictures, by matplotlib: of times, of learning, of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry.cli.exits import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["available", "bars", "curve", "require", "strip"]

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


def curve(file: Path, steps: Sequence[int], returns: Sequence[float], goal: float) -> None:
    """The mean return over the steps, and the goal."""
    figure = _figure(7, 3.5)
    axes = figure.subplots()
    axes.plot(steps, returns, color=_INK)
    axes.axhline(goal, color=_GREY, linestyle="--")
    axes.set(title="CartPole-v1, an agent in torch", xlabel="steps", ylabel="mean return of late")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def strip(file: Path, frames: Sequence[Any], count: int = 6) -> None:
    """Some frames of an episode, side by side."""
    chosen = [frames[int(i)] for i in np.linspace(0, len(frames) - 1, min(count, len(frames)))]
    figure = _figure(2.4 * len(chosen), 1.8)
    for axes, frame in zip(np.ravel(figure.subplots(1, len(chosen))), chosen):
        axes.imshow(frame)
        axes.set_axis_off()
    figure.savefig(file)
