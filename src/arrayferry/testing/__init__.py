"""The conformance kit: what a framework has to do, as checks that anybody can run.

    >>> from arrayferry.testing import CHECKS, check_framework
    >>> check_framework("numpy")

With pytest, one test a check: `@pytest.mark.parametrize("check", CHECKS)` and `check("numpy")`.
`arrays`, `layouts` and `structures` are Hypothesis strategies for values that break converters.
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
