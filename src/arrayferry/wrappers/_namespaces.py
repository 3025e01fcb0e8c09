"""The array API namespaces of frameworks."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np

from arrayferry._core.convert import Namespace
from arrayferry._core.framework import Framework
from arrayferry._core.registry import find_framework

__all__ = ["module_name_to_namespace", "module_namespace"]


def module_namespace(xp: Namespace) -> ModuleType:
    """Return the array API namespace of a framework, or its module if array-api-compat does not know it.

    >>> module_namespace(np).__name__
    'array_api_compat.numpy'
    """
    return _namespace(find_framework(xp))


@cache
def _namespace(framework: Framework) -> ModuleType:
    from array_api_compat import array_namespace  # slow to import

    module = framework.load()
    try:
        namespace: ModuleType = array_namespace(framework.target(None).take(np.zeros(0, np.float32)))
    except TypeError:
        return module
    return namespace


def module_name_to_namespace(name: str) -> ModuleType:
    """Import a module, and return its array API namespace."""
    return module_namespace(import_module(name))
