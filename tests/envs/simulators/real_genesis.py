"""Carts of Genesis, on the CPU, in an environment like those of its examples: no base class, four values."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import genesis as gs
import torch
from tensordict import TensorDict

_CART = """<mujoco><worldbody><body name="cart">
  <joint name="slide" type="slide" axis="1 0 0" damping="1"/><geom type="box" size=".2 .1 .1" mass="1"/>
</body></worldbody></mujoco>"""


class Carts:
    """Carts on a rail, whose episodes end after a number of steps, and which reset by themselves.

    As in Genesis' examples, each step overwrites the rewards of the last one, and extras are one dict.
    """

    num_actions = 1

    def __init__(self, limits: list[int]) -> None:
        if not gs._initialized:
            gs.init(backend=gs.cpu, logging_level="error")
        self.num_envs, self.device = len(limits), gs.device
        self.limits, self.max_episode_length = torch.tensor(limits), max(limits)
        self.scene = gs.Scene(
            sim_options=gs.options.SimOptions(dt=0.02),
            rigid_options=gs.options.RigidOptions(enable_collision=False),
            show_viewer=False,
        )
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "cart.xml").write_text(_CART)
            self.cart = self.scene.add_entity(gs.morphs.MJCF(file=str(Path(folder, "cart.xml"))))
            self.scene.build(n_envs=self.num_envs)
        self.rew_buf = torch.zeros(self.num_envs)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.int32)
        self.extras: dict[str, Any] = {}

    def get_observations(self) -> Any:
        """Return positions and velocities."""
        places, speeds = self.cart.get_dofs_position(), self.cart.get_dofs_velocity()
        return TensorDict({"policy": torch.cat([places, speeds], 1)}, batch_size=[self.num_envs])

    def _reset_idx(self, ids: Any) -> None:
        if len(ids):
            self.cart.set_dofs_position(torch.zeros(len(ids), 1), envs_idx=ids, zero_velocity=True)
            self.extras["episode"] = {"steps": self.episode_length_buf[ids].float().mean().item()}
            self.episode_length_buf[ids] = 0

    def reset(self) -> Any:
        """Begin all episodes."""
        self._reset_idx(torch.arange(self.num_envs))
        return self.get_observations()

    def step(self, actions: Any) -> Any:
        """Push the carts."""
        self.cart.control_dofs_force(actions)
        self.scene.step()
        self.episode_length_buf += 1
        self.rew_buf[:] = self.cart.get_dofs_position().squeeze(-1)
        done = self.episode_length_buf >= self.limits
        self.extras["time_outs"] = done.float()
        self._reset_idx(done.nonzero().squeeze(-1))
        return self.get_observations(), self.rew_buf, done, self.extras
