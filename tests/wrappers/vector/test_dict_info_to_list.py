"""Infos as a list, for environments of any framework: what Gymnasium gives for NumPy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.wrappers import vector as ours
from helpers.compare import assert_crossed


class Told(gym.Env[Any, Any]):
    """Its infos differ from environment to environment and from step to step, and some are nested."""

    observation_space, action_space = gym.spaces.Box(0, 9, (2,)), gym.spaces.Discrete(2)

    def __init__(self, index: int) -> None:
        self.index = index

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {"began": self.index} if self.index else {}

    def step(self, action: Any) -> Any:
        self.count += 1
        info: dict[str, Any] = {"row": np.arange(2.0) + self.index, "name": f"n{self.index}"}
        if self.count % 2 == self.index % 2:
            info["part"] = {"count": self.count, "deep": {"odd": True}}
        return np.full(2, self.count, np.float32), 1.0, self.count == 2 + self.index, False, info


def envs_of(mode: AutoresetMode) -> Any:
    return SyncVectorEnv([lambda index=index: Told(index) for index in range(3)], autoreset_mode=mode)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_each_environment_has_its_infos(framework: str, mode: AutoresetMode) -> None:
    pytest.importorskip(framework)
    plain = gym.wrappers.vector.DictInfoToList(envs_of(mode))
    listed = ours.DictInfoToList(arrayferry.wrap(envs_of(mode), framework))
    assert isinstance(listed, gym.wrappers.vector.DictInfoToList)
    infos, expected = listed.reset(seed=1)[1], plain.reset(seed=1)[1]
    for _ in range(6):
        assert [list(info) for info in infos] == [list(info) for info in expected]
        if framework == "numpy":  # whose rows are scalars
            assert repr(infos) == repr(expected)
        else:
            assert_crossed(infos, expected, framework)
        *_, infos = listed.step(np.zeros(3, int))
        *_, expected = plain.step(np.zeros(3, int))
