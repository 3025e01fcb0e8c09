"""Environments of mjlab, on the CPU."""

from __future__ import annotations

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses what torch deprecates
    import mjlab.tasks  # noqa: F401  (which registers them)
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.tasks.registry import load_env_cfg


def make(rows: int, limit: int, task: str = "Mjlab-Cartpole-Balance") -> Any:
    """Return an environment with a number of rows, whose episodes are truncated after a number of steps."""
    cfg = load_env_cfg(task)
    cfg.scene.num_envs, cfg.seed = rows, 1
    cfg.episode_length_s = limit * cfg.sim.mujoco.timestep * cfg.decimation - 1e-6
    return ManagerBasedRlEnv(cfg, device="cpu")
