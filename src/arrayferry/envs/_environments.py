"""Gymnasium environments, single and vector, on top of functions that JAX has compiled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from operator import itemgetter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from arrayferry._boundary.autoreset import final_of, mask_of, masked_infos
from arrayferry._boundary.seeds import seeds_of
from arrayferry._core.messages import refuse_choice
from arrayferry._frameworks.jax import jax, jnp
from arrayferry.envs._engine import Engine
from arrayferry.envs._keys import keys_of
from arrayferry.envs._packing import PackedArrays, read_small
from arrayferry.envs._spaces import as_action, members_of
from arrayferry.envs._trees import copied, select, untraced

__all__ = ["JaxEnvBase", "JaxEnv", "JaxVectorEnv"]


class JaxEnvBase:
    """What single, vector and parallel environments share: the carry, and how it is kept and shown."""

    def __init__(self, engine: Engine, render_mode: str | None, **options: Any) -> None:
        interface = engine.interface
        modes = [] if interface.render is None else [interface.render_mode]
        if render_mode is not None:
            refuse_choice("render_mode", render_mode, *modes)
        self._engine = engine
        self._leaves: tuple[Any, ...] | None = None  # the carry, from the first reset on
        self._is_for_host = False
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {"render_modes": modes, "jax": True, **options}
        arguments = {"env": engine.env, "max_episode_steps": engine.max_episode_steps}
        if engine.num_envs is not None:
            arguments["num_envs"] = engine.num_envs
        self.spec: EnvSpec | None = EnvSpec(
            re.sub(r"[^\w:./-]", "-", interface.name),  # what Gymnasium allows in a name
            "arrayferry.envs:as_gymnasium",
            vector_entry_point="arrayferry.envs:as_gymnasium",
            kwargs={**arguments, "render_mode": render_mode, **options},
            max_episode_steps=engine.limit,
            order_enforce=False,
            disable_env_checker=True,
        )

    def read_on_host(self) -> None:
        """Let resets and steps return small arrays in NumPy, if JAX computes on the host anyway."""
        self._is_for_host = jax.default_backend() == "cpu"

    def _valid(self) -> tuple[Any, ...] | None:
        """Return the carry; None if there is none yet, or if a step took it over and failed."""
        leaves = self._leaves
        return None if leaves is None or leaves[-1].is_deleted() else leaves

    def _carried(self, what: str) -> tuple[Any, ...]:
        self._engine.refuse_changes()
        if (leaves := self._valid()) is None:
            why = "the last step failed while it ran, and its episodes are lost: " if self._leaves else ""
            raise gym.error.ResetNeeded(f"{why}call reset() before {what}")
        return leaves

    def _keys(self, seeds: Sequence[int | None]) -> Any:
        """Return a key for each environment: from its seed, or else the one that it has."""
        self._engine.refuse_changes()
        if (leaves := self._valid()) is None:
            drawn = self.np_random.integers(2**32, size=len(seeds))  # type: ignore[attr-defined]
            return keys_of([drawn[i] if seed is None else seed for i, seed in enumerate(seeds)])
        keys = np.array(self._engine.whole(leaves).key).reshape(-1, 2)
        if given := [i for i, seed in enumerate(seeds) if seed is not None]:
            keys[given] = keys_of([seeds[i] for i in given])
        return keys

    def _begin(self, leaves: tuple[Any, ...], obs: Any, info: Any) -> tuple[Any, Any]:
        """Take what a reset has returned; the present episodes go on if that failed."""
        untraced(leaves[-1])
        self._leaves = leaves
        return read_small((obs, info)) if self._is_for_host else (obs, info)

    def _advance(self, leaves: tuple[Any, ...], action: Any) -> tuple[Any, PackedArrays]:
        """Take a step; return what the host always reads, and everything."""
        step = self._engine.step_for_host if self._is_for_host else self._engine.step
        leaves, results = step(leaves, action)
        status = results.read(0)  # which raises if the step has failed
        self._leaves = leaves
        return status, results

    @property
    def state(self) -> Any:
        """A copy of the package's own state; in a vector environment, of all environments together."""
        return copied(self._engine.whole(self._carried("reading the state")).state)

    def get_state(self) -> Any:
        """Return all that later steps and resets depend on: a copy, as a structure of JAX arrays."""
        return copied(self._carried("get_state()"))

    def set_state(self, state: Any) -> None:
        """Go on from a state that `get_state` has returned: everything after it comes again, bit for bit.

        Raises:
            OptionError: the state is not one of such environments.
        """
        self._engine.refuse_changes()
        self._leaves = self._engine.checked(state)

    def __getstate__(self) -> dict[str, Any]:
        # A step reuses the memory of the carry: no two environments may share it.
        self._engine.refuse_changes()
        leaves = self._valid()
        return {**self.__dict__, "_leaves": None if leaves is None else tuple(map(copy, leaves))}


