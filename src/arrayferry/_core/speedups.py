"""The part that is written in C, if it was built; None if Python does the work instead."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """Return an extension module, or None if it was not built, or is switched off."""
    if sys.implementation.name == "cpython" and os.environ.get("ARRAYFERRY_PURE_PYTHON", "") in ("", "0"):
        with suppress(ImportError):
            return import_module(name)
    return None


speedups = load("arrayferry._core._speedups")
