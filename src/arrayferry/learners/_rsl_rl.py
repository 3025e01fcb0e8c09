"""A Gymnasium vector environment as an rsl_rl `VecEnv`."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from rsl_rl.env import VecEnv

from arrayferry._boundary.autoreset import autoreset_mode_of
from arrayferry.envs.simulators import SimulatorVectorEnv
from arrayferry.errors import UnsupportedError
from arrayferry.learners._tensordict import make_env


class TensorDictVecEnv(VecEnv):  # type: ignore[misc]  # rsl_rl has no types
    """See `rsl_rl_vec_env`."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], device: Any, seed: int | None) -> None:
        import torch

        mode, space = autoreset_mode_of(envs), envs.single_action_space
        if mode is not AutoresetMode.SAME_STEP:
            what = f"{type(envs.unwrapped).__name__} has the autoreset mode {mode}: rsl_rl takes SAME_STEP"
            raise UnsupportedError(what, "make it with autoreset_mode=AutoresetMode.SAME_STEP")
        if not isinstance(space, spaces.Box):
            what = f"the action space is {space}, but rsl_rl's actions are real numbers"
            raise UnsupportedError(what, "put a TransformAction with a Box around the environment")
        self.envs: Any = make_env(envs, device, reward_dtype="float32")
        self._shape = (envs.num_envs, *space.shape)
        self.num_envs, self.num_actions = envs.num_envs, prod(space.shape)
        # The default is finite and not 0, because rsl_rl draws lengths below it.
        longest = getattr(envs.spec, "max_episode_steps", None)
        self.max_episode_length = longest or torch.iinfo(torch.int32).max
        inner = envs.unwrapped
        self._simulator = inner if isinstance(inner, SimulatorVectorEnv) else None
        if device is None:
            known = None if self._simulator is None else self._simulator.array_framework
            device = "cpu" if known is None else known[1]
        self.device = torch.device(device)  # 0 is a device
        self.cfg: dict[str, Any] = {}
        steps = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self._counter: Any = self._simulator or SimpleNamespace(episode_length_buf=steps)
        self._obs, _ = self.envs.reset(seed=seed)

    @property
    def episode_length_buf(self) -> Any:
        """How many steps each episode has had; a simulator's own counter, if it has one. It can be set."""
        return self._counter.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Any) -> None:
        self._counter.episode_length_buf = steps

    def get_observations(self) -> Any:
        """Return the observations that the next actions respond to."""
        return self._obs

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Step all environments; those whose episode is over have been reset."""
        taken = actions.reshape(self._shape)
        self._obs, reward, terminated, truncated, info = self.envs.step(taken)
        done = terminated | truncated
        if self._simulator is None:
            self.episode_length_buf = (self.episode_length_buf + 1) * ~done
        extras = {**info, "time_outs": truncated & ~terminated}
        if "_episode" in info:  # rsl_rl logs the mean of all entries: leave out the episodes that go on
            over = info["_episode"]
            extras["episode"] = {key: values[over] for key, values in info["episode"].items()}
        return self._obs, reward, done, extras

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()
