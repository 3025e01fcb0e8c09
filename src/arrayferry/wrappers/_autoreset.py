"""Autoreset and final observations: what happens at the end of an episode in a vector environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Tuple
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry._core.convert import convert
from arrayferry._core.registry import describe
from arrayferry.errors import FerryError, OptionError, UnsupportedError
from arrayferry.spaces.casting import cast_to_space, rebuilt
from arrayferry.wrappers._answers import STEP, checked

__all__ = [
    "autoreset_mode_of",
    "known_autoreset_mode",
    "reset_finished",
    "resets_itself",
    "with_cast_final",
    "with_dense_final",
]


def known_autoreset_mode(mode: Any) -> AutoresetMode:
    """Return an autoreset mode, given as itself or by its value."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        *others, last = (f'{one} ("{one.value}")' for one in AutoresetMode)
        hint = f"pass {', '.join(others)} or {last}"
        raise OptionError(f"autoreset_mode={mode!r} is not valid", hint) from None


def autoreset_mode_of(env: Any) -> AutoresetMode | None:
    """Return what a vector environment does when an episode ends; None if it does not say."""
    mode = env.metadata.get("autoreset_mode") if isinstance(env, VectorEnv) else None
    return None if mode is None else known_autoreset_mode(mode)


def resets_itself(env: Any) -> bool:
    """Return whether an environment starts its next episode by itself."""
    return isinstance(env, VectorEnv) and autoreset_mode_of(env) is not AutoresetMode.DISABLED


def reset_finished(env: Any, terminated: Any, truncated: Any) -> None:
    """Reset what has finished its episode, if the environment does not do that by itself."""
    if not isinstance(env, VectorEnv):
        if _is_over(terminated) or _is_over(truncated):
            env.reset()
    elif not resets_itself(env):
        done = np.logical_or(*convert((terminated, truncated), "numpy"))
        if done.any():
            env.reset(options={"reset_mask": done})


def _has_rows(env: VectorEnv[Any, Any, Any], final: Any) -> bool:
    """Return whether there is one observation or None per environment, and not one batch for all."""
    if isinstance(final, np.ndarray):
        return bool(final.dtype == object)
    if not isinstance(final, Sequence) or len(final) != env.num_envs:
        return isinstance(final, list)
    # A batch of a Tuple space is a tuple, too.
    is_batch = isinstance(final, tuple) and isinstance(env.single_observation_space, Tuple)
    return not is_batch or any(row is None for row in final)


def _with_final(env: Any, info: Any, change: Callable[[Any, bool], Any]) -> Any:
    """Return an info with its final observations changed: `change` is told whether they are rows."""
    final = info.get("final_obs") if isinstance(env, VectorEnv) and isinstance(info, Mapping) else None
    if final is None:
        return info
    new = change(final, _has_rows(env, final))
    return rebuilt(info, lambda key, value: new if key == "final_obs" else value)


def with_cast_final(env: Any, share: bool, info: Any) -> Any:
    """Return an info with its final observations in the dtypes of their space."""
    path = 'info["final_obs"]'

    def cast(final: Any, has_rows: bool) -> Any:
        if not has_rows:
            return cast_to_space(env.observation_space, final, path, share)
        space = env.single_observation_space
        return rebuilt(
            final,
            lambda index, row: None if row is None else cast_to_space(space, row, f"{path}[{index}]", share),
        )

    return _with_final(env, info, cast)


def _is_over(flag: Any) -> bool:
    """Return whether an episode is over; with many agents, by RLlib's `__all__`, or if all are done."""
    if isinstance(flag, Mapping):
        return bool(flag.get("__all__", flag and all(flag.values())))
    return bool(flag)


def with_dense_final(env: VectorEnv[Any, Any, Any], result: Any) -> tuple[Any, ...]:
    """Return a step's result, with its final observations as one batch instead of an object array."""
    *others, info = checked("step", STEP, result)
    change = lambda final, has_rows: _batch(env, final) if has_rows else final  # noqa: E731
    return (*others, _with_final(env, info, change))


def _refuse(name: str, path: Callable[[], str], value: Any) -> None:
    what = f"{describe(value)} is not what the observation space declares"
    raise UnsupportedError(what, "fix the observation, or leave dense_final out", path())


def _batch(env: VectorEnv[Any, Any, Any], final: Any) -> Any:
    """Return the final observations as one batch, with zeros for the environments that go on."""
    path = 'info["final_obs"]'
    space, count = env.single_observation_space, env.num_envs
    batch: Any = create_empty_array(space, n=count, fn=np.zeros)
    zeros = iterate(batch_space(space, count), batch)
    try:
        rows = [
            zero if row is None else cast_to_space(space, row, f"{path}[{index}]", on_keep=_refuse)
            for index, (row, zero) in enumerate(zip(convert(final, "numpy"), zeros, strict=True))
        ]
        return concatenate(space, rows, batch)
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, FerryError):
            raise
        what = f"a final observation does not match {space}: {error}"
        raise UnsupportedError(what, "fix the observation, or leave dense_final out", path) from error
