"""The record that describes a batched simulator, and what a simulator declares about itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Wrapper, spaces
from gymnasium.envs.registration import EnvSpec

from arrayferry.envs._spaces import gymnasium_space

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

__all__ = ["Simulator", "declared_space", "spec_of"]


@dataclass(frozen=True)
class Simulator:
    """How to drive one batched simulator. `SimulatorVectorEnv` does the rest.

    Functions are methods or `functools.partial`, which a copy of the environment has for itself: a closure
    would go on to step the original.

    Attributes:
        env: the environment, in whatever wrappers it came.
        step: `step(actions)` returns what a vector environment's step does; or four values, the third of
            which says whose episode is over, and `"time_outs"` in the last why. It may put `"final_obs"`, a
            batch, into the info.
        autoreset_mode: what happens when an episode ends.
        resets_itself: whether `step` does that by itself.
        reset_rows: `reset_rows(ids, seed, options)` resets some environments, and returns a batch of which
            only their rows are read; None if there is no way to do that.
        has_final_obs: whether `step` returns `"final_obs"` whenever an episode ends.
        framework: the framework of its arrays, on its `device`; None to learn both from the first
            observation.
        takes_seed_lists: whether `reset` takes a seed for each environment.
    """

    env: Any
    step: Callable[[Any], Any]
    autoreset_mode: AutoresetMode
    resets_itself: bool
    reset_rows: Callable[[Any, Any, dict[str, Any]], Any] | None = None
    has_final_obs: bool = False
    framework: str | None = "torch"
    takes_seed_lists: bool = False


def declared_space(env: Any, name: str) -> spaces.Space[Any] | None:
    """Return a space that a simulator, or a wrapper around it, declares; None if there is none."""
    space, count = _find(env, name), _find(env, "num_actions")
    if space is not None:
        return gymnasium_space(space)
    has_count = name == "single_action_space" and isinstance(count, int)
    return spaces.Box(-np.inf, np.inf, (count,)) if has_count else None


def _find(env: Any, name: str) -> Any:
    """Return an attribute of the outermost layer that has it, or None."""
    while isinstance(env, Wrapper) and not hasattr(env, name):
        env = env.env
    return getattr(env, name, None)


def spec_of(env: Any) -> EnvSpec:
    """Return a spec that has a name and a time limit; a simulator cannot be made from it."""
    bare = getattr(env, "unwrapped", env)
    spec: Any = getattr(bare, "spec", None)
    of_wrapper, own = _find(env, "_max_episode_steps"), getattr(bare, "max_episode_length", None)
    limits = of_wrapper, own, getattr(spec, "max_episode_steps", None)
    steps = next(
        (int(float(limit)) for limit in limits if isinstance(limit, Real) and math.isfinite(limit)), None
    )
    name = spec.id if isinstance(spec, EnvSpec) else re.sub(r"\W", "-", type(bare).__name__)
    return EnvSpec(name, max_episode_steps=steps, disable_env_checker=True)
