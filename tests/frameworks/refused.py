"""What the tests of frameworks share: is it refused, whatever the target and `copy`?"""

from __future__ import annotations

import pytest

from arrayferry import convert, frameworks
from arrayferry.errors import UnsupportedError

TARGETS = [name for name in ("numpy", "torch", "jax") if name in frameworks()]

targets = pytest.mark.parametrize("target", TARGETS)


def refused(value, target, *words):
    """Refused in every way of copying, with the path and with these words."""
    for copy in None, True, False:
        with pytest.raises(UnsupportedError) as caught:
            convert({"obs": [value]}, target, copy=copy)
        assert isinstance(caught.value, TypeError)
        assert caught.value.where == 'value["obs"][0]'
        for word in words:
            assert word in str(caught.value)
        assert caught.value.hint
