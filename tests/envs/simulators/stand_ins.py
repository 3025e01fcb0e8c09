"""Stand-ins for simulators that do what the real ones do: the same forms, and the same faults.

A row is a point that an action moves. Its episode is truncated after `limits[row]` steps, and terminates when
it is 10 away from where it began. The observation has the point, the steps, and the last action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector.utils import batch_space

FOREVER = 10**6


def in_package(package: str) -> Any:
    """Let a class appear to be defined in a package."""

    def decorate(cls: type) -> type:
        cls.__module__ = f"{package}.envs"
        return cls

    return decorate


class Points:
    """The physics that all of them share. Rewards and flags are kept in buffers that each step overwrites."""

    def __init__(self, limits: Any) -> None:
        self.limits = torch.tensor(limits)
        self.num_envs = len(limits)
        self.device = torch.device("cpu")
        self.points = torch.zeros(self.num_envs, 2)
        self.begun = torch.zeros(self.num_envs, 2)
        self.actions = torch.zeros(self.num_envs, 2)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.reward_buf = torch.zeros(self.num_envs)
        self.terminated_buf = torch.zeros(self.num_envs, dtype=torch.bool)
        self.time_out_buf = torch.zeros(self.num_envs, dtype=torch.bool)
        self.episodes = torch.zeros(self.num_envs)
        self.max_episode_length = max(limits)
        self.extras: dict[str, Any] = {}
        self.seeds: list[Any] = []
        self.closed = 0

    def seed_points(self, seed: Any) -> None:
        self.seeds.append(seed)
        if seed is not None:
            torch.manual_seed(seed)
            self.episodes[:] = 100.0 * seed

    def begin(self, ids: Any) -> None:
        self.episodes[ids] += 1
        self.points[ids] = self.episodes[ids, None] / 10
        self.begun[ids] = self.points[ids]
        self.actions[ids] = 0
        self.episode_length_buf[ids] = 0

    def move(self, actions: Any) -> None:
        self.actions = actions  # kept as it is: so its memory, dtype and gradient show in the observation
        self.points = self.points + actions
        self.episode_length_buf += 1
        self.terminated_buf[:] = (self.points - self.begun).abs().sum(1) >= 10
        self.time_out_buf[:] = self.episode_length_buf >= self.limits
        self.reward_buf[:] = self.points.sum(1)

    def done_ids(self) -> Any:
        return (self.terminated_buf | self.time_out_buf).nonzero().squeeze(-1)

    def observe(self) -> Any:
        steps = self.episode_length_buf[:, None].float()
        return torch.cat([self.points, steps, self.actions], 1)

    def close(self) -> None:
        self.closed += 1


# ---- mjlab ------------------------------------------------------------------------------------------------


@dataclass
class Box:
    """A space of mjlab's own."""

    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    low: float = -math.inf
    high: float = math.inf


@dataclass
class Dict:
    """A space of mjlab's own."""

    spaces: dict[str, Any] = field(default_factory=dict)


@in_package("mjlab")
class ManagerBasedRlEnv(Points):
    """As mjlab's: any number of rows, one dict for all infos, `cfg.auto_reset`."""

    is_vector_env = True
    metadata: ClassVar[Any] = {"render_modes": [None, "rgb_array"]}

    def __init__(self, limits: Any, auto_reset: bool = True) -> None:
        super().__init__(limits)
        self.cfg = SimpleNamespace(auto_reset=auto_reset)
        self.render_mode = "rgb_array"
        self.pending = torch.zeros(self.num_envs, dtype=torch.bool)
        self.single_action_space = Box((2,))
        self.single_observation_space = Dict({"actor": Box((5,)), "critic": Box((5,))})

    @property
    def unwrapped(self) -> Any:
        return self

    def _obs(self) -> Any:
        return {"actor": self.observe(), "critic": self.observe() * 2}

    def reset(self, *, seed: Any = None, env_ids: Any = None, options: Any = None) -> Any:
        if seed is not None:
            if type(seed) is not int:
                raise TypeError("seed")
            self.seed_points(seed)
        self.extras["log"] = {}
        ids = torch.arange(self.num_envs) if env_ids is None else env_ids
        self._reset(ids)
        obs, others = self._obs(), torch.ones(self.num_envs, dtype=torch.bool)
        others[ids] = False
        for group in obs.values():
            group[others] += 0.5  # noise that is drawn again
        return obs, self.extras

    def _reset(self, ids: Any) -> None:
        self.extras["log"]["steps"] = self.episode_length_buf[ids].float().mean()
        self.begin(ids)
        self.pending[ids] = False
        self.reward_buf[ids] = math.nan  # what a step returned is gone
        self.time_out_buf[ids] = False

    def step(self, actions: Any) -> Any:
        if not self.cfg.auto_reset and self.pending.any():
            raise RuntimeError("pending")
        if not isinstance(actions, torch.Tensor):
            raise TypeError("torch only")
        self.extras["log"] = {}
        self.move(actions)
        reward, terminated, time_outs = self.reward_buf, self.terminated_buf, self.time_out_buf
        ids = self.done_ids()
        if self.cfg.auto_reset and len(ids):
            reward, time_outs = reward.clone(), time_outs.clone()
            self._reset(ids)
        elif len(ids):
            self.pending[ids] = True
        return self._obs(), reward, terminated, time_outs, self.extras

    def render(self) -> Any:
        return np.zeros((4, 6, 3), np.uint8)


