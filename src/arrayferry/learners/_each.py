"""What each environment of a vector is asked, and what it says, wherever it is.

Workers import this file, and need not have a learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Wrapper
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from arrayferry.errors import UnsupportedError
from arrayferry.scale import ProcessVectorEnv, RayVectorEnv
from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers.vector._batches import info_rows

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["SEPARATE", "WITH_WORKERS", "as_given", "call_each", "is_each_in", "set_each", "with_scalars"]

WITH_WORKERS = ProcessVectorEnv, RayVectorEnv
# Vector environments that have an environment for each row; others are one object.
SEPARATE = SyncVectorEnv, AsyncVectorEnv, *WITH_WORKERS

Info = dict[str, Any]


class _UnknownError(UnsupportedError, AttributeError):
    """What `VecMonitor` takes for False, and nobody else."""


def call_each(envs: Any, rows: Sequence[int], name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
    """Call a method of some environments; `get_wrapper_attr`, which all of them have, reads an attribute."""
    if isinstance(envs, SyncVectorEnv):
        return [_call(envs.envs[row], name, *args, **kwargs) for row in rows]
    if isinstance(envs, WITH_WORKERS):
        return list(envs.run_on(rows, _call, name, *args, **kwargs))
    return _call_async(envs, rows, name, *args, **kwargs)


def set_each(envs: Any, rows: Sequence[int], name: str, value: Any) -> None:
    """Set an attribute of some environments; the successors of workers that die have it, too."""
    if isinstance(envs, WITH_WORKERS):
        envs.set_attr_of(rows, name, [value] * len(rows))
    else:
        call_each(envs, rows, "set_wrapper_attr", name, value)


def is_each_in(envs: Any, rows: Sequence[int], wrapper_class: type) -> list[bool]:
    """Return of some environments whether they are in a wrapper."""
    if isinstance(envs, SyncVectorEnv):
        return [any(isinstance(layer, wrapper_class) for layer in _layers(envs.envs[row])) for row in rows]
    if isinstance(envs, WITH_WORKERS):
        # By name: unpickling a class would import its package, and what that needs, in every worker.
        return list(envs.run_on(rows, _is_in, _name_of(wrapper_class)))
    what = f"an {type(envs).__name__} cannot be asked for the wrappers of its environments"
    raise _UnknownError(what, "use a ProcessVectorEnv; to evaluate a policy, VecMonitor(venv) will do")


def _call(env: gym.Env[Any, Any], name: str, /, *args: Any, **kwargs: Any) -> Any:
    return env.get_wrapper_attr(name)(*args, **kwargs)


def _call_async(envs: Any, rows: Sequence[int], name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
    # First, because an AttributeError would end the worker.
    asked = args[0] if name == "get_wrapper_attr" else name
    if not all(envs.call("has_wrapper_attr", asked)):
        raise AttributeError(f"the environments have no attribute {asked!r}")
    if rows == list(range(envs.num_envs)):
        return list(envs.call(name, *args, **kwargs))
    results = []
    for row in rows:  # `call` cannot be told which
        envs.parent_pipes[row].send(("_call", (name, args, kwargs)))
        result, is_good = envs.parent_pipes[row].recv()
        envs._raise_if_errors([is_good or other != row for other in range(envs.num_envs)])
        results.append(result)
    return results


def _layers(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    while isinstance(env, Wrapper):
        yield env
        env = env.env


def _is_in(env: gym.Env[Any, Any], name: tuple[str, str]) -> bool:
    return any(name == _name_of(base) for layer in _layers(env) for base in type(layer).__mro__)


def _name_of(cls: type) -> tuple[str, str]:
    """Return what tells a class from others; workers may know the user's script by another name."""
    return cls.__module__.replace("__mp_main__", "__main__"), cls.__qualname__


@contextmanager
def as_given(envs: VectorEnv[Any, Any, Any]) -> Iterator[Callable[[Info], list[Info]]]:
    """Yield a function from the infos of a step or reset in this context to those that each environment gave.

    Gymnasium casts the infos of all environments to what the first one says: 0.5 next to 1 is 0.
    """
    inner: Any = envs.unwrapped
    given: list[Info] = [{} for _ in range(inner.num_envs)]
    add = inner._add_info

    def keep(infos: Info, info: Info, index: int) -> Info:
        given[index].update(info)
        is_fault = isinstance(inner, WITH_WORKERS) and "fault" in info  # which the vector itself reads
        return add(infos, info, index) if is_fault else infos

    inner._add_info = keep
    try:
        yield lambda infos: [
            {**row, **with_scalars(to_numpy(info))} for row, info in zip(info_rows(infos, len(given)), given)
        ]
    finally:
        del inner._add_info


def with_scalars(value: Any) -> Any:
    """Return a structure with NumPy scalars instead of 0-d arrays, as in a Discrete space."""
    if isinstance(value, dict):
        return {key: with_scalars(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(with_scalars, value))
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value
