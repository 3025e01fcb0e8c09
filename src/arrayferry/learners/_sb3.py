"""A vector environment of Gymnasium as a `VecEnv` of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env import VecEnv

from arrayferry.errors import UnsupportedError
from arrayferry.wrappers import wrap

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["GymnasiumVecEnv"]

Info = dict[str, Any]

# What a step that resets as well tells of the episode that is over, whoever puts it there.
_OF_THE_EPISODE = ("TimeLimit.truncated", "episode")


class GymnasiumVecEnv(VecEnv):
    """See `sb3_vec_env`."""

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self._resets_itself = _resets_itself(envs)
        self.envs = wrap(envs, "numpy")
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        """Reset all environments, with the seeds and options that were set."""
        options = self._options[0]
        if any(one != options for one in self._options):
            raise UnsupportedError(
                "options differ between environments", "a vector environment takes one dict"
            )
        obs, infos = self.envs.reset(seed=_as_one(self._seeds), options=options or None)
        self.reset_infos = _rows(infos, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: Any) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any], list[Info]]:
        """Step all environments, and reset those whose episode is over."""
        obs, reward, terminated, truncated, infos = self.envs.step(self._actions)
        done = terminated | truncated
        rows = _rows(infos, self.num_envs)
        for row, cut in zip(rows, truncated & ~terminated):
            row["TimeLimit.truncated"] = bool(cut)
        if done.any():
            obs = self._next_episodes(obs, done, rows)
        return obs, reward.astype(np.float32), done, rows

    def _next_episodes(self, obs: Any, done: np.ndarray[Any, Any], rows: list[Info]) -> Any:
        """Put the last observation of each episode that is over into its info; return the next ones."""
        over = np.flatnonzero(done).tolist()
        if self._resets_itself:
            for index in over:
                row = rows[index]
                told = {"terminal_observation": row.pop("final_obs")}
                told |= {name: row.pop(name) for name in _OF_THE_EPISODE if name in row}
                if (final := row.pop("final_info", None)) is not None:  # else the infos are of both
                    self.reset_infos[index], rows[index] = row, {**final, **told}
                else:
                    self.reset_infos[index], rows[index] = dict(row), {**row, **told}
            return obs
        for index in over:
            rows[index]["terminal_observation"] = _row(obs, index)
        new, infos = self.envs.reset(options={"reset_mask": done})
        resets = _rows(infos, self.num_envs)
        for index in over:
            self.reset_infos[index] = resets[index]
        return new

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    # ---- what the environments have besides ------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of each environment."""
        envs: Any = self.envs.unwrapped
        if hasattr(envs, "get_attr"):
            values = list(envs.get_attr(attr_name))
        else:  # one object for all
            values = [getattr(envs, attr_name)] * self.num_envs
        return [values[index] for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of each environment."""
        envs: Any = self.envs.unwrapped
        chosen = list(self._get_indices(indices))
        if not hasattr(envs, "set_attr"):
            self._refuse_some(chosen, attr_name)
            setattr(envs, attr_name, value)
            return
        everywhere = len(chosen) == self.num_envs
        values = [value] * self.num_envs if everywhere else self.get_attr(attr_name)
        for index in chosen:
            values[index] = value
        envs.set_attr(attr_name, values)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of each environment."""
        envs: Any = self.envs.unwrapped
        chosen = list(self._get_indices(indices))
        if isinstance(envs, SyncVectorEnv):
            return [envs.envs[index].get_wrapper_attr(method_name)(*args, **kwargs) for index in chosen]
        self._refuse_some(chosen, method_name)
        if hasattr(envs, "call"):
            return list(envs.call(method_name, *args, **kwargs))
        return [getattr(envs, method_name)(*args, **kwargs)] * self.num_envs

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> list[bool]:
        """Return whether each environment is in such a wrapper, as far as they are in this process."""
        envs = self.envs.unwrapped
        inner = envs.envs if isinstance(envs, SyncVectorEnv) else None
        chosen = self._get_indices(indices)
        return [inner is not None and is_wrapped(inner[index], wrapper_class) for index in chosen]

    def get_images(self) -> Sequence[Any]:
        """Return a frame of each environment."""
        frames = self.envs.render()
        return [None] * self.num_envs if frames is None else list(frames)

    def _refuse_some(self, chosen: list[int], name: str) -> None:
        if len(chosen) < self.num_envs:
            what = f"{name} of some environments only: {type(self.envs.unwrapped).__name__} has them as one"
            raise UnsupportedError(what, "leave indices out, or use a SyncVectorEnv")


def _resets_itself(envs: VectorEnv[Any, Any, Any]) -> bool:
    """Whether a step that ends an episode returns the next one's first observation already."""
    mode = envs.metadata.get("autoreset_mode")
    if mode is None:
        what = f"{type(envs.unwrapped).__name__} does not say what it does when an episode ends"
        raise UnsupportedError(what, 'set its metadata["autoreset_mode"] to a gymnasium.vector.AutoresetMode')
    mode = AutoresetMode(mode)
    if mode is AutoresetMode.NEXT_STEP and not isinstance(envs.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
        what = f"{type(envs.unwrapped).__name__} resets in the next step, which has no action to learn from"
        raise UnsupportedError(what, "make it with autoreset_mode=AutoresetMode.SAME_STEP or DISABLED")
    return mode is AutoresetMode.SAME_STEP


def _as_one(seeds: list[int | None]) -> Any:
    """Return seeds as one number where they count up from it, which all vector environments take."""
    first = seeds[0]
    if first is not None and seeds == list(range(first, first + len(seeds))):
        return first
    return None if all(seed is None for seed in seeds) else seeds


def _rows(infos: Info, count: int) -> list[Info]:
    """Return the infos of a vector environment as one dict for each of its environments."""
    rows: list[Info] = [{} for _ in range(count)]
    for key, values in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        there = infos.get(f"_{key}", [True] * count)
        parts = _rows(values, count) if isinstance(values, dict) else None
        for index, row in enumerate(rows):
            if there[index]:
                row[key] = _row(values, index) if parts is None else parts[index]
    return rows


def _row(obs: Any, index: int) -> Any:
    """Return what belongs to one environment."""
    if isinstance(obs, dict):
        return {key: _row(value, index) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_row(one, index) for one in obs)
    return obs[index] if np.ndim(obs) else obs  # a number is for all
