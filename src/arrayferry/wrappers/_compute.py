"""How Gymnasium's wrappers that compute do so for every framework: in NumPy, with Gymnasium's own code.

What they make comes back in the framework, and on the device, of the arrays that it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import dtype_name
from arrayferry._core.framework import Framework
from arrayferry._core.registry import framework_of, source_of
from arrayferry.spaces.members import to_numpy

__all__ = [
    "ObservationInNumpy",
    "Rebuilt",
    "RewardInNumpy",
    "StepInNumpy",
    "as_numpy",
    "at_once",
    "in_numpy",
    "numpy_inside",
    "restored",
    "with_numpy_mask",
]

# Types of arrays and numbers that Gymnasium's own code handles, recognised without a lookup.
_NUMPY = frozenset({np.ndarray, np.float64, np.float32, np.int64, float, int, bool})

_OBSERVATION, _REWARD_AND_DONES = slice(0, 1), slice(1, 4)


def origin_of(value: Any) -> Converter | None:
    """Return a converter to where the first array in a value is; None if that is NumPy, or no array is."""
    if type(value) in _NUMPY:
        return None
    if isinstance(value, (dict, tuple, list, Mapping)):
        parts = value.values() if isinstance(value, (dict, Mapping)) else value
        return next(filter(None, map(origin_of, parts)), None)
    framework = framework_of(type(value))
    if framework is None or framework.name == "numpy":
        return None
    return _converter(framework, source_of(value).device_of(value))


@lru_cache(64)
def _converter(framework: Framework, device: Any) -> Converter:
    return Converter(framework, device)


def as_numpy(value: Any) -> Any:
    """Return a value with its arrays in NumPy; itself if they are."""
    return value if origin_of(value) is None else to_numpy(value)


def restored(new: Any, old: Any, *, keep_float: bool = False) -> Any:
    """Return what Gymnasium's code made of a value in NumPy, where the value's arrays are.

    Args:
        new: what it made.
        old: the value.
        keep_float: whether a float keeps its dtype, if it is another framework's.
    """
    origin = origin_of(old)
    if origin is None:
        return new
    if keep_float and "float" in (dtype := dtype_name(old.dtype)):
        new = np.asarray(new).astype(dtype)
    return origin(new)


def in_numpy(function: Callable[[Any], Any], value: Any) -> Any:
    """Call a function with a value's arrays in NumPy; return what it returns where they were."""
    return restored(function(as_numpy(value)), value)


class ObservationInNumpy:
    """Computes the observation in NumPy; a base class to the left of Gymnasium's."""

    def observation(self, observation: Any) -> Any:
        """Return the observation as the wrapper makes it."""
        return in_numpy(super().observation, observation)  # type: ignore[misc]


class StepInNumpy:
    """Has Gymnasium's `step` and `reset` see observations in NumPy; a base class to the left of theirs."""

    def step(self, action: Any) -> Any:
        """Take a step."""
        with numpy_inside(self, _OBSERVATION) as env:
            obs, *rest = super().step(action)  # type: ignore[misc]
        return restored(obs, env.result[0]), *rest

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        with numpy_inside(self, _OBSERVATION) as env:
            obs, info = super().reset(seed=seed, options=options)  # type: ignore[misc]
        return restored(obs, env.result[0]), info


class RewardInNumpy:
    """Has Gymnasium's `step` see rewards and dones in NumPy; a base class to the left of theirs."""

    def step(self, action: Any) -> Any:
        """Take a step, and change its reward; a float keeps its dtype in other frameworks than NumPy."""
        with numpy_inside(self) as env:
            obs, reward, *_, info = super().step(action)  # type: ignore[misc]
        _, old, *dones, _ = env.result
        return obs, restored(reward, old, keep_float=True), *dones, info


@contextmanager
def numpy_inside(wrapper: Any, parts: slice = _REWARD_AND_DONES) -> Iterator[_NumpyEnv]:
    """Let a wrapper's own code see some of what its environment returns in NumPy."""
    env = wrapper.env
    wrapper.env = _NumpyEnv(env, parts)
    try:
        yield wrapper.env
    finally:
        wrapper.env = env


class _NumpyEnv:
    """An environment of which some of the values are NumPy's.

    Attributes:
        result: what the environment returned last.
    """

    def __init__(self, env: Any, parts: slice) -> None:
        self._env, self._parts = env, parts
        self.result: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, action: Any) -> tuple[Any, ...]:
        return self._seen(self._env.step(action))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, ...]:
        # A copy, because Gymnasium's environments remove the mask from it.
        return self._seen(self._env.reset(seed=seed, options=options and {**options}))

    def _seen(self, result: tuple[Any, ...]) -> tuple[Any, ...]:
        self.result, values = result, list(result)
        if len(values) > 2 or self._parts is _OBSERVATION:  # a reset has no reward
            values[self._parts] = as_numpy(result[self._parts])  # with one wait for a device
        return tuple(values)


class Rebuilt:
    """Leaves out Gymnasium's functions, which cannot be pickled, and makes them again."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not isinstance(value, FunctionType)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(type(self)(state["env"], **state["_saved_kwargs"])) | state)  # type: ignore[call-arg]


# ---- vector environments -----------------------------------------------------------------------------


def at_once(vectorized: Any, values: Any, shape: Any, one_by_one: Callable[[Any], Any]) -> Any:
    """Call a vectorized wrapper's function with a whole batch, if it has this shape.

    The elements and their dtype are those that Gymnasium gets one by one.
    """

    def compute(batch: Any) -> Any:
        if not isinstance(batch, np.ndarray) or batch.shape != shape:
            return one_by_one(batch)
        dtype = batch.dtype if vectorized.same_out else vectorized.out.dtype
        return vectorized.wrapper.func(batch).astype(dtype, casting="same_kind", copy=False)

    return in_numpy(compute, values)


def with_numpy_mask(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a copy of a reset's options with a NumPy `reset_mask`, which Gymnasium's wrappers need."""
    if options is None or "reset_mask" not in options:
        return options
    return {**options, "reset_mask": to_numpy(options["reset_mask"])}
