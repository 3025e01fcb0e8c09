"""The environment, which steps where Python runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry._boundary.autoreset import autoreset_mode_of, step_with_autoreset
from arrayferry._in_jit.declared import (
    Array,
    Part,
    alone,
    joined,
    part_of_array,
    part_of_example,
    part_of_space,
)
from arrayferry._in_jit.turns import numbers, turns_of
from arrayferry.errors import UnsupportedError
from arrayferry.spaces.structure import step_space
from arrayferry.wrappers import wrap

__all__ = ["Host"]


class Host:
    """An environment whose steps write into arrays that were declared in advance.

    Args:
        env: the environment, of any framework.
        info: as for `in_jit`.
        autoreset: as for `in_jit`.

    Attributes:
        obs: the declared observation.
        action: the declared action; a leaf may have another dtype, if `wrap` can cast it to the declared one.
        parts: all values of a step, declared.
        leaves: the leaves of all parts.
    """

    def __init__(self, env: Any, info: tuple[str, ...] | Mapping[str, Any], autoreset: bool) -> None:
        dense: Any = {"dense_final": True} if isinstance(env, VectorEnv) else {}
        self._env = env = wrap(env, "numpy", **dense)
        is_vector = isinstance(env, VectorEnv)
        if not is_vector and not isinstance(env, gym.Env):
            what = f"{type(env.unwrapped).__qualname__} has many agents"
            raise UnsupportedError(what, "pass a Gymnasium environment, single or vector")
        mode = autoreset_mode_of(env)
        with_same_step = "make it with autoreset_mode=AutoresetMode.SAME_STEP"
        if mode is AutoresetMode.DISABLED:
            what = f"{type(env.unwrapped).__qualname__} does not reset finished environments by itself"
            raise UnsupportedError(what, with_same_step)
        if autoreset and is_vector and mode is not AutoresetMode.SAME_STEP:
            what = "this vector environment does not reset in the step that ends an episode"
            raise UnsupportedError(f"autoreset=True, but {what}", f"{with_same_step}, or leave autoreset out")
        self._resets = autoreset and not is_vector
        self._has_final_obs = self._resets or mode is AutoresetMode.SAME_STEP
        if "final_obs" in info and not self._has_final_obs:
            how = with_same_step if is_vector else "pass autoreset=True"
            what = "there is no final_obs if the step that ends an episode does not reset"
            raise UnsupportedError(what, how, "info")
        self._turns, self._number = turns_of(env.unwrapped), next(numbers)
        batch = (env.num_envs,) if is_vector else ()
        objectives = getattr(env.unwrapped, "reward_space", None)  # as in MO-Gymnasium
        rewards = batch if objectives is None else (*batch, *objectives.shape)
        self.obs = part_of_space("obs", step_space(env, "observation_space"))
        self.action = part_of_space("action", step_space(env, "action_space"))
        flags = [part_of_array(name, batch, bool) for name in ("terminated", "truncated")]
        self.parts = [self.obs, part_of_array("reward", rewards, float), *flags, self._declare_info(info)]
        self.leaves = [leaf for part in self.parts for leaf in part.leaves]
        self._writers = [leaf.writer() for leaf in self.leaves]
        self._is_flat = self.obs.flatten is alone and len(self.leaves) == len(self.parts) - 1

    def reset(self, outs: list[Array], after: Array, seed: Array) -> None:
        """Reset, if `after` is zeros or the newest state; write the new state and the observation."""
        with self._turns.lock:
            if after.any():
                self._turns.check(after, self._number)
            obs, _ = self._env.reset(seed=int(seed))
            self._write(outs, self.obs.flatten(obs))

    def step(self, outs: list[Array], state: Array, *action: Array) -> None:
        """Step with an action, if this is the newest state; write the next one and all leaves.

        XLA's memory is gone after the call. What the environment gets is its own: `wrap` makes sure of that.
        """
        with self._turns.lock:
            self._turns.check(state, self._number)
            values = self._take_step(self.action.build(iter(action)))
            self._write(outs, values if self._is_flat else self._flatten(values))

    def _take_step(self, action: Any) -> Any:
        if not self._resets:
            return self._env.step(action)
        step, mode = partial(self._env.step, action), AutoresetMode.SAME_STEP
        *values, info, final = step_with_autoreset(step, self._env.reset, mode, is_over=False)
        if final is not None:  # the declared infos are those of the step
            info = {**final["final_info"], "final_obs": final["final_obs"]}
        return *values, info

    def _write(self, outs: list[Array], values: Iterable[Any]) -> None:
        self._turns.end(outs[0], self._number)
        for write, out, value in zip(self._writers, outs[1:], values):
            write(out, value)

    def _flatten(self, values: tuple[Any, ...]) -> Iterator[Any]:
        for part, value in zip(self.parts, values):
            yield from part.flatten(value)

    def _declare_info(self, info: tuple[str, ...] | Mapping[str, Any]) -> Part:
        if isinstance(info, Mapping):
            examples = {name: [one] for name, one in info.items()}
        else:
            examples = self._first_infos(info)
        parts = {
            name: self.obs if name == "final_obs" else part_of_example(f'info["{name}"]', *found)
            for name, found in examples.items()
        }
        zeros = {
            name: [np.zeros(leaf.shape, leaf.dtype) for leaf in part.leaves] for name, part in parts.items()
        }

        def flatten(found: dict[str, Any]) -> Iterator[Any]:
            for name, part in parts.items():
                yield from part.flatten(found[name]) if name in found else zeros[name]

        return joined(parts, flatten)

    def _first_infos(self, names: tuple[str, ...]) -> dict[str, list[Any]]:
        """Look up the named infos in those of a first reset and step."""
        wanted = [name for name in names if name != "final_obs"]
        infos: list[dict[str, Any]] = []
        if wanted:
            space = deepcopy(step_space(self._env, "action_space"))  # its own must not be seeded
            space.seed(0)
            infos = [self._env.reset(seed=0)[1], self._env.step(space.sample())[-1]]
        found = {name: [one[name] for one in infos if name in one] for name in names}
        for name in wanted:
            if not found[name]:
                there = [*{**infos[0], **infos[1]}, *["final_obs"] * self._has_final_obs]
                known = f"; there are: {', '.join(there)}" if there else ""
                hint = f'give an example of it, info={{"{name}": ...}}{known}'
                raise UnsupportedError(f"no info {name!r} in the first reset or step", hint, "info")
        return found
