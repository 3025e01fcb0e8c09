"""PettingZoo's environments explained: the leaves of real steps, by agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayferry

pytest.importorskip("pettingzoo")

from helpers.pettingzoo_envs import ThreeAgents, aec


class Strict(ThreeAgents):
    """Refuses an action that its mask forbids."""

    def step(self, actions: dict[str, Any]) -> Any:
        for agent in self.agents:
            mask = self._observe(agent).get("action_mask")
            assert mask is None or mask[actions[agent]]
        return super().step(actions)


def test_a_parallel_environment() -> None:
    explanation = arrayferry.explain(Strict(), "numpy", steps=30)
    leaves = {leaf.path: leaf for leaf in explanation.leaves}
    assert explanation.title == "zoo_v0 to numpy"
    assert {
        'action["walker_0"]',
        'obs["turner_0"]["observation"]',
        'info["walker_1"]["mask"]',
    } <= leaves.keys()
    assert leaves['reward["walker_0"]'].after == "float"
    assert leaves['terminated["walker_0"]'].after == "bool"
    assert leaves['obs["walker_0"]["observation"]'].memory == "taken over"
    assert leaves['obs["walker_1"]["observation"]'].seen < leaves['obs["walker_0"]["observation"]'].seen == 30


def test_agents_that_take_turns() -> None:
    explanation = arrayferry.explain(aec(), "numpy", steps=30)
    leaves = {leaf.path: leaf for leaf in explanation.leaves}
    assert {"action", 'obs["observation"]', 'info["mask"]', "reward", "terminated"} <= leaves.keys()
    assert leaves['obs["observation"]'].shape == (4,)
    assert leaves['obs["observation"]'].before == np.dtype("uint8").name