# ---- ManiSkill --------------------------------------------------------------------------------------------


@in_package("mani_skill")
class BaseEnv(Points, gym.Env):
    """As ManiSkill's: no autoreset, partial resets by `options["env_idx"]`, infos that change in place."""

    metadata: ClassVar[Any] = {"render_modes": ["rgb_array"]}
    render_mode = "rgb_array"

    def __init__(self, limits: Any, reconfiguration_freq: int = 0) -> None:
        super().__init__(limits)
        self.reconfiguration_freq = reconfiguration_freq
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (5,))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = gym.spaces.Box(-1, 1, (2,))
        single = self.num_envs == 1
        self.action_space = (
            self.single_action_space if single else batch_space(self.single_action_space, self.num_envs)
        )

    def _info(self) -> Any:
        return {"elapsed_steps": self.episode_length_buf, "success": self.terminated_buf.clone()}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        ids = (options or {}).get("env_idx", torch.arange(self.num_envs))
        if not len(ids):
            raise IndexError("no ids")
        self.seed_points(seed if not isinstance(seed, list) else sum(seed))
        self.begin(ids)
        self.terminated_buf[ids] = False
        self.reward_buf[ids] = math.nan
        return self.observe(), {**self._info(), "reconfigure": False}

    def step(self, actions: Any) -> Any:
        self.move(torch.clip(actions, -1, 1))
        none = torch.zeros(self.num_envs, dtype=torch.bool)
        return self.observe(), self.reward_buf, self.terminated_buf, none, self._info()

    def render(self) -> Any:
        return torch.zeros((self.num_envs, 4, 6, 3), dtype=torch.uint8)


@in_package("mani_skill")
class TimeLimitWrapper(gym.Wrapper):
    """As ManiSkill's own, which `gymnasium.make` puts around its environments."""

    _max_episode_steps = 5

    def step(self, actions: Any) -> Any:
        obs, reward, terminated, _, info = self.env.step(actions)
        return obs, reward, terminated, self.unwrapped.episode_length_buf >= self.unwrapped.limits, info


