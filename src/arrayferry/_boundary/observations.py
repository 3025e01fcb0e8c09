"""What options do to observations before the conversion: cast them to their space, stack final ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Tuple
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry._core.convert import convert
from arrayferry._core.registry import describe
from arrayferry.errors import FerryError, UnsupportedError
from arrayferry.spaces.casting import cast_to_space, rebuilt

__all__ = ["Prepare", "cast_observations", "stack_final"]

# Maps the values that a step or a reset returned to those that are to be converted.
Prepare: TypeAlias = Callable[[tuple[Any, ...]], tuple[Any, ...]]

_FINAL = 'info["final_obs"]'


def cast_observations(env: Any, share: bool, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a step or reset, with all observations in the dtypes of their space."""
    obs, *rest, info = values

    def cast(final: Any, has_rows: bool) -> Any:
        if not has_rows:
            return cast_to_space(env.observation_space, final, _FINAL, share)
        space = env.single_observation_space
        return rebuilt(
            final, lambda i, row: None if row is None else cast_to_space(space, row, f"{_FINAL}[{i}]", share)
        )

    return cast_to_space(env.observation_space, obs, "obs", share), *rest, _with_final(env, info, cast)


def stack_final(env: VectorEnv[Any, Any, Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a step, with final observations as one batch instead of an object array."""
    *others, info = values
    if len(others) == 1:  # those of a reset
        return values
    count = len(others[1])  # rewards: fewer than there are environments, from `recv`

    def stack(final: Any, has_rows: bool) -> Any:
        return _batch(env, final, count) if has_rows else final

    return *others, _with_final(env, info, stack)


def _with_final(env: Any, info: Any, change: Callable[[Any, bool], Any]) -> Any:
    """Return an info with its final observations changed: `change` is told whether they are rows."""
    final = info.get("final_obs") if isinstance(env, VectorEnv) and isinstance(info, Mapping) else None
    if final is None:
        return info
    new = change(final, _has_rows(env, final))
    return rebuilt(info, lambda key, value: new if key == "final_obs" else value)


def _has_rows(env: VectorEnv[Any, Any, Any], final: Any) -> bool:
    """Return whether there is one observation or None per environment, and not one batch for all."""
    if isinstance(final, np.ndarray):
        return bool(final.dtype == object)
    if not isinstance(final, Sequence) or len(final) != env.num_envs:
        return isinstance(final, list)
    # A batch of a Tuple space is a tuple, too.
    is_batch = isinstance(final, tuple) and isinstance(env.single_observation_space, Tuple)
    return not is_batch or any(row is None for row in final)


def _batch(env: VectorEnv[Any, Any, Any], final: Any, count: int) -> Any:
    """Return the final observations as one batch, with zeros for the environments that go on."""
    space = env.single_observation_space
    batch: Any = create_empty_array(space, n=count, fn=np.zeros)
    zeros = iterate(batch_space(space, count), batch)
    try:
        rows = [
            zero if row is None else cast_to_space(space, row, f"{_FINAL}[{index}]", on_keep=_refuse)
            for index, (row, zero) in enumerate(zip(convert(final, "numpy"), zeros, strict=True))
        ]
        return concatenate(space, rows, batch)
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, FerryError):
            raise
        what = f"a final observation does not match {space}: {error}"
        raise UnsupportedError(what, "fix the observation, or leave dense_final out", _FINAL) from error


def _refuse(name: str, path: Callable[[], str], value: Any) -> None:
    what = f"{describe(value)} is not what the observation space declares"
    raise UnsupportedError(what, "fix the observation, or leave dense_final out", path())
