"""What a framework has to do, one function for each requirement."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from arrayferry._core.convert import Converter, convert
from arrayferry._core.dtypes import cast_for, dtype_name
from arrayferry._core.framework import Array, Target
from arrayferry._core.ownership import have_common_memory
from arrayferry._core.registry import find_framework, framework_of, frameworks
from arrayferry.errors import DeviceError, SharingError, UnsupportedError
from arrayferry.testing.values import LAYOUTS, all_dtypes, at_offset, bits, edges, overwrite

# Frameworks that may crash others in the same process: pairs with them are checked only where they are
# already imported.
SEPARATE = frozenset({"tensorflow", "paddle"})


def check_arrays(name: str) -> None:
    """Check what all else relies on: an array is of a registered type, and has a dtype and a shape."""
    framework, target = find_framework(name), _target(name)
    for function in "take", "dtypes", "defaults":
        _expect(callable(getattr(target, function)), f"Target.{function} has to be a function")
    for dtype in target.dtypes():
        with suppress(TypeError):  # a dtype that NumPy does not have, such as int4
            _expect(np.dtype(dtype).name == dtype, f"Target.dtypes has to have names, not {dtype!r}")
    _expect(not target.dtypes().isdisjoint(all_dtypes()), "Target.dtypes has no dtype that NumPy has")
    _expect(target.as_is <= target.dtypes(), "Target.as_is has to be a part of Target.dtypes")
    source = _sample(name)
    array, dtype = target.take(source.copy()), source.dtype.name
    kind = type(array).__name__
    is_known, named = framework_of(type(array)) is framework, f"{type(array).__module__}:{kind}"
    _expect(is_known, f"Target.take returns a {kind}: Framework.arrays has to name {named}")
    for attribute in "dtype", "shape":
        _expect(hasattr(array, attribute), f"a {kind} has to have a {attribute}")
    _expect(dtype_name(array.dtype) == dtype, f"the dtype of a {dtype} {kind} is called {array.dtype}")
    _expect(tuple(array.shape) == source.shape, f"the shape of a {source.shape} {kind} is {array.shape}")
    values = framework.source(type(array)).read(array)
    what = f"Source.read returns a {type(values).__name__}, not a NumPy array"
    _expect(isinstance(values, np.ndarray), what)


def check_scalars(name: str) -> None:
    """Check that a number becomes a strongly typed 0-d array of the default dtype, or raises if too large.

    A NumPy scalar keeps its own dtype.
    """
    if not _has_0d(name):
        return
    defaults, available = _target(name).defaults(), _target(name).dtypes()
    for number in 3, -1, 0.25, -0.0, 1.5 - 2j, 2**70:
        cast = cast_for(np.dtype(type(number)), available, defaults[type(number)])
        if cast is None:
            kept = convert(number, name)
            _expect(kept is number, f"{number!r} has no counterpart, so it has to stay as it is")
        elif number == 2**70:
            _expect_error(OverflowError, lambda: convert([2**70], name), str(2**70), "value[0]")
        else:
            result = convert(number, name)
            _expect_array(result, name, np.asarray(number, cast.dtype), repr(number))
            _expect(not getattr(result, "weak_type", False), f"{number!r} became weakly typed")
    for dtype in available.intersection(all_dtypes()):
        scalar = edges(dtype)[1, 1]
        _expect_array(convert(scalar, name), name, np.asarray(scalar), f"the scalar {scalar!r}")


def check_dtypes(name: str) -> None:
    """Check that an array keeps all bits where the framework has its dtype, and its values otherwise."""
    available = _target(name).dtypes()
    for dtype in all_dtypes():
        source = edges(dtype)
        if dtype not in available:
            source = np.arange(6).reshape(2, 3).astype(source.dtype)
        cast = cast_for(source.dtype, available)
        result = convert(source, name)
        if cast is None:
            _expect(result is source, f"{dtype} has no counterpart, so it has to stay as it is")
        else:
            _expect_array(result, name, source.astype(cast.dtype), dtype)


def check_layouts(name: str) -> None:
    """Check that the values arrive, however the source is laid out in memory."""
    available = _target(name).dtypes().intersection(all_dtypes())
    for layout, lay_out in LAYOUTS.items():
        if layout == "0-d" and not _has_0d(name):
            continue
        for dtype in {"uint8", "float32", "int32", "bool"} & available or available:
            source = lay_out(edges(dtype))
            _expect_array(convert(source, name), name, source, f"{dtype}, {layout}")


def check_ownership(name: str) -> None:
    """Check that writing to either side never changes the other, unless memory is shared on purpose."""
    for target, make in _both_ways(name):
        for copy in None, True:
            source, case = make(), f"{name}, copy={copy}, to {target}"
            wanted = bits(source)
            result = convert({"x": source}, target, copy=copy)["x"]
            overwrite(source)
            _expect(bits(result) == wanted, f"{case}: writing to the source changed the result")
            before = bits(source)
            _expect(overwrite(result) or target != "numpy", f"{case}: the result is read-only")
            _expect(bits(source) == before, f"{case}: writing to the result changed the source")


def check_sharing(name: str) -> None:
    """Check that with `copy=False` both sides share memory, or an error names the leaf."""
    for target, make in _both_ways(name):
        source = make()
        try:
            result = convert({"x": source}, target, copy=False)["x"]
        except SharingError as error:
            _expect(error.where == 'value["x"]', f"the error does not say where: {error}")
            continue
        _expect(result is source or have_common_memory(source, result), f"the {target} array is a copy")


def check_devices(name: str) -> None:
    """Check that every device works, in a pickle too, and that an unknown one is refused with all names."""
    names = find_framework(name).device_names()
    for device in names:
        source, converter = _sample(name, device), Converter(name, device)
        _expect_array(converter(source), name, source, f"on {device}")
        again = pickle.loads(pickle.dumps(converter))
        same = again.device == converter.device and repr(again) == repr(converter)
        _expect(same, f"{converter!r} came back as {again!r}")
    unknown = "no-such-device:7"
    _expect_error(DeviceError, lambda: Converter(name, unknown), unknown, *names)


def check_pairs(name: str) -> None:
    """Check that arrays go to every installed framework and back bit for bit, and are private."""
    for other in (n for n in frameworks() if n != name and (n not in SEPARATE or n in sys.modules)):
        common = _target(name).dtypes() & _target(other).dtypes()
        for dtype in common.intersection(all_dtypes()):
            for start, end in (name, other), (other, name):
                source = convert(edges(dtype), start)
                result = convert(source, end)
                overwrite(source)
                _expect_array(result, end, edges(dtype), f"{dtype} from {start} to {end}")


CHECKS: tuple[Callable[[str], None], ...] = (
    check_arrays,
    check_scalars,
    check_dtypes,
    check_layouts,
    check_ownership,
    check_sharing,
    check_devices,
    check_pairs,
)


def check_framework(name: str) -> None:
    """Run all checks on a framework.

    Args:
        name: the name under which it is registered.

    Raises:
        AssertionError: with a line for each check that failed.

    Example:
        >>> from arrayferry.testing import check_framework
        >>> check_framework("numpy")
    """
    failures = [_failure(check_arrays, name)]  # all others would fail for the same reason
    if not failures[0]:
        failures = [failure for check in CHECKS if (failure := _failure(check, name))]
    _expect(not failures, "\n".join([f"{name} does not conform:", *failures]))


def _failure(check: Callable[[str], None], name: str) -> str:
    try:
        check(name)
    except Exception as error:
        return f"{check.__name__}: {type(error).__name__}: {error}"
    return ""


def _target(name: str) -> Target:
    return find_framework(name).target(None)


def _sample(name: str, device: str | None = None) -> Array:
    """Return an array of a dtype that the framework has on a device: of float32, if it is one."""
    framework = find_framework(name)
    available = framework.target(framework.find_device(device)).dtypes().intersection(all_dtypes())
    return edges("float32" if "float32" in available else min(available))


def _has_0d(name: str) -> bool:
    """Return whether the framework has 0-d arrays, or numbers that stand for them; it may refuse them."""
    try:
        convert(_sample(name)[0, 0], name)
    except UnsupportedError:
        return False
    return True


def _both_ways(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield targets, each with a function that makes a source for it."""
    yield name, lambda: at_offset(_sample(name), 0)
    yield name, lambda: at_offset(_sample(name), 4)
    yield name, lambda: convert(_sample(name), name)
    yield "numpy", lambda: convert(_sample(name), name)


def _expect_array(result: Any, name: str, wanted: Array, what: str) -> None:
    framework = framework_of(type(result))
    _expect(framework is not None and framework.name == name, f"{what}: it became a {type(result).__name__}")
    # A framework without 0-d arrays has its own types of numbers instead, one for each dtype.
    dtype, shape = getattr(result, "dtype", type(result)), getattr(result, "shape", ())
    kind = f"{dtype_name(dtype)}{tuple(shape)}"
    _expect(kind == f"{wanted.dtype.name}{wanted.shape}", f"{what}: it became {kind}")
    _expect(bits(result) == bits(wanted), f"{what}: {wanted!r} became {result!r}")


def _expect_error(kind: type[Exception], call: Callable[[], Any], *words: str) -> None:
    try:
        result = call()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        _expect(not missing, f"the message does not say {missing}: {error}")
    else:
        raise AssertionError(f"{result!r}, where a {kind.__name__} is expected")


def _expect(condition: bool, message: str) -> None:
    if not condition:  # not an assert statement: python -O removes those
        raise AssertionError(message)
