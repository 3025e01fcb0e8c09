"""The part that is written in C, where it was built; None where the walk in Python does the work."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

__all__ = ["speedups"]

speedups: Any = None
if sys.implementation.name == "cpython" and os.environ.get("ARRAYFERRY_PURE_PYTHON", "") in ("", "0"):
    with suppress(ImportError):
        speedups = import_module("arrayferry._core._speedups")