@in_package("mani_skill")
class CPUGymWrapper(gym.Wrapper):
    """As ManiSkill's: a single environment, although what is inside has rows."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = env.unwrapped.single_observation_space
        self.action_space = env.unwrapped.single_action_space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        obs, _ = self.env.reset(seed=seed, options=options)
        return obs[0].numpy().copy(), {}

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, _ = self.env.step(torch.as_tensor(action)[None])
        return obs[0].numpy().copy(), float(reward), bool(terminated), bool(truncated), {}


@in_package("mani_skill")
class ManiSkillVectorEnv(gym.vector.VectorEnv):
    """As ManiSkill's: other names for final observations, and metadata that belong to the class."""

    def __init__(self, env: Any, auto_reset: bool = True) -> None:
        self._env, self.auto_reset = env, auto_reset
        self.num_envs = env.unwrapped.num_envs
        self.spec = env.spec
        for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
            setattr(self, name, getattr(env.unwrapped, name))
        self.metadata = env.metadata
        self.metadata.update(autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

    @property
    def unwrapped(self) -> Any:
        return self._env.unwrapped

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        obs, reward, terminated, truncated, info = self._env.step(actions)
        done = terminated | truncated
        if done.any() and self.auto_reset:
            final = obs.clone()
            obs, info = self.reset(options={"env_idx": done.nonzero().squeeze(-1)})
            info |= {"final_observation": final, "_final_observation": done, "_elapsed_steps": done}
        return obs, reward, terminated, truncated, info

    def close_extras(self, **kwargs: Any) -> None:
        self._env.close()


# ---- Isaac Lab --------------------------------------------------------------------------------------------


class ResetsItself(Points, gym.Env):
    """Resets by itself, keeps its log until the next reset, declares spaces that contradict each other."""

    is_vector_env = True
    metadata: ClassVar[Any] = {"render_modes": [None, "human", "rgb_array"]}
    render_mode = None

    def __init__(self, limits: Any, **cfg: Any) -> None:
        super().__init__(limits)
        self.cfg = SimpleNamespace(**cfg)
        self.single_observation_space = gym.spaces.Dict(policy=gym.spaces.Box(-np.inf, np.inf, (5,)))
        self.observation_space = batch_space(self.single_observation_space["policy"], self.num_envs)
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _get_observations(self) -> Any:
        return {"policy": self.observe()}

    def _reset_idx(self, ids: Any) -> None:
        self.extras["log"] = {"steps": self.episode_length_buf[ids].float().mean()}
        self.begin(ids)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        if seed is not None:
            self.seed_points(seed)
        self._reset_idx(torch.arange(self.num_envs))
        return self._get_observations(), self.extras

    def step(self, actions: Any) -> Any:
        self.move(actions)
        if len(ids := self.done_ids()):
            if getattr(self.cfg, "compute_final_obs", False):
                self.extras["final_obs"] = self._get_observations()
            self._reset_idx(ids)
        return self._get_observations(), self.reward_buf, self.terminated_buf, self.time_out_buf, self.extras

    def render(self, recompute: bool = False) -> Any:
        return None


@in_package("isaaclab")
class DirectRLEnv(ResetsItself):
    """As Isaac Lab's."""


@in_package("isaaclab")
class ManagerBasedRLEnv(DirectRLEnv):
    """As Isaac Lab's: the observations are those of a manager, and some environments can be reset."""

    def __init__(self, limits: Any, history: Any = None, **cfg: Any) -> None:
        super().__init__(limits, **cfg)
        self.observation_manager = SimpleNamespace(
            compute=self._get_observations, _group_obs_term_history_buffer={"policy": history or {}}
        )

    def reset(self, seed: Any = None, env_ids: Any = None, options: Any = None) -> Any:
        if seed is not None:
            self.seed_points(seed)
        self._reset_idx(torch.arange(self.num_envs) if env_ids is None else env_ids)
        return self._get_observations(), self.extras


@in_package("isaaclab_experimental")
class DirectRLEnvWarp(DirectRLEnv):
    """As Isaac Lab's Warp variant: one buffer for all observations, resets by mask."""

    def __init__(self, limits: Any, **cfg: Any) -> None:
        super().__init__(limits, **cfg)
        self._ALL_ENV_MASK = torch.ones(self.num_envs, dtype=torch.bool)
        self.torch_obs_buf = torch.zeros(self.num_envs, 5)

    def _get_observations(self) -> Any:
        self.torch_obs_buf.copy_(self.observe())
        return {"policy": self.torch_obs_buf}


# ---- four values ------------------------------------------------------------------------------------------


class Go2Env(Points):
    """As in Genesis' examples: no base class, four values, float32 time-outs, flags that a reset fills."""

    def __init__(self, limits: Any) -> None:
        super().__init__(limits)
        self.num_actions = 2
        self.reset_buf = torch.ones(self.num_envs, dtype=torch.int32)
        self.obs_buf = torch.zeros(self.num_envs, 5)

    def get_observations(self) -> Any:
        return self.obs_buf, self.extras

    def reset_idx(self, ids: Any) -> None:
        if len(ids):
            self.extras["episode"] = {"steps": self.episode_length_buf[ids].float().mean().item()}
            self.begin(ids)

    def reset(self) -> Any:
        self.reset_buf[:] = 1
        self.reset_idx(torch.arange(self.num_envs))
        self.obs_buf = self.observe()
        return self.obs_buf, None

    def step(self, actions: Any) -> Any:
        self.move(actions)
        self.reset_buf = (self.terminated_buf | self.time_out_buf).int()
        self.extras["time_outs"] = self.time_out_buf.float()
        self.reset_idx(self.done_ids())
        self.obs_buf = self.observe()
        return self.obs_buf, self.reward_buf, self.reset_buf, self.extras


class LeggedEnv(Go2Env):
    """As in legged_gym: five values, which mean something else."""

    def get_observations(self) -> Any:
        return self.obs_buf

    def step(self, actions: Any) -> Any:
        obs, reward, done, extras = super().step(actions)
        return obs, None, reward, done, extras


@in_package("rsl_rl")
class VecEnv(Go2Env):
    """As rsl_rl's: observations are TensorDicts."""

    def get_observations(self) -> Any:
        from tensordict import TensorDict

        return TensorDict({"policy": self.obs_buf}, batch_size=[self.num_envs])

    def reset(self) -> Any:
        super().reset()
        return self.get_observations(), self.extras

    def step(self, actions: Any) -> Any:
        _, *others = super().step(actions)
        return self.get_observations(), *others


# ---- of no known class ------------------------------------------------------------------------------------


class Unknown(ResetsItself):
    """A batched `gym.Env` of a package that nobody knows."""


class UnknownObject(Points):
    """An object of no class, in NumPy, that leaves resetting to the caller, and declares no observations."""

    num_actions = 2

    def reset(self, seed: Any = None) -> Any:
        self.seed_points(seed)
        self.begin(torch.arange(self.num_envs))
        return {"at": self.observe().numpy()}

    def step(self, actions: Any) -> Any:
        assert isinstance(actions, np.ndarray)
        self.move(torch.as_tensor(actions))
        flags = self.terminated_buf.numpy(), self.time_out_buf.numpy()
        return (
            {"at": self.observe().numpy()},
            self.reward_buf.numpy(),
            *flags,
            {"steps": self.episode_length_buf.numpy()},
        )


for cls in (Unknown, UnknownObject):
    cls.__module__ = "nobody.knows"
