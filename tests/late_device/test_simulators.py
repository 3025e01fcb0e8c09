"""Batched simulators on the late device: what they return is the same as on the CPU."""

from __future__ import annotations

import pytest
import torch

from arrayferry import convert, wrap
from envs.simulators.test_vector_env import LIMITS, MAKERS, actions_of

pytestmark = pytest.mark.late

# Warp's arrays have no counterpart on the late device.
NAMES = sorted(MAKERS.keys() - {"Isaac Lab, Warp"})


def rollout(name, device, target):
    """Return what a simulator on a device returns to an agent elsewhere; it makes tensors on that device."""
    with torch.device(device):
        simulator = MAKERS[name](LIMITS)
        getattr(simulator, "unwrapped", simulator).device = torch.device(device)
        env = wrap(simulator, *target)
        results = [env.reset(), *(env.step(actions_of(step, len(LIMITS))) for step in range(8))]
    return convert(results, "numpy")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", [("torch", "late:0"), ("torch", "late:1"), ("numpy", None)], ids=str)
def test_a_simulator_on_the_device(name, target):
    on_host = ("torch", "cpu") if target[0] == "torch" else target
    assert repr(rollout(name, "late:0", target)) == repr(rollout(name, "cpu", on_host))
