"""What is done to the results of an environment before they are converted, when an option asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from arrayferry.spaces.casting import cast_to_space
from arrayferry.wrappers._answers import RESET, STEP, checked
from arrayferry.wrappers._autoreset import with_cast_final

__all__ = ["Prepare", "cast_reset", "cast_step"]

# Maps what a step or a reset returned to what is to be converted.
Prepare: TypeAlias = Callable[[Any], tuple[Any, ...]]


def cast_step(env: Any, share: bool, result: Any) -> tuple[Any, ...]:
    """Return a step's result, with its observations, final ones too, in the dtypes of their space."""
    obs, *rest, info = checked("step", STEP, result)
    return (
        cast_to_space(env.observation_space, obs, "obs", share),
        *rest,
        with_cast_final(env, share, info),
    )


def cast_reset(env: Any, share: bool, result: Any) -> tuple[Any, ...]:
    """Return a reset's result, with its observation in the dtypes of its space."""
    obs, info = checked("reset", RESET, result)
    return cast_to_space(env.observation_space, obs, "obs", share), info
