"""Checks that a framework converts as it should, and the values to check it with.

    >>> from arrayferry.testing import CHECKS, check_framework
    >>> check_framework("numpy")

To run each check as a test of its own, use `@pytest.mark.parametrize("check", CHECKS)` and call
`check("numpy")`.
"""

from __future__ import annotations

from arrayferry.testing.checks import CHECKS, SEPARATE, check_framework
from arrayferry.testing.values import LAYOUTS, at_offset, bits, edges, overwrite

__all__ = ["CHECKS", "LAYOUTS", "SEPARATE", "at_offset", "bits", "check_framework", "edges", "overwrite"]
