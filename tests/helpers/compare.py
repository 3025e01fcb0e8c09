"""Is this what came out of the environment, seen from another framework? Leaf by leaf, bit by bit.

Nothing here uses arrayferry to judge what arrayferry did.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

import arrayferry

# Gymnasium's own statistics and autoreset modes were not always right before.
GYMNASIUM_IS_RIGHT = tuple(map(int, gym.__version__.split(".")[:2])) >= (1, 4)

# They want a process of their own.
SEPARATE = frozenset({"tensorflow", "paddle"})

# What JAX holds instead of 64-bit values, unless it is told otherwise.
KIN = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}

_TYPES = {
    "numpy": ("numpy", "ndarray"),
    "torch": ("torch", "Tensor"),
    "jax": ("jax", "Array"),
    "dask": ("dask.array", "Array"),
    "mlx": ("mlx.core", "array"),
    "sparse": ("sparse", "SparseArray"),
}


def array_type_of(target: str) -> type:
    """The type of a framework's arrays, from its own module where we know it."""
    if target not in _TYPES:
        return type(arrayferry.convert(np.zeros(1), target))
    module, name = _TYPES[target]
    found: type = getattr(__import__(module, fromlist=[name]), name)
    return found


def seen(array: Any) -> np.ndarray:
    """An array of any framework, as NumPy sees it by the framework's own means."""
    if hasattr(array, "compute"):  # dask
        array = array.compute()
    if hasattr(array, "todense"):  # sparse
        array = array.todense()
    if hasattr(array, "detach"):  # torch
        array = array.detach()
    try:
        return np.asarray(array)
    except (TypeError, RuntimeError):
        return np.from_dlpack(array)


def held(dtype: Any, target: str) -> np.dtype:
    """The dtype that a target gives to values of this one."""
    name = np.dtype(dtype).name
    if target == "jax":
        return np.dtype(KIN.get(name, name))
    if target == "array_api_strict" and name == "float16":
        return np.dtype("float32")  # the standard has no float16
    if target == "mlx" and name in ("float64", "complex128"):
        import mlx.core as mx

        return np.dtype(KIN[name] if name == "complex128" or mx.default_device().type != mx.cpu else name)
    return np.dtype(name)


def assert_array(got: Any, want: Any, target: str, where: str = "value") -> None:
    """`got` is the target's array, with the shape, the dtype and the bits of `want`."""
    assert isinstance(got, array_type_of(target)), f"{where}: {type(got)} is no array of {target}"
    found, wanted = seen(got), seen(want)
    assert found.shape == wanted.shape, f"{where}: {found.shape} instead of {wanted.shape}"
    wanted = wanted.astype(held(wanted.dtype, target))
    assert found.dtype == wanted.dtype, f"{where}: {found.dtype} instead of {wanted.dtype}"
    assert found.tobytes() == wanted.tobytes(), f"{where}: {found} instead of {wanted}"


def assert_crossed(got: Any, want: Any, target: str, where: str = "value") -> None:
    """`got` is what `want` becomes for an agent of the target framework: structure, types, bits."""
    if isinstance(want, (Mapping, tuple, list)):
        assert type(got) is type(want), f"{where}: {type(got)} instead of {type(want)}"
        assert len(got) == len(want), f"{where}: {len(got)} items instead of {len(want)}"
        if isinstance(want, Mapping):
            assert list(got) == list(want), f"{where}: {list(got)} instead of {list(want)}"
        for key in want if isinstance(want, Mapping) else range(len(want)):
            assert_crossed(got[key], want[key], target, f"{where}[{key!r}]")
    elif isinstance(want, np.ndarray) and want.dtype == object:
        assert isinstance(got, np.ndarray), where
        assert (got.dtype, got.shape) == (want.dtype, want.shape), where
        for index in np.ndindex(want.shape):
            assert_crossed(got[index], want[index], target, f"{where}{list(index)}")
    elif want is None or isinstance(want, (bool, str, bytes)):
        assert type(got) is type(want), f"{where}: {got!r} instead of {want!r}"
        assert got == want, f"{where}: {got!r} instead of {want!r}"
    elif isinstance(want, (int, float)):
        assert isinstance(got, array_type_of(target)), f"{where}: {type(got)}"
        assert seen(got).shape == (), f"{where}: {got}"
        assert seen(got) == seen(got).dtype.type(want), f"{where}: {got} instead of {want}"
    else:
        assert_array(got, want, target, where)


def assert_same_form(got: Any, want: Any, where: str = "value") -> None:
    """The same types, dtypes, shapes and bits, all the way down; of one framework, whichever."""
    assert type(got) is type(want), f"{where}: {type(got)} instead of {type(want)}"
    if isinstance(want, Mapping):
        assert list(got) == list(want), f"{where}: {list(got)} instead of {list(want)}"
        for key in want:
            assert_same_form(got[key], want[key], f"{where}[{key!r}]")
    elif isinstance(want, (tuple, list)) or (isinstance(want, np.ndarray) and want.dtype == object):
        assert len(got) == len(want), f"{where}: {len(got)} items instead of {len(want)}"
        for index, (one, other) in enumerate(zip(got, want)):
            assert_same_form(one, other, f"{where}[{index}]")
    elif hasattr(want, "shape"):
        one, other = seen(got), seen(want)
        assert (one.dtype, one.shape) == (other.dtype, other.shape), f"{where}: {one!r} instead of {other!r}"
        assert one.tobytes() == other.tobytes(), f"{where}: {one} instead of {other}"
    else:
        assert got == want, f"{where}: {got!r} instead of {want!r}"


def public_names(module: ModuleType) -> set[str]:
    """What a module offers: what it lists, and what it defines and does not call private."""
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    }
    return defined | set(getattr(module, "__all__", ()))


def arrays_in(value: Any) -> list[Any]:
    """Return every NumPy array and tensor in a structure of dicts, lists and tuples."""
    if type(value) is np.ndarray or type(value).__module__.startswith("torch"):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [array for one in value for array in arrays_in(one)]
