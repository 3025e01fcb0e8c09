"""What each environment of a vector is asked, and what it says, wherever it is.

Workers import this file, and need not have a learner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from gymnasium import Env, Wrapper
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from arrayferry._boundary.autoreset import autoreset_mode_of, info_rows
from arrayferry.envs.simulators import SimulatorVectorEnv
from arrayferry.errors import UnsupportedError
from arrayferry.scale import ProcessVectorEnv, RayVectorEnv
from arrayferry.spaces.members import to_numpy

WITH_WORKERS = ProcessVectorEnv, RayVectorEnv
# Vector environments that have an environment for each row; others are one object.
SEPARATE = SyncVectorEnv, AsyncVectorEnv, *WITH_WORKERS

Info = dict[str, Any]


class _UnknownError(UnsupportedError, AttributeError):
    """What `VecMonitor` takes for False, and nobody else."""


def refuse_without_final(envs: VectorEnv[Any, Any, Any], learner: str) -> None:
    """Refuse a simulator without final observations, or one that is never reset and cannot reset rows."""
    inner: Any = envs.unwrapped
    is_disabled = autoreset_mode_of(envs) is AutoresetMode.DISABLED
    if not isinstance(inner, SimulatorVectorEnv):
        return
    if not (inner.takes_reset_mask if is_disabled else inner.has_final_obs):
        lacks = "cannot reset only some of its environments" if is_disabled else "gives no final observations"
        how = "arrayferry.envs.as_gymnasium(env, final_obs=True), where it can be asked for those"
        hint = f"pass {how}, or use rsl_rl_vec_env or a loop that does without"
        raise UnsupportedError(f"{inner.name} {lacks}, and {learner} needs that", hint)


def call_each(envs: Any, rows: Sequence[int], name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
    """Call a method of some environments; `get_wrapper_attr`, which all of them have, reads an attribute."""
    if not isinstance(envs, SEPARATE):
        if len(rows) < envs.num_envs and name not in _READING:
            what = f"{name} for only some environments: {type(envs).__name__} takes it for all"
            raise UnsupportedError(what, "leave indices out, or use a SyncVectorEnv")
        method = partial(_BY_BUILTINS[name], envs) if name in _BY_BUILTINS else getattr(envs, name)
        return [method(*args, **kwargs)] * len(rows)
    if not isinstance(envs, AsyncVectorEnv):
        return _run_on(envs, rows, _call, name, *args, **kwargs)
    asked = args[0] if name == "get_wrapper_attr" else name
    if not all(envs.call("has_wrapper_attr", asked)):  # asked first, because an error ends the worker
        raise AttributeError(f"the environments have no attribute {asked!r}")
    pipes: Any = [envs.parent_pipes[row] for row in rows]  # because `call` asks all environments
    for pipe in pipes:
        pipe.send(("_call", (name, args, kwargs)))
    answers = [pipe.recv() for pipe in pipes]
    not_asked = [True] * (envs.num_envs - len(rows))
    envs._raise_if_errors([*(is_good for _, is_good in answers), *not_asked])
    return [result for result, _ in answers]


# What single environments have methods for, and vector environments have not.
_BY_BUILTINS: Any = {"has_wrapper_attr": hasattr, "get_wrapper_attr": getattr, "set_wrapper_attr": setattr}

# What may be asked of one object for some of its rows: hindsight replay asks one environment for any goals.
_READING = ("has_wrapper_attr", "get_wrapper_attr", "compute_reward")


def is_each_in(envs: Any, rows: Sequence[int], wrapper_class: type) -> list[bool]:
    """Return of some environments whether they are in a wrapper; one object for all is in none."""
    if isinstance(envs, AsyncVectorEnv):
        what = "an AsyncVectorEnv cannot be asked for the wrappers of its environments"
        raise _UnknownError(what, "use a ProcessVectorEnv; to evaluate a policy, VecMonitor(venv) will do")
    if not isinstance(envs, SEPARATE):
        return [False] * len(rows)
    # By name: unpickling a class would import its package, and what that needs, in every worker.
    return _run_on(envs, rows, _is_in, _name_of(wrapper_class))


def _run_on(envs: Any, rows: Sequence[int], function: Any, /, *args: Any, **kwargs: Any) -> list[Any]:
    if isinstance(envs, SyncVectorEnv):
        return [function(envs.envs[row], *args, **kwargs) for row in rows]
    return list(envs.run_on(rows, function, *args, **kwargs))


def _call(env: Env[Any, Any], name: str, /, *args: Any, **kwargs: Any) -> Any:
    return env.get_wrapper_attr(name)(*args, **kwargs)


def _is_in(env: Any, name: str) -> bool:
    while isinstance(env, Wrapper) and name not in map(_name_of, type(env).__mro__):
        env = env.env
    return isinstance(env, Wrapper)


def _name_of(cls: type) -> str:
    """Return the name of a class; workers may know the user's script by another one."""
    return f"{cls.__module__}.{cls.__qualname__}".replace("__mp_main__", "__main__")


def with_rows(
    envs: VectorEnv[Any, Any, Any], is_bare: bool, call: Callable[[], Any]
) -> tuple[list[Any], list[Info]]:
    """Return what a step or reset returns, and in place of its infos those that each environment gave.

    Gymnasium casts the infos of all environments to what the first one says: 0.5 next to 1 is 0. That remains
    unless the vector is bare: a wrapper may read them.
    """
    inner: Any = envs.unwrapped
    add, given = inner._add_info, [dict[str, Any]() for _ in range(envs.num_envs)]

    def keep(infos: Info, info: Info, index: int) -> Info:
        given[index].update(info)
        is_fault = isinstance(inner, WITH_WORKERS) and "fault" in info  # which the vector itself reads
        return add(infos, info, index) if is_fault else infos

    if is_bare:
        inner._add_info = keep
    try:
        *values, infos = call()
    finally:
        vars(inner).pop("_add_info", None)
    rows = zip(info_rows(infos, len(given)), given)
    # Copies, also of what is no array, such as a set: the environments may go on using it.
    return values, [with_scalars({**row, **deepcopy(to_numpy(info))} if info else row) for row, info in rows]


def with_scalars(value: Any) -> Any:
    """Return a structure with NumPy scalars instead of 0-d arrays, as in a Discrete space."""
    if isinstance(value, dict):
        return {key: with_scalars(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(with_scalars, value))
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value