class JaxEnv(JaxEnvBase, gym.Env[Any, Any]):
    """One environment written in JAX, as a Gymnasium environment that returns JAX arrays.

    `as_gymnasium` makes it. The reward is a float, or an array if there are several; terminated and truncated
    are bools. It does not reset by itself.

    Example:
        >>> from arrayferry.envs import as_gymnasium
        >>> from gymnasium.envs.phys2d.cartpole import CartPoleFunctional
        >>> env = as_gymnasium(CartPoleFunctional())
        >>> obs, info = env.reset(seed=123)
        >>> type(env).__name__, obs.shape, env.step(1)[1:4]
        ('JaxEnv', (4,), (1.0, False, False))
    """

    def __init__(self, engine: Engine, render_mode: str | None = None) -> None:
        super().__init__(engine, render_mode)
        self.observation_space = engine.observation_space
        self.action_space = engine.interface.action_space

    def reset(
        self, *, seed: int | np.integer[Any] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; without a seed, the next one in the current sequence."""
        seed = int(seed) if isinstance(seed, np.integer) else seed
        super().reset(seed=seed)
        return self._begin(*self._engine.start(self._keys([seed])[0]))

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step; the action is a NumPy or JAX array, or a number."""
        leaves, member = self._carried("step()"), as_action(self._engine.members, action)
        (is_refused, reward, terminated, truncated), results = self._advance(leaves, member)
        if is_refused:
            raise gym.error.InvalidAction(f"the action {action!r} is not in {self.action_space}")
        obs, info = results.read(1)
        if getattr(reward, "shape", None) == ():
            reward = float(reward)
        elif not self._is_for_host:
            reward = jax.tree.map(jnp.asarray, reward)
        return obs, reward, bool(terminated), bool(truncated), info

    def render(self) -> Any:
        """Return what the package draws; None without a `render_mode`."""
        draw = self._engine.interface.render
        return None if draw is None or self.render_mode is None else draw(self.state)


class JaxVectorEnv(JaxEnvBase, VectorEnv[Any, Any, Any]):
    """Many environments written in JAX, as a Gymnasium vector environment that returns JAX arrays.

    `as_gymnasium` makes it. `final_obs` is one batch, with zeros where `_final_obs` is False; everything else
    is as in Gymnasium's vector environments. Environment number `i` of a vector that was reset with a seed
    does what a single one does that was reset with `seed + i`.

    Example:
        >>> from arrayferry.envs import as_gymnasium
        >>> from gymnasium.envs.phys2d.cartpole import CartPoleFunctional
        >>> envs = as_gymnasium(CartPoleFunctional(), num_envs=2)
        >>> obs, info = envs.reset(seed=123)
        >>> type(envs).__name__, obs.shape, envs.state.shape
        ('JaxVectorEnv', (2, 4), (2, 4))
    """

    def __init__(self, engine: Engine, render_mode: str | None = None) -> None:
        assert engine.num_envs is not None
        super().__init__(engine, render_mode, autoreset_mode=engine.autoreset_mode)
        self.num_envs = engine.num_envs
        self.autoreset_mode = engine.autoreset_mode
        self.single_observation_space = engine.observation_space
        self.single_action_space = engine.interface.action_space
        self.observation_space = engine.batched_observation_space(self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._members = members_of(self.action_space)
        self._all = np.ones(self.num_envs, bool)

    def reset(
        self,
        *,
        seed: int | np.integer[Any] | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all environments, or in those of `options["reset_mask"]`.

        Without a seed, each environment continues its current sequence of episodes.
        """
        seed = int(seed) if isinstance(seed, np.integer) else seed
        mask = mask_of(options, self.num_envs)
        leaves = None if mask is None else self._carried("reset() with a reset_mask")
        super().reset(seed=seed if isinstance(seed, int) else None)
        keys = self._keys(seeds_of(seed, self.num_envs))
        engine = self._engine
        begun = engine.start(keys) if leaves is None else engine.restart(leaves, keys, mask)
        obs, info = self._begin(*begun)
        return obs, masked_infos(info, (self._all if mask is None else mask, info))

    def set_state(self, state: Any, mask: Any = None) -> None:
        """Go on from a state that `get_state` has returned, in all environments, or in those of a mask.

        Raises:
            OptionError: the state is not one of as many such environments, or the mask not one for each.
        """
        rows = mask_of({"reset_mask": mask}, self.num_envs)
        own = None if rows is None else self._carried("set_state() with a mask")
        super().set_state(state)
        if rows is not None:
            self._leaves = select(rows, self._leaves, own)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in all environments, with actions in NumPy or JAX."""
        leaves = self._carried("step()")
        members = as_action(self._members, actions, times=leaves[-1])
        (refused, is_any_over), results = self._advance(leaves, members)
        if refused >= 0:
            action = jax.tree.map(lambda leaf: np.asarray(leaf)[refused].tolist(), members)
            what = f"action[{refused}] is {action}, which is not in {self.single_action_space}"
            raise gym.error.InvalidAction(what)
        *values, info = results.read(1)
        if not is_any_over:
            return *values, masked_infos(info, (self._all, self._engine.info_shapes[1]))
        if self.autoreset_mode is AutoresetMode.DISABLED:
            hint = 'reset the environments whose episodes are over: options={"reset_mask": ...}'
            raise gym.error.ResetNeeded(hint)
        return *values, self._infos(info, *results.read(2))

    def _infos(self, info: dict[str, Any], over: Any, final: Any) -> dict[str, Any]:
        """Return the infos of a step in which some environments were reset."""
        from_reset, from_step = self._engine.info_shapes
        over = np.asarray(over)
        infos = masked_infos(info, (over, from_reset), (~over, from_step))
        if final is not None:
            obs, info = final
            ended = final_of(obs, masked_infos(info, (over, info)))
            infos |= {**ended, **{f"_{key}": over.copy() for key in ended}}
        return infos

    def render(self) -> tuple[Any, ...] | None:
        """Return what the package draws of each environment; None without a `render_mode`."""
        draw = self._engine.interface.render
        if draw is None or self.render_mode is None:
            return None
        state = self.state
        return tuple(draw(jax.tree.map(itemgetter(i), state)) for i in range(self.num_envs))
