"""A Gymnasium vector environment as a Stable-Baselines3 `VecEnv`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers.vector import RecordEpisodeStatistics as TheirStatistics
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env import VecEnv

from arrayferry.envs._environments import JaxVectorEnv
from arrayferry.errors import UnsupportedError
from arrayferry.scale import ProcessVectorEnv, RayVectorEnv
from arrayferry.wrappers import wrap
from arrayferry.wrappers._autoreset import autoreset_mode_of
from arrayferry.wrappers.vector import RecordEpisodeStatistics
from arrayferry.wrappers.vector._batches import info_rows, row_of

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["GymnasiumVecEnv"]

Info = dict[str, Any]

_THEIRS = SyncVectorEnv, AsyncVectorEnv
# Those that can reset some of their environments immediately, whatever their autoreset mode.
_RESETTABLE = *_THEIRS, ProcessVectorEnv, RayVectorEnv, JaxVectorEnv

# In a step that also resets, these infos are still about the episode that is over.
_OF_THE_EPISODE = ("TimeLimit.truncated", "episode", "fault", "fault_reason")


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
        self.reset_infos = info_rows(infos, self.num_envs)
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
        rows = info_rows(infos, self.num_envs)
        for row, cut in zip(rows, truncated & ~terminated):
            row["TimeLimit.truncated"] = bool(cut)
        if done.any():
            obs = self._next_episodes(obs, done, rows)
        return obs, reward.astype(np.float32), done, rows

    def _next_episodes(self, obs: Any, done: np.ndarray[Any, Any], rows: list[Info]) -> Any:
        """Put the last observation of each episode that is over into its info; return the next episodes'."""
        over = np.flatnonzero(done).tolist()
        if self._resets_itself:
            for index in over:
                row = rows[index]
                if "final_obs" not in row:
                    what = (
                        f"{type(self.envs.unwrapped).__name__} resets itself, but its info has no final_obs"
                    )
                    raise UnsupportedError(what, "put it there, or use AutoresetMode.DISABLED")
                about_episode = {"terminal_observation": _with_scalars(row.pop("final_obs"))}
                about_episode |= {name: row.pop(name) for name in _OF_THE_EPISODE if name in row}
                if (final := row.pop("final_info", None)) is not None:  # else the info is for both episodes
                    self.reset_infos[index], rows[index] = row, {**final, **about_episode}
                else:
                    self.reset_infos[index], rows[index] = dict(row), {**row, **about_episode}
            return obs
        for index in over:
            rows[index]["terminal_observation"] = row_of(obs, index, self.num_envs)
        new, infos = self.envs.reset(options={"reset_mask": done})
        resets = info_rows(infos, self.num_envs)
        for index in over:
            self.reset_infos[index] = resets[index]
        return new

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    # ---- what else the environments have ---------------------------------------------------------------

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
        """Return whether each environment is in such a wrapper; False if it is not in a `SyncVectorEnv`."""
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
            what = f"{name} for only some environments: {type(self.envs.unwrapped).__name__} takes it for all"
            raise UnsupportedError(what, "leave indices out, or use a SyncVectorEnv")


def _resets_itself(envs: VectorEnv[Any, Any, Any]) -> bool:
    """Return whether a step that ends an episode already returns the next one's first observation."""
    mode, inner = autoreset_mode_of(envs), envs.unwrapped
    if mode is None:
        what = f"{type(inner).__name__} does not say what it does when an episode ends"
        raise UnsupportedError(what, 'set its metadata["autoreset_mode"] to a gymnasium.vector.AutoresetMode')
    if mode is AutoresetMode.NEXT_STEP and not isinstance(inner, _RESETTABLE):
        what = f"{type(inner).__name__} resets in the next step, which has no action to learn from"
        how = 'gymnasium.make_vec(..., vectorization_mode="sync")'
        or_else = "or, if it takes one, with autoreset_mode=AutoresetMode.SAME_STEP"
        raise UnsupportedError(what, f"make it with {how}; {or_else}")
    forgets = isinstance(inner, _THEIRS) and mode is not AutoresetMode.SAME_STEP
    if forgets and any(map(_miscounts, _layers(envs))):
        what = "gymnasium's RecordEpisodeStatistics forgets all episodes when one environment is reset"
        hint = (
            "use arrayferry.wrappers.vector's, or Stable-Baselines3's VecMonitor, or AutoresetMode.SAME_STEP"
        )
        raise UnsupportedError(what, hint)
    return mode is AutoresetMode.SAME_STEP


def _layers(envs: Any) -> Iterator[Any]:
    while isinstance(envs, VectorWrapper):
        yield envs
        envs = envs.env


def _miscounts(envs: Any) -> bool:
    """Return whether this wrapper looks for the mask of a reset after the environment has removed it."""
    return isinstance(envs, TheirStatistics) and not isinstance(envs, RecordEpisodeStatistics)


def _as_one(seeds: list[int | None]) -> Any:
    """Return seeds as one number, which all vector environments take, if they count up from it."""
    first = seeds[0]
    if first is not None and seeds == list(range(first, first + len(seeds))):
        return first
    return None if all(seed is None for seed in seeds) else seeds


def _with_scalars(obs: Any) -> Any:
    """Return an observation with NumPy scalars instead of 0-d arrays, as in a Discrete space."""
    if isinstance(obs, dict):
        return {key: _with_scalars(one) for key, one in obs.items()}
    if isinstance(obs, tuple):
        return tuple(map(_with_scalars, obs))
    return obs[()] if isinstance(obs, np.ndarray) and not obs.ndim else obs
