"""One batched simulator: what it declares, and how it is stepped and reset."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from arrayferry._boundary.detect import layers_of
from arrayferry._core.messages import warn_caller
from arrayferry.envs._spaces import gymnasium_space
from arrayferry.errors import UnsupportedError

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

__all__ = ["Simulator", "consistent_mode", "has_inference_tensors"]


@dataclass(frozen=True)
class Simulator:
    """How to drive one batched simulator. `SimulatorVectorEnv` makes Gymnasium's values of what it returns.

    Attributes:
        env: the environment, in whatever wrappers it came. Its step returns what a vector environment's does;
            or four values, the third of which says whose episode is over, and `"time_outs"` in the last why.
            It may put `"final_obs"`, a batch, into the info.
        autoreset_mode: what happens when an episode ends.
        resets_itself: whether a step does that by itself.
        setting: an object, the name of an attribute, and the value that it has during a step; or None. A
            function must be a method or a `functools.partial`, which a copy of the environment has for
            itself: a closure would go on to use the original.
        resets_by: what takes the indices of the environments to reset: the argument `env_ids`, the option
            `env_idx`, or nothing.
        has_final_obs: whether a step returns `"final_obs"` whenever an episode ends.
        framework: the framework of its arrays, on its `device`; None to learn both from the first
            observation.
        takes_seed_lists: whether its reset takes a seed for each environment.
    """

    env: Any
    autoreset_mode: AutoresetMode
    resets_itself: bool = True
    setting: tuple[Any, str, Any] | None = None
    resets_by: Literal["env_ids", "env_idx"] | None = None
    has_final_obs: bool = False
    framework: str | None = "torch"
    takes_seed_lists: bool = False

    @property
    def inner(self) -> Any:
        """The simulator without wrappers."""
        return getattr(self.env, "unwrapped", self.env)

    def step(self, actions: Any) -> Any:
        """Take a step, with the attribute set."""
        with nullcontext() if self.setting is None else _attribute_set(*self.setting):
            return self.env.step(actions)

    def reset_arguments(self, seed: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return what to pass to the simulator's `reset`, which may take neither a seed nor options."""
        given = {"seed": seed, "options": options or None}
        given = {name: value for name, value in given.items() if value is not None}
        taken = inspect.signature(self.env.reset).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in taken.values())
        for name in sorted(() if takes_all else given.keys() - taken.keys()):
            what = f"reset() of {type(self.env).__name__} takes no {name}"
            if name == "options":
                raise UnsupportedError(what, "leave them out, and set them where the simulator is made")
            warn_caller(
                f"{what}, so that {seed} is ignored: seed it where the simulator is made", UserWarning
            )
            del given[name]
        return given

    def reset_rows(self, ids: Any, seed: Any, options: dict[str, Any]) -> Any:
        """Reset some environments, and return a batch of which only their rows are to be read."""
        if self.resets_by == "env_idx":
            return self.env.reset(seed=seed, options={**options, "env_idx": ids})
        if "env_ids" in inspect.signature(self.env.reset).parameters:
            return self.env.reset(seed=seed, env_ids=ids, options=options)
        # Wrappers do not pass the indices on, and may change the observation.
        with _attribute_set(self.inner, "reset", partial(self.inner.reset, env_ids=ids)):
            return self.env.reset(seed=seed, options=options)

    def find(self, name: str) -> Any:
        """Return an attribute of the outermost layer that has it, or None."""
        layers = *layers_of(self.env), self.inner
        return next((getattr(layer, name) for layer in layers if hasattr(layer, name)), None)

    def space(self, name: str) -> spaces.Space[Any] | None:
        """Return a space that the simulator, or a wrapper around it, declares; None if there is none."""
        space, count = self.find(name), self.find("num_actions")
        if space is not None:
            return gymnasium_space(space)
        has_count = name == "single_action_space" and isinstance(count, int)
        return spaces.Box(-np.inf, np.inf, (count,)) if has_count else None

    def spec(self) -> EnvSpec:
        """Return a spec that has a name and a time limit; a simulator cannot be made from it."""
        spec: Any = getattr(self.inner, "spec", None)
        limit = self.find("_max_episode_steps") or self.find("max_episode_length")
        limit = getattr(spec, "max_episode_steps", None) if limit is None else limit
        steps = int(float(limit)) if isinstance(limit, Real) and math.isfinite(limit) else None
        name = spec.id if isinstance(spec, EnvSpec) else re.sub(r"\W", "-", type(self.inner).__name__)
        return EnvSpec(name, max_episode_steps=steps, disable_env_checker=True)


@contextmanager
def _attribute_set(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of an object, and put it back as it was at the end."""
    is_own, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
        if not is_own:
            delattr(owner, name)


def has_inference_tensors(simulator: Any) -> bool:
    """Return whether a simulator has tensors that were made in torch's inference mode."""
    torch, values = sys.modules.get("torch"), getattr(simulator, "__dict__", {}).values()
    return torch is not None and any(
        isinstance(value, torch.Tensor) and value.is_inference() for value in values
    )


@contextmanager
def consistent_mode(is_inference: bool) -> Iterator[None]:
    """Call a simulator without gradients, and in the mode in which its tensors were made.

    Those of torch's inference mode can be changed in place only there, whatever mode the caller is in; and
    what a step makes outside of it must not meet gradients.
    """
    if (torch := sys.modules.get("torch")) is None:
        yield
        return
    with torch.inference_mode(is_inference), torch.no_grad():
        yield
