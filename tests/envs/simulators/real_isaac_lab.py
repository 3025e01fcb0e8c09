"""Isaac Lab's own `step` and `reset`, over stand-ins for Omniverse and a toy scene of points.

What is Isaac Lab's: the two environment classes, and the managers of observations, terminations and rewards.
What is not: every module of Omniverse, USD and PhysX, which are empty here, and the other managers, which do
nothing.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

# Not where Python looks for packages: others would find it there, and fail to import it without Omniverse.
PLACE = Path(sys.prefix, "isaaclab", "isaaclab", "source", "isaaclab")

_STANDS_IN = set(
    "carb dex_retargeting einops flatdict h5py hid isaaclab_contrib isaacsim omni onnx pink pinocchio".split()
)
_STANDS_IN |= set("psutil pxr requests transformers trimesh usdrt".split())


class _Anything(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


def _anything(name: str) -> Any:
    def nothing(*_: Any, **__: Any) -> None:
        return None

    return _Anything(name, (), {"__init__": nothing, "__getattr__": lambda *_: nothing})


class _StandIn(ModuleType):
    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _anything(name))
        return getattr(self, name)


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        stands_in = name.partition(".")[0] in _STANDS_IN
        return ModuleSpec(name, self, is_package=True) if stands_in else None

    def create_module(self, spec: ModuleSpec) -> Any:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


sys.path.insert(0, str(PLACE))
sys.meta_path.append(_Finder())
builtins.ISAAC_LAUNCHED_FROM_TERMINAL = True  # type: ignore[attr-defined]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from isaaclab.envs import DirectRLEnv, ManagerBasedRLEnv
    from isaaclab.managers import (
        ObservationGroupCfg,
        ObservationManager,
        ObservationTermCfg,
        RewardManager,
        RewardTermCfg,
        TerminationManager,
        TerminationTermCfg,
    )
    from isaaclab.utils import configclass


class Scene:
    """Points that actions move, and that begin where their episode's number says."""

    def __init__(self, limits: Any) -> None:
        self.num_envs, self.limits = len(limits), torch.tensor(limits)
        self.points = torch.zeros(self.num_envs, 2)
        self.actions = torch.zeros(self.num_envs, 2)
        self.episodes = torch.zeros(self.num_envs)

    def reset(self, ids: Any) -> None:
        self.episodes[ids] += 1
        self.points[ids] = self.episodes[ids, None] / 10

    def update(self, dt: float) -> None:
        self.points += self.actions

    def write_data_to_sim(self) -> None:
        """Do nothing."""


def _simulation() -> Any:
    nothing = lambda *_, **__: None  # noqa: E731
    false = lambda: False  # noqa: E731
    return SimpleNamespace(
        device="cpu", has_gui=false, has_rtx_sensors=false, step=nothing, forward=nothing, render=nothing
    )


def _cfg(limits: Any) -> Any:
    return SimpleNamespace(
        sim=SimpleNamespace(dt=0.5, render_interval=1),
        decimation=1,
        episode_length_s=max(limits) * 0.5,
        events=None,
        action_noise_model=None,
        observation_noise_model=None,
        num_rerenders_on_reset=0,
        wait_for_textures=False,
    )


class Direct(DirectRLEnv):
    """A task of the direct workflow."""

    def __init__(self, limits: Any) -> None:
        self._is_closed = True  # there is nothing to close
        self.cfg, self.sim, self.scene, self.render_mode = _cfg(limits), _simulation(), Scene(limits), None
        self.extras, self._sim_step_counter, self.common_step_counter = {}, 0, 0
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.reset_terminated = torch.zeros(self.num_envs, dtype=torch.bool)
        self.reset_time_outs = torch.zeros(self.num_envs, dtype=torch.bool)
        self.cfg.num_actions = self.cfg.num_observations = self.cfg.num_states = self.cfg.state_space = None
        self.cfg.observation_space, self.cfg.action_space = 3, 2
        self._configure_gym_env_spaces()

    def _pre_physics_step(self, actions: Any) -> None:
        self.scene.actions = actions

    def _apply_action(self) -> None:
        pass

    def _get_observations(self) -> Any:
        return {"policy": torch.cat([self.scene.points, self.episode_length_buf[:, None].float()], 1)}

    def _get_rewards(self) -> Any:
        return self.scene.points.sum(1)

    def _get_dones(self) -> Any:
        return self.scene.points.abs().sum(1) > 20, self.episode_length_buf >= self.scene.limits


def _observe(env: Any) -> Any:
    return torch.cat([env.scene.points, env.episode_length_buf[:, None].float()], 1)


@configclass
class _Observations:
    @configclass
    class Policy(ObservationGroupCfg):
        """One term."""

        points = ObservationTermCfg(func=_observe)

    policy = Policy()


@configclass
class _Rewards:
    points = RewardTermCfg(func=lambda env: env.scene.points.sum(1), weight=1.0)


@configclass
class _Terminations:
    far = TerminationTermCfg(func=lambda env: env.scene.points.abs().sum(1) > 20)
    late = TerminationTermCfg(func=lambda env: env.episode_length_buf >= env.scene.limits, time_out=True)


class Managers(ManagerBasedRLEnv):
    """A task of the manager-based workflow."""

    def __init__(self, limits: Any) -> None:
        self._is_closed = True  # there is nothing to close
        self.cfg, self.sim, self.scene, self.render_mode = _cfg(limits), _simulation(), Scene(limits), None
        self.sim.is_playing = lambda: True
        self.extras, self._sim_step_counter, self.common_step_counter = {}, 0, 0
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        idle = {
            "compute": lambda **_: None,
            "reset": lambda ids: {},
            "available_modes": [],
            "active_terms": [],
        }
        idle |= {
            name: lambda *_: None for name in ("record_pre_step", "record_post_step", "record_pre_reset")
        }
        idle |= {"record_post_reset": lambda ids: None, "record_post_physics_decimation_step": lambda: None}
        self.command_manager = self.curriculum_manager = self.event_manager = SimpleNamespace(**idle)
        self.recorder_manager = SimpleNamespace(**idle)
        self.action_manager = SimpleNamespace(
            **idle, process_action=self._move, apply_action=lambda: None, action_term_dim=[2]
        )
        self.observation_manager = ObservationManager(_Observations(), self)
        self.termination_manager = TerminationManager(_Terminations(), self)
        self.reward_manager = RewardManager(_Rewards(), self)
        self._configure_gym_env_spaces()

    def _move(self, actions: Any) -> None:
        self.scene.actions = actions
