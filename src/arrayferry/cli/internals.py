"""All that the command uses of arrayferry's private parts, in one place."""

from __future__ import annotations

from arrayferry._core.ownership import COUNTS_PROVE as TAKES_OVER
from arrayferry._core.registry import find_framework, registered
from arrayferry._core.speedups import speedups

__all__ = ["HAS_SPEEDUPS", "TAKES_OVER", "find_framework", "registered"]

HAS_SPEEDUPS = speedups is not None
