"""ManiSkill itself, on the CPU, where it has one row: `make test-with NAME=maniskill`.

Even without rendering it needs a Vulkan device, such as Mesa's lavapipe, version 25.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

pytestmark = [pytest.mark.maniskill, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
pytest.importorskip("mani_skill")

from arrayferry import wrap  # noqa: E402
from envs.simulators.test_vector_env import assert_same, leaves_of  # noqa: E402

LIMIT = 5


def make(limit: int = LIMIT) -> Any:
    import mani_skill.envs  # noqa: F401  (which registers them)

    options = {"obs_mode": "state", "sim_backend": "physx_cpu", "render_backend": "none"}
    try:
        return gym.make("PickCube-v1", num_envs=1, max_episode_steps=limit, **options)
    except RuntimeError as error:
        if "rendering device" in str(error):
            pytest.skip(
                "ManiSkill finds no Vulkan device: install lavapipe 25, and name it in VK_ICD_FILENAMES"
            )
        raise


def action_of(step: int, count: int) -> Any:
    return torch.sin(torch.arange(count, dtype=torch.float32) + step)[None] / 2


def test_a_rollout_with_final_observations_of_a_twin_without_a_time_limit() -> None:
    envs, twin = wrap(make(), "torch"), make(1000)
    assert isinstance(envs, gym.vector.VectorEnv)
    assert (envs.num_envs, envs.spec.max_episode_steps) == (1, LIMIT)
    count = envs.single_action_space.shape[0]
    assert_same(envs.reset(seed=3)[0], twin.reset(seed=3)[0])
    for step in range(LIMIT):
        obs, reward, _, truncated, info = envs.step(action_of(step, count).double().requires_grad_())
        expected, like, *_ = twin.step(action_of(step, count))
        assert torch.equal(reward, like)
        assert truncated.tolist() == [step == LIMIT - 1]
    assert torch.equal(info["final_obs"], expected)
    assert info["final_info"]["elapsed_steps"].tolist() == [LIMIT]
    assert info["elapsed_steps"].tolist() == [0]
    assert not torch.equal(obs, expected)
    assert not any(getattr(leaf, "requires_grad", False) for leaf in leaves_of((obs, reward, info)))


def test_what_was_returned_never_changes() -> None:
    envs = wrap(make(), "torch")
    kept = [envs.reset(seed=3)]
    kept += [envs.step(action_of(step, envs.single_action_space.shape[0])) for step in range(20)]
    leaves = [leaf for leaf in leaves_of(tuple(kept)) if isinstance(leaf, torch.Tensor)]
    copies = [leaf.clone() for leaf in leaves]
    for step in range(6):
        envs.step(action_of(step, envs.single_action_space.shape[0]))
    assert all(map(torch.equal, leaves, copies))


def test_its_own_wrappers() -> None:
    from mani_skill.utils.wrappers.gymnasium import CPUGymWrapper
    from mani_skill.vector.wrappers.gymnasium import ManiSkillVectorEnv

    single = wrap(CPUGymWrapper(make()), "torch")
    assert not isinstance(single, gym.vector.VectorEnv)
    single.reset(seed=3)
    assert type(single.step(action_of(0, single.action_space.shape[0])[0])[1]) is float
    envs = wrap(ManiSkillVectorEnv(make()), "torch", autoreset_mode="Disabled")
    assert envs.metadata["autoreset_mode"] is gym.vector.AutoresetMode.DISABLED
    envs.reset(seed=3)
    for step in range(LIMIT):
        _, _, _, truncated, info = envs.step(action_of(step, envs.single_action_space.shape[0]))
    assert truncated.all()
    assert not [key for key in info if "final" in key]
    assert envs.reset(options={"reset_mask": truncated})[1]["elapsed_steps"].tolist() == [0]
