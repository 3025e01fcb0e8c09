"""`convert`, and the reusable `Converter` behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Literal, TypeVar

import numpy as np

from arrayferry._core.containers import container_handler, registered_container
from arrayferry._core.dtypes import dtype_names
from arrayferry._core.express import Terms, Ways, express
from arrayferry._core.framework import (
    Decisions,
    Framework,
    TypeTable,
    find_framework,
    forget_decisions,
    on_register,
    owner_of,
)
from arrayferry._core.routes import Job
from arrayferry._core.swift import swift
from arrayferry._core.tree import KEEP, Handler, OnKeep, unchanged, walk
from arrayferry.errors import FerryError, OptionError, UnknownFrameworkError

__all__ = ["Converter", "convert", "is_registered", "register_leaf"]

_T = TypeVar("_T")


def _kept(value: Any, references: int) -> Any:
    return KEEP


_registered_leaves: dict[type, Callable[[Any, Converter], Any]] = {}


def register_leaf(cls: type[_T], become: Callable[[_T, Converter], Any]) -> None:
    """Say what objects of a type, and of its subclasses, become.

    Args:
        cls: the type.
        become: `(value, converter)` to the converted value; the converter is there to call. It may be
            asked more than once, when something else in the structure is out of the ordinary.

    Example:
        >>> import arrayferry
        >>> from fractions import Fraction
        >>> arrayferry.register_leaf(Fraction, lambda value, converter: converter(float(value)))
        >>> arrayferry.convert({"odds": Fraction(1, 4)}, "numpy")
        {'odds': array(0.25)}
    """
    _registered_leaves[cls] = become
    forget_decisions()


def _registered_leaf(cls: type) -> Callable[[Any, Converter], Any] | None:
    return next((_registered_leaves[base] for base in cls.__mro__ if base in _registered_leaves), None)


def is_registered(cls: type) -> bool:
    """Whether a user has said what objects of this type become."""
    return _registered_leaf(cls) is not None or registered_container(cls) is not None


class Converter:
    """`convert` with its decisions made: build it once, call it often. It can be pickled.

    Args:
        to: the target, by name (`"numpy"`) or as a module (`numpy`).
        device: where the arrays go, by the framework's name for it or as its object.
        copy: None for arrays that are yours, sharing memory only where nobody can tell;
            True for new memory, always; False for shared memory, or a `SharingError`.
        dtypes: casts to make on the way, such as `{"float64": "float32"}`.

    Example:
        >>> import numpy as np
        >>> to_numpy = Converter("numpy", dtypes={"float64": "float32"})
        >>> to_numpy({"position": np.array([0.5, 1.5]), "name": "cart", "lives": 3})
        {'position': array([0.5, 1.5], dtype=float32), 'name': 'cart', 'lives': array(3)}
    """

    def __init__(
        self,
        to: str | ModuleType | Framework,
        device: Any = None,
        *,
        copy: bool | None = None,
        dtypes: Mapping[Any, Any] | None = None,
        _numbers: bool = True,  # whether Python's numbers become arrays
    ) -> None:
        if copy is not None and copy is not True and copy is not False:
            raise OptionError(f"copy={copy!r}", "it is None, True or False")
        self.framework = find_framework(to)
        self.device = self.framework.device(device)
        self.copy = copy
        self.dtypes = dtype_names(dtypes)
        self._numbers = _numbers
        self._only_walks = False
        self._outside = self.framework.outside()
        self._job = Job(self.framework, self.device, copy, self.dtypes)
        self._handlers = TypeTable(partial(self._handler_for, self._job))
        self._express = Decisions(partial(express, self._express_terms()))
        for tells in (False, True):  # now, so that the first step takes no longer than the second
            self._express[tells]
        self._unbox_value = self.unboxer("value")

    def __call__(self, value: Any) -> Any:
        """Convert a value: a leaf, or any structure of them."""
        box = [value]
        del value  # so that the box alone holds it, if the caller holds it no more
        return self._unbox_value(box)

    def unbox(
        self,
        box: list[Any],
        names: Sequence[str] = ("value",),
        on_keep: OnKeep | None = None,
    ) -> list[Any]:
        """Convert the values in a list which is all that holds them, so that they need not be copied.

        Args:
            box: the values, as in `converter.unbox([*env.step(action)])`.
            names: what the values are called in messages.
            on_keep: told when a leaf has no counterpart in the target.
        """
        return self.unboxer_of_all(names, on_keep)(box)

    def unboxer_of_all(
        self, names: Sequence[str], on_keep: OnKeep | None = None
    ) -> Callable[[list[Any]], list[Any]]:
        """The same as a function, for who does it often."""
        return self._unboxer("alone", names, on_keep)

    def unboxer(self, name: str, on_keep: OnKeep | None = None) -> Callable[[list[Any]], Any]:
        """The same for one value."""
        return self._unboxer("one", (name,), on_keep)

    def _unboxer(
        self, way: Literal["alone", "one"], names: Sequence[str], on_keep: OnKeep | None
    ) -> Callable[[list[Any]], Any]:
        express, handlers, tells = self._express, self._handlers, on_keep is not None
        is_inside, outside = self._outside
        index = Ways._fields.index(way)

        def by_walk(box: list[Any]) -> Any:
            found = walk(box, handlers, names, on_keep)
            return found[0] if way == "one" else found

        def unbox(box: list[Any]) -> Any:
            try:
                if is_inside():
                    with outside():
                        return express[tells][index](box)
                return express[tells][index](box)
            except Exception:  # whatever it is: the walk finds another way, or says where it is
                pass  # and what the lane held is dropped, before the walk counts references
            return by_walk(box)

        return by_walk if self._only_walks else unbox

    def exit(
        self,
        arrays: int,
        number: Callable[[Any], float],
        flag: Callable[[Any], bool],
        slowly: Callable[[list[Any]], Any],
    ) -> Callable[[list[Any]], Any]:
        """From a list that alone holds the five values of a step, to the values converted.

        Args:
            arrays: how many of the values are converted, but for the last one, which always is.
            number: what becomes of the second value otherwise,
            flag: and of the third and fourth.
            slowly: the same from the same list, where something is out of the ordinary.
        """
        if swift is None:
            return slowly
        lanes = self._express[True].lane, self._express[False].lane
        leave: Callable[[list[Any]], Any] = swift.Exit(
            *lanes, number, flag, slowly, *self._outside, arrays
        ).leave
        return leave

    def _express_terms(self) -> Terms:
        adopt = self.framework.adopt(self.device)
        if self.copy is False:
            terms = Terms(self._handlers, self._job.numpy_array, shares=True)
            sure = adopt is not None and self.framework.aliases
            return terms._replace(adopt=adopt, takes=self._job.plain) if sure else terms
        job = Job(self.framework, self.device, self.copy, self.dtypes, adopt)
        terms = Terms(TypeTable(partial(self._handler_for, job)), job.numpy_array, adopt)
        if adopt is None or self.copy:
            return terms
        return terms._replace(takes=job.plain, takes_bools=job.has_bools)

    @property
    def device_name(self) -> Any:
        """The device by name, which can be pickled where its object cannot."""
        return None if self.device is None else self.framework.device_name(self.device)

    def __repr__(self) -> str:
        """As it would be made again."""
        options = f"device={self.device_name!r}, copy={self.copy!r}, dtypes={self.dtypes!r}"
        return f"Converter({self.framework.name!r}, {options})"

    def __reduce__(self) -> tuple[Any, ...]:
        """By names: functions and devices stay here."""
        return _rebuild, (self.framework.name, self.device_name, self.copy, self.dtypes, self._numbers)

    def _handler_for(self, job: Job, cls: type) -> Handler:
        """What to do with objects of a type. Asked once for each."""
        if become := _registered_leaf(cls):
            return partial(_carry_registered, become, self._walking() if job is self._job else self)
        if registered_container(cls) and (handler := container_handler(cls)):
            return handler
        if issubclass(cls, Enum):
            return unchanged  # a member is what it is, whatever it is made of
        if cls in (bool, str, bytes, type(None)):
            return unchanged
        if cls in (int, float, complex):
            return job.python_scalar if self._numbers else unchanged
        if issubclass(cls, np.generic):
            return job.numpy_scalar
        if issubclass(cls, np.ma.MaskedArray):
            return _kept  # a mask has no counterpart
        if issubclass(cls, np.ndarray):
            return job.numpy_array
        if owner := owner_of(cls):
            return job.array_of(owner, cls)
        return container_handler(cls) or unchanged

    def _walking(self) -> Converter:
        """The same without the express lane: who is asked by the walk was asked by the lane before.

        Else whoever asks the converter again would be asked twice as often at each level.
        """
        same = object.__new__(Converter)
        vars(same).update(vars(self), _only_walks=True)
        same._unbox_value = same.unboxer("value")
        return same


def _carry_registered(
    become: Callable[[Any, Converter], Any], converter: Converter, value: Any, references: int
) -> Any:
    try:
        return become(value, converter)
    except FerryError as error:
        error.inside("value")
        raise


def known_again(name: str) -> str:
    """The name of a framework, if it means one here too.

    It comes out of a pickle: so no module is imported for it but those of registered frameworks.
    """
    try:
        find_framework(name)
    except UnknownFrameworkError as error:
        what = f"{name!r} means no array framework in this process"
        raise UnknownFrameworkError(what, f"if it is one, import {name} before unpickling") from error
    return name


def _rebuild(name: str, device: Any, copy: bool | None, dtypes: dict[str, str], numbers: bool) -> Converter:
    return Converter(known_again(name), device, copy=copy, dtypes=dtypes, _numbers=numbers)


def convert(
    value: Any,
    to: str | ModuleType | Framework,
    device: Any = None,
    *,
    copy: bool | None = None,
    dtypes: Mapping[Any, Any] | None = None,
) -> Any:
    """Convert every array and number in a structure to another framework.

    Containers come back as themselves, strings and other objects as they are. What you receive is
    yours, unless `copy=False`. The arguments are those of `Converter`.

    Example:
        >>> import arrayferry, numpy as np
        >>> frame = np.arange(6, dtype=np.uint8).reshape(2, 3)
        >>> arrayferry.convert({"camera": frame[::-1], "mission": "go left"}, "numpy")
        {'camera': array([[3, 4, 5],
               [0, 1, 2]], dtype=uint8), 'mission': 'go left'}

    Raises:
        FerryError: one of its kinds, with the path of the leaf, the reason, and what to do.
    """
    box = [value]
    del value
    return _converter(to, device, copy, tuple(dtype_names(dtypes).items()))._unbox_value(box)


def _converter(
    to: str | ModuleType | Framework, device: Any, copy: bool | None, dtypes: tuple[tuple[Any, Any], ...]
) -> Converter:
    """A converter for these arguments, made once where they can be remembered."""
    try:
        return _remembered(to, device, copy, dtypes)
    except TypeError:  # something in them cannot be hashed
        return Converter(to, device, copy=copy, dtypes=dict(dtypes))


@lru_cache(maxsize=64, typed=True)
def _remembered(
    to: str | ModuleType | Framework, device: Any, copy: bool | None, dtypes: tuple[tuple[Any, Any], ...]
) -> Converter:
    return Converter(to, device, copy=copy, dtypes=dict(dtypes))


on_register.append(_remembered.cache_clear)
