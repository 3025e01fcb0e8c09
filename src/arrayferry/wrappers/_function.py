"""`array_conversion`, the function that Gymnasium's users extend, and the namespaces that it hands out.

In Gymnasium it is a `functools.singledispatch`. Here `convert` consults its table, so that registered
functions apply wherever a value is converted.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from functools import cache, singledispatch
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from arrayferry._core.convert import Converter, Namespace, convert, leaf_tables
from arrayferry._core.convert import _converter as make_converter
from arrayferry._core.framework import Framework
from arrayferry._core.registry import find_framework
from arrayferry._core.type_cache import clear_type_caches
from arrayferry._core.walk import Container, Slot, Walker

if TYPE_CHECKING:
    from functools import _SingleDispatchCallable

__all__ = [
    "Array",
    "Device",
    "array_conversion",
    "module_name_to_namespace",
    "module_namespace",
    "to_jax",
    "to_numpy",
    "to_torch",
]

_T = TypeVar("_T")

Array = Any  # as in Gymnasium
Device = Any


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


def _convert_unregistered(value: Any, xp: Namespace, device: Device | None = None) -> Any:
    """Convert a value as if nothing were registered for its own type, and what is inside it as usual.

    This lets a registered function call what `dispatch` returned before it was registered.
    """
    converter, cls = make_converter(xp, device, None, ()), type(value)
    registered: Any = converter._handlers[cls]
    unregistered: Any = converter._decide_unregistered(cls)

    def handle(leaf: Any, owned: bool) -> Any:
        handler = unregistered if leaf is value else registered
        return handler if type(handler) is Container else handler(leaf, owned)

    handlers = ChainMap({cls: handle}, converter._handlers)
    return Walker(handlers, [Slot("value")], guard=converter.target.guard).convert([value])


def _registrable(function: Callable[..., _T]) -> _SingleDispatchCallable[_T]:
    """Give a function the `register`, `dispatch` and `registry` of a `functools.singledispatch`."""
    table: Any = singledispatch(_convert_unregistered)

    def register(cls: Any, func: Any = None) -> Any:
        """Register a function `(value, xp, device=None)` for a type, an ABC, or its annotated type."""
        done = table.register(cls, func)
        if func is None and done is not cls:  # a decorator
            return lambda func: register(cls, func)
        clear_type_caches()
        return done

    def find(cls: type) -> Callable[[Any, Converter], Any] | None:
        registered = table.dispatch(cls)
        if registered is _convert_unregistered:
            return None
        return lambda value, converter: registered(value, _namespace(converter.framework), converter.device)

    leaf_tables.append(find)
    registrable: Any = function
    registrable.register, registrable.dispatch, registrable.registry = (
        register,
        table.dispatch,
        table.registry,
    )
    return registrable  # type: ignore[no-any-return]


@_registrable
def array_conversion(value: Any, xp: Namespace, device: Device | None = None) -> Any:
    """Convert a value to the framework `xp`: `convert`, by the name that Gymnasium gave it.

    Extend it as in Gymnasium: registered functions apply wherever a value is converted. They get the
    namespace and the device. Functions registered by `arrayferry.register_leaf` take precedence, and get the
    converter, which also knows the other options.

    >>> array_conversion({"reward": 1.5, "mission": "go left"}, np)
    {'reward': array(1.5), 'mission': 'go left'}
    >>> class Celsius(float): ...
    >>> @array_conversion.register(Celsius)
    ... def _(value, xp, device=None):
    ...     return xp.asarray(value + 273.15, device=device)
    >>> array_conversion([Celsius(1.0)], np)
    [array(274.15)]
    """
    return convert(value, xp, device)


# Gymnasium also names these after their source: `numpy_to_torch`, `jax_to_torch`. Ours take any source.


def to_numpy(value: Any, device: Device | None = None) -> Any:
    """Convert a value with arrays of any framework to NumPy."""
    return convert(value, "numpy", device)


def to_jax(value: Any, device: Device | None = None) -> Any:
    """Convert a value with arrays of any framework to JAX."""
    return convert(value, "jax", device)


def to_torch(value: Any, device: Device | None = None) -> Any:
    """Convert a value with arrays of any framework to torch."""
    return convert(value, "torch", device)
