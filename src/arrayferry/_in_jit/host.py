"""The environment, which steps where Python runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry._boundary.autoreset import autoreset_mode_of, step_with_autoreset
from arrayferry._frameworks.jax import jax
from arrayferry._in_jit.declared import Array, Declared, Leaf, leaf_of, like_examples, like_space
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
        values: all values of a step, declared.
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
        self.obs = Declared("obs", like_space("obs", step_space(env, "observation_space")))
        self.action = Declared("action", like_space("action", step_space(env, "action_space")))
        reward = leaf_of("reward", rewards, float)
        flags = [leaf_of(name, batch, bool) for name in ("terminated", "truncated")]
        if isinstance(info, Mapping):
            examples = {name: [one] for name, one in info.items()}
        else:
            examples = self._first_infos(info)
        forms = {name: like_examples(f'info["{name}"]', *found) for name, found in examples.items()}
        self._info = Declared("info", forms, is_whole=False)
        self._no_info = _zeros(forms)
        self.values = Declared("step", (self.obs.form, reward, *flags, self._info.form))
        self._writers = [leaf.writer() for leaf in self.values.leaves]
        self._is_flat = isinstance(self.obs.form, Leaf) and not self._info.leaves

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
            values = self._take_step(self.action.build(action))
            self._write(outs, values if self._is_flat else self._flatten(*values))

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

    def _flatten(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Iterator[Any]:
        yield from self.obs.flatten(obs)
        yield from (reward, terminated, truncated)
        yield from self._info.flatten({**self._no_info, **info})

    def _first_infos(self, names: tuple[str, ...]) -> dict[str, list[Any]]:
        """Return examples of the named infos: those of a first reset and step."""
        infos: list[dict[str, Any]] = []
        if set(names) - {"final_obs"}:
            space = deepcopy(step_space(self._env, "action_space"))  # its own must not be seeded
            space.seed(0)
            infos = [self._env.reset(seed=0)[1], self._env.step(space.sample())[-1]]
        found = {name: [one[name] for one in infos if name in one] for name in chain(*infos)}
        if self._has_final_obs:
            found["final_obs"] = [_zeros(self.obs.form)]
        for name in names:
            if name not in found:
                known = f"; there are: {', '.join(found)}" if found else ""
                hint = f'give an example of it, info={{"{name}": ...}}{known}'
                raise UnsupportedError(f"no info {name!r} in the first reset or step", hint, "info")
        return {name: found[name] for name in names}


def _zeros(form: Any) -> Any:
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), form)
