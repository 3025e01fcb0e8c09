"""`convert`, and the reusable `Converter` behind it."""

from __future__ import annotations

import gc
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache, partial
from types import MethodType, ModuleType
from typing import Any, NoReturn, TypeAlias, TypeVar

from arrayferry._core import containers, messages, objects, ownership, registry, type_cache, walk
from arrayferry._core.dtypes import dtype_names
from arrayferry._core.eager import eager
from arrayferry._core.framework import Framework, Placement
from arrayferry._core.route import Route, Routes
from arrayferry._core.speedups import speedups
from arrayferry._core.walk import Handler, Slot
from arrayferry.errors import FerryError, OptionError

_T = TypeVar("_T")

# What identifies a framework: its name, its module, or its record.
Namespace: TypeAlias = "str | ModuleType | Framework"

_Casts: TypeAlias = "tuple[tuple[str, str], ...]"

# What a user registers for a leaf: `(value, converter)` to what becomes of it.
LeafFunction: TypeAlias = "Callable[[Any, Converter], Any]"


def register_leaf(cls: type[_T], function: Callable[[_T, Converter], Any], *, replace: bool = False) -> None:
    """Register what objects of a type and its subclasses become.

    Args:
        cls: the type.
        function: `(value, converter)` to the converted value; call the converter on any values inside it.
        replace: whether to replace what is registered for the type already.

    Raises:
        UnsupportedError: `cls` is not a class, or `function` not a function.
        OptionError: the type is registered already.

    Example:
        >>> import arrayferry
        >>> from fractions import Fraction
        >>> arrayferry.register_leaf(Fraction, lambda value, converter: converter(float(value)))
        >>> arrayferry.convert({"odds": Fraction(1, 4)}, "numpy")
        {'odds': array(0.25)}
    """
    type_cache.register(cls, function, {"function": function}, replace=replace)


# Consulted in this order for what is registered for a type.
leaf_tables: list[Callable[[type], LeafFunction | None]] = [partial(type_cache.find_registered, Callable)]


def _registered_leaf(cls: type) -> LeafFunction | None:
    return next(filter(None, (find(cls) for find in leaf_tables)), None)


def is_registered(cls: type) -> bool:
    """Return whether a user has registered what objects of this type become."""
    return _registered_leaf(cls) is not None or containers.registered_container(cls) is not None


class Converter:
    """A reusable `convert`: build it once, call it often. It can be pickled.

    A call copies even memory that could have been taken over, because Python keeps a reference to the
    argument during the call; `take` avoids this copy.

    Args:
        to: the target, by name (`"numpy"`) or as a module (`numpy`).
        device: where the arrays go: the framework's name for the device, or its device object.
        copy: None for arrays that belong to you, sharing memory only where nobody can tell;
            True for new memory, always; False for shared memory, or a `SharingError`.
        dtypes: casts to make on the way, such as `{"float64": "float32"}`.

    Example:
        >>> import numpy as np
        >>> to_numpy = Converter("numpy", dtypes={"float64": "float32"})
        >>> to_numpy({"position": np.array([0.5, 1.5]), "name": "cart", "lives": 3})
        {'position': array([0.5, 1.5], dtype=float32), 'name': 'cart', 'lives': array(3)}
    """

    _converts_numbers = True  # whether Python's numbers become arrays

    def __init__(
        self,
        to: Namespace,
        device: Any = None,
        *,
        copy: bool | None = None,
        dtypes: Mapping[Any, Any] | None = None,
    ) -> None:
        if copy is not None and copy is not True and copy is not False:
            raise OptionError(f"copy={copy!r} is not valid", "pass None, True or False")
        self.framework = registry.find_framework(to)
        self.device = device if isinstance(device, Placement) else self.framework.find_device(device)
        self.copy = copy
        self.dtypes = dtype_names(dtypes)
        self._routes = Routes(self.framework, self.device, copy, self.dtypes)
        self.target = self._routes.target
        self.handlers = type_cache.TypeCache(self.decide_handler)
        self._convert_box = self.walker([Slot("value")]).convert

    @eager
    def __call__(self, value: Any) -> Any:
        """Convert a value: a leaf, or any structure of them."""
        return self._convert_box([value])

    @eager
    def take(self, value: Any) -> Any:
        """Convert a value that the caller gives up: memory that nobody else holds is not copied.

        Pass the expression itself: a value that one of your variables holds is copied.

        >>> import numpy as np
        >>> to_numpy = Converter("numpy")
        >>> to_numpy.take(np.zeros(3) + 1)
        array([1., 1., 1.])
        """
        box = [value]
        del value  # so that the box alone holds it, if the caller no longer does
        return self._convert_box(box)

    def walker(self, slots: Sequence[Slot], repack: Callable[[Any], Any] = tuple, table: Any = None) -> Any:
        """Return a walker that converts boxes with these slots, by another table if there is one."""
        return Walker(self.handlers if table is None else table, slots, repack, self.target.guard)

    @property
    def device_name(self) -> Any:
        """The device's name, which can be pickled even if the device object cannot."""
        if self.device is None or isinstance(self.device, Placement):
            return self.device
        return self.framework.device_name(self.device)

    def __repr__(self) -> str:
        """Return the call that would build it again."""
        options = f"device={self.device_name!r}, copy={self.copy!r}, dtypes={self.dtypes!r}"
        return f"Converter({self.framework.name!r}, {options})"

    def __deepcopy__(self, memo: Any = None) -> Converter:
        """Return the converter itself, which does not change; its framework need not be registered."""
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle names only: functions and device objects are left out."""
        options = {"copy": self.copy, "dtypes": self.dtypes}
        return _rebuild, (type(self), self.framework.name, self.device_name, options)

    def decide_handler(self, cls: type) -> Handler:
        """Return the handler for a type. Called once for each type."""
        function = _registered_leaf(cls)
        return self._registered_handler(cls, function) if function else self._decide_unregistered(cls)

    def _decide_unregistered(self, cls: type) -> Handler:
        """Return the handler for a type, ignoring registered leaves."""
        routes = self._routes
        if (container := containers.registered_container(cls)) is not None:
            return container
        if cls in (bool, str, bytes, type(None)) or issubclass(cls, Enum):
            return walk.unchanged  # a member of an enumeration stays itself, whatever its value is
        if cls in (int, float, complex):
            return routes.number if self._converts_numbers else walk.unchanged
        for base, route in routes.from_numpy.items():
            if issubclass(cls, base):
                return route
        if (framework := registry.decide_framework(cls)) is not None:
            return routes.array_of(framework, cls)
        otherwise = _of_unknown_class if containers.is_unknown(cls) else walk.unchanged
        return containers.container_of(cls) or otherwise

    def _registered_handler(self, cls: type, function: LeafFunction) -> Handler:
        def handler(value: Any, owned: bool) -> Any:
            try:
                return function(value, self)
            except FerryError as error:
                raise error.inside("value")  # noqa: B904  (it is the same error)

        what = f"the function registered for {cls.__qualname__} raised"
        return containers.wrap_errors(handler, what, "fix the registered function")


def _of_unknown_class(value: Any, owned: bool) -> Any:
    """Keep an object; if its attributes hold arrays, they have no counterpart as long as nobody says so."""
    parts = objects.reachable(value, _attributes_of, _MANY)
    return walk.KEEP if any(registry.framework_of(type(part)) is not None for part in parts) else value


def _attributes_of(value: Any) -> list[Any]:
    others = *objects.UNCHANGING, MethodType
    return [part for part in gc.get_referents(value) if not isinstance(part, others)]


# The most objects that are looked at in the attributes of one.
_MANY = 100

# The walk in C looks by name for what it shares with the one in Python.
for_c = {**vars(ownership), **vars(containers), **vars(walk), "Route": Route}
Walker: Any = walk.Walker if speedups is None else partial(speedups.Walker, speedups.configure(for_c))


class ArrayConverter(Converter):
    """A converter of arrays, which leaves Python's numbers as they are."""

    _converts_numbers = False


