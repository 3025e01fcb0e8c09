"""Checks that a framework converts as it should, and the values to check it with.

    >>> from arrayferry.testing import CHECKS, LAYOUTS, SEPARATE, check_framework
    >>> check_framework("numpy")

To run each check as a test of its own, use `@pytest.mark.parametrize("check", CHECKS)` and call
`check("numpy")`. `SEPARATE` names the frameworks that may crash others in the same process.

    >>> CHECKS[0].__name__, sorted(SEPARATE)
    ('check_arrays', ['paddle', 'tensorflow'])

`LAYOUTS` has, by name, functions that return the values of an array in another layout:

    >>> import numpy as np
    >>> sorted(LAYOUTS)[:3]
    ['0-d', 'broadcast', 'byte-swapped']
    >>> LAYOUTS["flipped"](np.arange(3.0)).strides
    (-8,)
"""

from __future__ import annotations

from arrayferry.testing.checks import CHECKS, SEPARATE, check_framework
from arrayferry.testing.values import LAYOUTS, at_offset, bits, edges, overwrite

__all__ = ["CHECKS", "LAYOUTS", "SEPARATE", "at_offset", "bits", "check_framework", "edges", "overwrite"]
