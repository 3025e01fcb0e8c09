"""Environments whose arrays are on a device, or on the host."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

ROWS = 64

OBSERVATION = spaces.Dict(
    camera=spaces.Box(0, 255, (4, 4, 3), np.uint8),
    position=spaces.Box(-100, 100, (3,), np.float32),
    speed=spaces.Box(-100, 100, (3,), np.float32),
)


class Rows(VectorEnv):
    """Returns the same memory in every step, as simulators do, after counting up in it.

    Args:
        device: `"numpy"`, or where its tensors are.
        mode: when it resets rows.
        period: every row ends an episode after so many steps.
    """

    def __init__(self, device, mode=AutoresetMode.NEXT_STEP, period=1000):
        self.num_envs, self.metadata, self.device = ROWS, {"autoreset_mode": mode}, device
        self.single_observation_space = OBSERVATION
        self.single_action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = batch_space(OBSERVATION, ROWS)
        self.action_space = batch_space(self.single_action_space, ROWS)
        self.period, self.steps, self.actions = period, 0, []
        self.obs = {
            name: self.new(np.zeros((ROWS, *space.shape), space.dtype)) for name, space in OBSERVATION.items()
        }
        self.rest = [self.new(np.zeros(ROWS, np.float32)), *(self.new(np.zeros(ROWS, bool)) for _ in "ab")]

    def new(self, array):
        return array if self.device == "numpy" else torch.from_numpy(array).to(self.device)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        for array in (*self.obs.values(), *self.rest):
            array[...] = 0
        return self.obs, {}

    def step(self, action):
        self.actions.append(action)
        self.steps += 1
        for array in (*self.obs.values(), self.rest[0]):
            array += 1
        self.rest[1][...] = self.steps % self.period == 0
        return (self.obs, *self.rest, {})


class Single(gym.Env):
    """One environment, whose observation is a tensor on a device."""

    observation_space, action_space = spaces.Box(-9, 9, (3,), np.float32), spaces.Discrete(3)

    def __init__(self, device):
        self.obs = torch.zeros(3).to(device)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs.zero_()
        return self.obs, {}

    def step(self, action):
        self.obs += 1
        return self.obs, self.obs[0], self.obs[0] > 4, False, {"action": action}


def policy(device="numpy"):
    """Return actions for all rows, where an agent would make them."""
    actions = np.full((ROWS, 2), 0.5, np.float32)
    return actions if device == "numpy" else torch.from_numpy(actions).to(device)
