"""Warnings, at the line that they are about."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn_agent"]

_PACKAGES = ("arrayferry", "gymnasium")


def warn_agent(message: str, category: type[Warning]) -> None:
    """Warn at the line that called neither us nor Gymnasium, however deep in both we are."""
    frame, levels = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, levels = frame.f_back, levels + 1
    warnings.warn(message, category, stacklevel=levels)
