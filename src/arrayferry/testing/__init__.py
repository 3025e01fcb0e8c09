"""Checks that a framework converts as it should, and the values to check it with.

    >>> from arrayferry.testing import CHECKS, check_framework
    >>> check_framework("numpy")

To run each check as a test of its own, use `@pytest.mark.parametrize("check", CHECKS)` and call
`check("numpy")`. `arrays`, `layouts` and `structures` are Hypothesis strategies for difficult values.
"""

from __future__ import annotations

from arrayferry.testing.checks import CHECKS, SEPARATE, check_framework
from arrayferry.testing.values import (
    CONTAINERS,
    LAYOUTS,
    arrays,
    at_offset,
    bits,
    edges,
    layouts,
    overwrite,
    structures,
    zip_leaves,
)

__all__ = [
    "CHECKS",
    "check_framework",
    "arrays",
    "layouts",
    "structures",
    "LAYOUTS",
    "CONTAINERS",
    "SEPARATE",
    "at_offset",
    "bits",
    "edges",
    "overwrite",
    "zip_leaves",
]
