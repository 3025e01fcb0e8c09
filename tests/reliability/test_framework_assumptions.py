"""What the frameworks do, and our policy rests on."""

from __future__ import annotations

import pytest

from reliability.framework_assumptions import ASSUMPTIONS


@pytest.mark.needs("numpy>=2")  # they watch what frameworks of today do; those of NumPy 1 do other things
@pytest.mark.parametrize("assumption", ASSUMPTIONS, ids=lambda assumption: assumption.__name__)
def test_framework_has_not_changed(assumption):
    assumption()
