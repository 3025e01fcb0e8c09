"""A Gymnasium vector environment as a Stable-Baselines3 `VecEnv`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pickle import dumps
from typing import Any

import numpy as np
from gymnasium import Wrapper, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics as TheirStatistics
from stable_baselines3.common.vec_env import VecEnv

from arrayferry._boundary.autoreset import autoreset_mode_of, row_of
from arrayferry._boundary.detect import layers_of
from arrayferry._core.convert import convert
from arrayferry.envs import JaxVectorEnv
from arrayferry.errors import UnsupportedError
from arrayferry.learners import _each
from arrayferry.sanitizer import VectorSanitizer
from arrayferry.wrappers import wrap
from arrayferry.wrappers.vector import ArrayConversion, RecordEpisodeStatistics

AnyWrapper = Wrapper[Any, Any, Any, Any]
Info = dict[str, Any]

_THEIRS = SyncVectorEnv, AsyncVectorEnv
# Those that can reset some of their environments immediately, whatever their autoreset mode.
_RESETTABLE = *_each.SEPARATE, JaxVectorEnv

_FAULT = ("fault", "fault_reason")
# In a step that also resets, these infos are still about the episode that is over.
_OF_THE_EPISODE = ("TimeLimit.truncated", "episode", *_FAULT)


class GymnasiumVecEnv(VecEnv):
    """See `sb3_vec_env`."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], action_bound: float | None) -> None:
        self._resets_itself = _resets_itself(envs)
        self.envs: Any = wrap(envs, "numpy")
        self._inner: Any = envs.unwrapped
        # Whether no wrapper depends on the form of infos, or would miss a step that is taken in two calls.
        bare = ArrayConversion, VectorSanitizer, *_each.SEPARATE
        self._is_bare = all(isinstance(layer, bare) for layer in layers_of(envs))
        self._fault_names = _FAULT if isinstance(self._inner, _each.WITH_WORKERS) else ()
        self._is_started = False
        action_space = _bounded(envs.single_action_space, action_bound)
        super().__init__(envs.num_envs, envs.single_observation_space, action_space)

    def reset(self) -> Any:
        """Reset all environments, with the seeds and options that were set."""
        if self._is_started:  # as the base class promises, its result is dropped
            self._step()
        options = self._options[0]
        if any(one is not options and dumps(one) != dumps(options) for one in self._options):
            what = "options differ between environments"
            raise UnsupportedError(what, "a vector environment takes one dict")
        # The seeds count up from the first, as a vector environment does.
        obs, self.reset_infos = self._reset_rows(seed=self._seeds[0], options=options or None)
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: Any) -> None:
        """Start a step; a vector environment that cannot do that takes it in `step_wait`."""
        self._actions = actions
        if self._is_bare and hasattr(self._inner, "step_async"):
            self.envs.step_async(actions)
            self._is_started = True

    def step_wait(self) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any], list[Info]]:
        """Wait for the step of all environments, and reset those whose episode is over."""
        (obs, reward, terminated, truncated), rows = self._with_rows(self._step)
        done, is_cut = terminated | truncated, truncated & ~terminated
        if self._resets_itself:
            for index in np.flatnonzero(done).tolist():
                self._split_info(index, rows)
        else:
            obs = self._next_episodes(obs, done, rows)
        for row, cut in zip(rows, is_cut.tolist()):
            row["TimeLimit.truncated"] = cut
        return obs, reward.astype(np.float32), done, rows

    def _step(self) -> Any:
        is_started, self._is_started = self._is_started, False
        return self.envs.step_wait() if is_started else self.envs.step(self._actions)

    def _reset_rows(self, **arguments: Any) -> tuple[Any, list[Info]]:
        (obs,), rows = self._with_rows(lambda: self.envs.reset(**arguments))
        return obs, rows

    def _with_rows(self, call: Callable[[], Any]) -> tuple[list[Any], list[Info]]:
        values, rows = _each.with_rows(self.envs, self._is_bare, call)
        for layer in layers_of(self.envs) if self._is_bare else ():
            if isinstance(layer, VectorSanitizer):  # which such infos have passed by
                layer.look_at_infos(rows)
        return values, rows

    def _split_info(self, index: int, rows: list[Info]) -> None:
        """Separate the info of an episode's last step from that of the reset in the same step."""
        row = rows[index]
        if "final_obs" not in row:
            what = f"{type(self._inner).__name__} resets itself, but its info has no final_obs"
            raise UnsupportedError(what, "put it there, or use AutoresetMode.DISABLED")
        about_episode = {"terminal_observation": _each.with_scalars(convert(row.pop("final_obs"), "numpy"))}
        names = self._fault_names if self._is_bare else _OF_THE_EPISODE
        about_episode |= {name: row.pop(name) for name in names if name in row}
        final = row.pop("final_info", None)  # without one, the info is for both episodes
        self.reset_infos[index], rows[index] = row, {**(row if final is None else final), **about_episode}

    def _next_episodes(self, obs: Any, done: Any, rows: list[Info]) -> Any:
        """Put the last observation of each episode that is over into its info; return the next episodes'."""
        if not done.any():
            return obs
        new, infos = self._reset_rows(options={"reset_mask": done.copy()})
        for index in np.flatnonzero(done).tolist():
            rows[index]["terminal_observation"] = row_of(obs, index, self.num_envs)
            self.reset_infos[index] = infos[index]
        return new

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    # ---- what else the environments have ---------------------------------------------------------------

    def has_attr(self, attr_name: str) -> bool:
        """Return whether all environments have an attribute, even one that cannot be sent from a worker."""
        return all(self.env_method("has_wrapper_attr", attr_name))

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of each environment."""
        return self.env_method("get_wrapper_attr", attr_name, indices=indices)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of each environment."""
        if isinstance(self._inner, _each.WITH_WORKERS):  # a worker's successor has it, too
            rows = self._rows(indices)
            self._inner.set_attr_of(rows, attr_name, [value] * len(rows))
        else:
            self.env_method("set_wrapper_attr", attr_name, value, indices=indices)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of each environment."""
        return _each.call_each(self._inner, self._rows(indices), method_name, *args, **kwargs)

    def env_is_wrapped(self, wrapper_class: type[AnyWrapper], indices: Any = None) -> list[bool]:
        """Return whether each environment is in such a wrapper."""
        return _each.is_each_in(self._inner, self._rows(indices), wrapper_class)

    def get_images(self) -> Sequence[Any]:
        """Return a frame of each environment."""
        frames = self.envs.render() if self.render_mode == "rgb_array" else None
        return [None] * self.num_envs if frames is None else list(frames)

    def _rows(self, indices: Any) -> list[int]:
        rows = [indices] if isinstance(indices, np.integer) else self._get_indices(indices)
        return [range(self.num_envs)[row] for row in rows]  # also counts from the end, as a list does


def _resets_itself(envs: VectorEnv[Any, Any, Any]) -> bool:
    """Return whether a step that ends an episode already returns the next one's first observation."""
    mode, inner = autoreset_mode_of(envs), envs.unwrapped
    if mode is None:
        what = f"{type(inner).__name__} does not say what it does when an episode ends"
        raise UnsupportedError(what, 'set its metadata["autoreset_mode"] to a gymnasium.vector.AutoresetMode')
    _each.refuse_without_final(envs, "Stable-Baselines3")
    if mode is AutoresetMode.NEXT_STEP and not isinstance(inner, _RESETTABLE):
        what = f"{type(inner).__name__} resets in the next step, which has no action to learn from"
        how = 'gymnasium.make_vec(..., vectorization_mode="sync")'
        or_else = "or, if it takes one, with autoreset_mode=AutoresetMode.SAME_STEP"
        raise UnsupportedError(what, f"make it with {how}; {or_else}")
    forgets = isinstance(inner, _THEIRS) and mode is not AutoresetMode.SAME_STEP
    if forgets and any(map(_miscounts, layers_of(envs))):
        what = "gymnasium's RecordEpisodeStatistics forgets all episodes when one environment is reset"
        raise UnsupportedError(what, "use arrayferry.wrappers.vector's, or VecMonitor, or the mode SAME_STEP")
    return mode is AutoresetMode.SAME_STEP


def _bounded(space: spaces.Space[Any], bound: float | None) -> spaces.Space[Any]:
    """Return an action space whose bounds are finite, as Stable-Baselines3 wants them."""
    if not isinstance(space, spaces.Box) or space.is_bounded():
        return space
    if bound is None:
        what = f"the actions, {space}, have no finite bounds, and Stable-Baselines3 wants some"
        raise UnsupportedError(what, "pass action_bound=1.0, or as much as the policy may need")
    low, high = np.clip(space.low, -bound, None), np.clip(space.high, None, bound)
    return spaces.Box(low, high, dtype=space.dtype.type)


def _miscounts(envs: Any) -> bool:
    """Return whether this wrapper looks for the mask of a reset after the environment has removed it."""
    return isinstance(envs, TheirStatistics) and not isinstance(envs, RecordEpisodeStatistics)
