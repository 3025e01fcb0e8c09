"""The supported frameworks: one file for each, all with the same parts in the same order.

A file names its framework but does not import it; the framework is imported when it is used.
"""

from __future__ import annotations

from arrayferry._core.containers import register_named, register_registry
from arrayferry._core.registry import register_framework
from arrayferry._frameworks import _containers, _pytrees, numpy, torch

# In the order in which they are asked whether an array is theirs.
for _framework in (numpy.NumPy, torch.Torch):
    register_framework(_framework())

for _name, _functions in _containers.NAMED.items():
    register_named(_name, _functions)

register_registry(_pytrees.find_pytree)
