"""A batched simulator as a Gymnasium vector environment."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from arrayferry._boundary.autoreset import final_of, mask_of, row_of
from arrayferry._boundary.detect import arrays_in
from arrayferry._boundary.seeds import seeds_of
from arrayferry._core.convert import ArrayConverter, Converter, convert
from arrayferry._core.registry import find_framework, source_of
from arrayferry.envs._spaces import space_of
from arrayferry.envs.forwarding import Forwarding
from arrayferry.envs.simulators import batches
from arrayferry.envs.simulators.simulator import Simulator, consistent_mode, has_inference_tensors
from arrayferry.errors import OptionError, UnsupportedError
from arrayferry.spaces.members import Caster, member_caster, to_numpy

__all__ = ["SimulatorVectorEnv"]

Info = dict[str, Any]

# What simulators write into their extras when an episode ends, and leave there until the next one does.
_LOGS = "log", "episode"


@dataclass
class _Progress:
    """How far a simulator is.

    Attributes:
        obs: the last observation, as the simulator returned it; None before the first reset.
        over: whose episode is over, and has not been reset; or None.
        is_inference: whether it was reset with tensors of torch's inference mode.
    """

    obs: Any = None
    over: Any = None
    is_inference: bool = False


class SimulatorVectorEnv(Forwarding, VectorEnv[Any, Any, Any]):
    """A batched simulator, such as those of Isaac Lab, ManiSkill and mjlab, as a vector environment.

    `as_gymnasium` and `wrap` make it. Arrays stay in the simulator's framework, on its device, and are the
    caller's own. `final_obs` is one batch, valid where `_final_obs` is True; `has_final_obs` says whether the
    simulator can be asked for it, `takes_reset_mask` whether it can reset only some of its environments. The
    simulator's own attributes can be read here, too.

    Args:
        simulator: how to drive it.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.env: Any = simulator.inner  # whose attributes show here
        self.name, self.num_envs = type(self.env).__name__, int(self.env.num_envs)
        self.autoreset_mode = mode = simulator.autoreset_mode
        self.metadata = {**(getattr(self.env, "metadata", None) or {}), "autoreset_mode": mode}
        self._resets_rows = mode is AutoresetMode.SAME_STEP and not simulator.resets_itself
        self.has_final_obs = simulator.has_final_obs or self._resets_rows
        self.takes_reset_mask = simulator.resets_by is not None
        self.render_mode = getattr(self.env, "render_mode", None)
        self.spec = simulator.spec()
        self._is_copied_outside = False
        # The simulator has one newest state, whichever of its views takes a step.
        self._progress = getattr(simulator.env, "__dict__", {}).setdefault(
            "_arrayferry_progress", _Progress()
        )
        self.array_framework: Any = None  # its name, and the device: what `wrap` passes actions in, and where
        if (action_space := simulator.space("single_action_space")) is None:
            what = f"{self.name} does not declare what actions it takes"
            raise UnsupportedError(what, "set its single_action_space to a Gymnasium space")
        self.single_action_space = action_space
        self.action_space = batch_space(action_space, self.num_envs)
        if simulator.framework is not None and hasattr(self.env, "device"):
            self._set_framework(simulator.framework, self.env.device)
        if (space := simulator.space("single_observation_space")) is not None:
            self.single_observation_space = space
        elif hasattr(self.env, "get_observations"):
            self._learn_from(batches.two_values(self.name, self.env.get_observations(), self.num_envs)[0])

    def _set_framework(self, name: str, device: Any) -> None:
        self.array_framework = name, device
        self._to_simulator = Converter(name, device)
        self._copy = ArrayConverter(name, copy=True)
        self._all = convert(np.ones(self.num_envs, bool), name, device)

    def _learn_from(self, obs: Any) -> None:
        """Learn what the simulator does not declare."""
        if self.array_framework is None:
            framework, array = next(arrays_in(obs), (find_framework("numpy"), None))
            self._set_framework(framework.name, source_of(array).device_of(array))
        if "single_observation_space" not in vars(self):
            self.single_observation_space = space_of(row_of(to_numpy(obs), 0, self.num_envs))

    def leave_copies_to_wrapper(self) -> None:
        """Take actions and return arrays as they are: a wrapper, the only one around this, copies both."""
        self._is_copied_outside = True

    @cached_property
    def _cast(self) -> Caster:
        return member_caster(self.action_space, self._to_simulator)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_cast"}  # local functions

    # ---- what the simulator has -----------------------------------------------------------------------

    @cached_property
    def observation_space(self) -> gym.Space[Any]:  # type: ignore[override]
        """The space of all environments' observations, made on request, because it can be large."""
        return batch_space(self.single_observation_space, self.num_envs)

    def render(self) -> tuple[Any, ...] | None:
        """Return the simulator's frames: one for each environment, or a single one for some or all."""
        frames = to_numpy(self._simulator.env.render())
        is_one = isinstance(frames, np.ndarray) and frames.ndim == 3
        return None if frames is None else (frames,) if is_one else tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the simulator, if it can be closed."""
        if hasattr(self._simulator.env, "close"):
            self._simulator.env.close()

    # ---- resets ---------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | np.integer[Any] | Sequence[int] | None = None, options: Info | None = None
    ) -> tuple[Any, Info]:
        """Start episodes in all environments, or in those of `options["reset_mask"]`.

        Many simulators seed the global generators of torch, NumPy and Python.
        """
        options = dict(options or {})
        mask = mask_of(to_numpy({"reset_mask": options.pop("reset_mask", None)}), self.num_envs)
        if mask is not None and self._progress.obs is None:
            raise gym.error.ResetNeeded("call reset() before reset() with a reset_mask")
        if mask is not None and not self.takes_reset_mask:
            what = f"{self.name} cannot reset only some of its environments"
            raise UnsupportedError(what, "leave reset_mask out")
        seed = self._known_seed(seed)
        given = self._simulator.reset_arguments(seed, options)
        super().reset(seed=seed if isinstance(seed, int) else None)
        self._forget_logs()
        if mask is None:
            self._progress.obs, self._progress.is_inference = None, has_inference_tensors(self.env)
        with consistent_mode(self._progress.is_inference):
            if mask is None:
                returned = self._simulator.env.reset(**given)
                obs, info = batches.two_values(self.name, returned, self.num_envs)
                self._learn_from(obs)
                rows, self._progress.over = self._all, None
            else:
                rows = convert(mask, *self.array_framework)
                last = self._copy(self._progress.obs)
                new, info = self._new_rows(rows, seed, options)
                obs = batches.select(rows, new, last)
                self._progress.over = None if self._progress.over is None else self._progress.over & ~rows
            self._progress.obs = obs
            owned: tuple[Any, Info] = self._owned((obs, batches.merged_infos(self.num_envs, (rows, info))))
            return owned

    def _known_seed(self, seed: Any) -> Any:
        if seed is None or isinstance(seed, (int, np.integer)):
            return seed if seed is None else int(seed)
        if not self._simulator.takes_seed_lists:
            raise OptionError(f"{self.name} takes one seed for all environments", "pass a whole number")
        seeds: Any = seeds_of(seed, self.num_envs)
        return [*map(operator.index, seeds)]

    def _new_rows(self, mask: Any, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        returned = self._simulator.reset_rows(mask.nonzero().squeeze(-1), seed, options or {})
        return batches.two_values(self.name, returned, self.num_envs)

    # ---- steps ----------------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Info]:
        """Take a step in all environments."""
        if self._progress.obs is None or self.array_framework is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if self._progress.over is not None and bool(self._progress.over.any()):
            hint = 'reset the environments whose episodes are over: options={"reset_mask": ...}'
            raise gym.error.ResetNeeded(hint)
        if not self._is_copied_outside:
            actions = self._cast(self._to_simulator(actions))
        self._forget_logs()
        with consistent_mode(self._progress.is_inference):
            step = batches.five_values(self.name, self._simulator.step(actions), self.num_envs)
            over = step[2] | step[3]
            if self.autoreset_mode is AutoresetMode.DISABLED:
                self._progress.over = over
            if self._resets_rows and over.any():
                step = self._with_next_episodes(step, over)
            else:
                step = self._with_masks(step, over)
            self._progress.obs = step[0]
            owned: batches.Step = self._owned(step)
            return owned

    def _with_masks(self, step: batches.Step, over: Any) -> batches.Step:
        """Return a step with a mask for each entry of its info that has rows."""
        *values, info = step
        info.pop("_final_obs", None)
        final = {"_final_obs": over, "final_obs": info.pop("final_obs")} if "final_obs" in info else {}
        return *values, batches.merged_infos(self.num_envs, (self._all, info)) | final

    def _with_next_episodes(self, step: batches.Step, over: Any) -> batches.Step:
        """Reset the environments whose episode is over, and return the step as Gymnasium's SAME_STEP does."""
        self._progress.over = over  # until they are reset
        # The reset may write into what the step returned.
        obs, *values, info = self._copy(step)
        new_obs, new_info = self._new_rows(over)
        self._progress.over = None
        ended = batches.with_rows(info, self.num_envs)
        final = final_of(obs, batches.merged_infos(self.num_envs, (over, ended)))
        infos = batches.merged_infos(self.num_envs, (~over, info), (over, self._copy(new_info)))
        return batches.select(over, new_obs, obs), *values, infos | final | {f"_{key}": over for key in final}

    def _owned(self, values: Any) -> Any:
        return values if self._is_copied_outside else self._copy(values)

    def _forget_logs(self) -> None:
        """Empty what the simulator logged when an episode ended, so that only what is new is returned."""
        extras = getattr(self.env, "extras", None)
        if isinstance(extras, dict):
            extras |= {key: {} for key in _LOGS if isinstance(extras.get(key), dict)}
            extras.pop("final_obs", None)