def _rebuild(cls: type[Converter], name: str, device: Any, options: dict[str, Any]) -> Converter:
    return cls(name, device, **options)


@eager
def convert(
    value: Any,
    to: Namespace,
    device: Any = None,
    *,
    copy: bool | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    **unknown: NoReturn,
) -> Any:
    """Convert every array and number in a structure to another framework.

    Containers come back as the same type, strings and other objects unchanged. The arrays that you
    receive are yours, unless `copy=False`. The arguments are those of `Converter`.

    Example:
        >>> import arrayferry, numpy as np
        >>> frame = np.arange(6, dtype=np.uint8).reshape(2, 3)
        >>> arrayferry.convert({"camera": frame[::-1], "mission": "go left"}, "numpy")
        {'camera': array([[3, 4, 5],
               [0, 1, 2]], dtype=uint8), 'mission': 'go left'}

    Raises:
        FerryError: one of its subclasses, with the path of the leaf, the reason, and what to do.
    """
    if unknown:
        messages.refuse_unknown(unknown, ["device", "copy", "dtypes"], of="convert")
    box = [value]
    del value  # so that the box alone holds it, if the caller no longer does
    return _converter(to, device, copy, tuple(dtype_names(dtypes).items()))._convert_box(box)


def _converter(to: Namespace, device: Any, copy: bool | None, dtypes: _Casts) -> Converter:
    """Return a converter for these arguments, from the cache if they are hashable."""
    try:
        hash((to, device))
    except TypeError:
        return Converter(to, device, copy=copy, dtypes=dict(dtypes))
    return _remembered(to, device, copy, dtypes, type_cache.TypeCache.last_clear)


@lru_cache(maxsize=64, typed=True)
def _remembered(to: Namespace, device: Any, copy: bool | None, dtypes: _Casts, since: object) -> Converter:
    # `since`: no converter from before something was registered is found after it.
    return Converter(to, device, copy=copy, dtypes=dict(dtypes))


def convert_unregistered(value: Any, xp: Namespace, device: Any = None) -> Any:
    """Convert a value as if no leaf were registered for its own type, and what is inside it as usual.

    This lets a registered function call what converted its type before.
    """
    converter, cls = _converter(xp, device, None, ()), type(value)
    registered: Any = converter.handlers[cls]
    unregistered: Any = converter._decide_unregistered(cls)

    def handle(leaf: Any, owned: bool) -> Any:
        handler = unregistered if leaf is value else registered
        return handler if type(handler) is walk.Container else handler(leaf, owned)

    handlers = ChainMap({cls: handle}, converter.handlers)
    return walk.Walker(handlers, [Slot("value")], guard=converter.target.guard).convert([value])
