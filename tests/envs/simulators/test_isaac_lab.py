"""Isaac Lab's own step functions, on the CPU: `make test-with NAME=mjlab` has them, too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.mjlab
torch = pytest.importorskip("torch")
if not Path(sys.prefix, "isaaclab").exists():
    pytest.skip("isaaclab is not installed", allow_module_level=True)

from arrayferry import wrap  # noqa: E402
from arrayferry.envs import as_gymnasium  # noqa: E402
from arrayferry.learners import sb3_vec_env  # noqa: E402
from envs.simulators.real_isaac_lab import Direct, Managers  # noqa: E402
from envs.simulators.test_vector_env import actions_of, assert_same, leaves_of  # noqa: E402

LIMITS = [3, 5, 4, 7]
KINDS = pytest.mark.parametrize("kind", [Direct, Managers])


def copied(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: copied(value) for key, value in values.items()}
    return tuple(map(copied, values)) if isinstance(values, tuple) else values.clone()


@KINDS
@pytest.mark.parametrize("final_obs", [None, True, False])
def test_a_rollout_is_that_of_the_bare_simulator(kind, final_obs):
    bare, envs = kind(LIMITS), wrap(as_gymnasium(kind(LIMITS), final_obs=final_obs), "torch")
    assert_same(envs.reset()[0], bare.reset()[0])
    for step in range(40):
        assert_same(envs.step(actions_of(step, 4))[:4], copied(bare.step(actions_of(step, 4))[:4]))


@KINDS
def test_what_was_returned_never_changes_and_actions_leave_no_trace(kind):
    envs = wrap(kind(LIMITS), "torch")
    kept = [envs.reset()]
    kept += [envs.step(actions_of(step, 4).double().requires_grad_()) for step in range(100)]
    leaves = [leaf for leaf in leaves_of(tuple(kept)) if isinstance(leaf, torch.Tensor)]
    copies = [leaf.clone() for leaf in leaves]
    for step in range(10):
        envs.step(actions_of(step, 4))
    for leaf, copy in zip(leaves, copies):
        assert torch.equal(leaf, copy)
        assert not leaf.requires_grad
        assert leaf.dtype is not torch.float64


@KINDS
def test_final_observations_are_those_of_a_twin_without_a_time_limit(kind):
    envs, twin = as_gymnasium(kind(LIMITS), final_obs=True), kind([10**6] * 4)
    envs.reset(), twin.reset()
    seen = torch.zeros(4, dtype=torch.bool)
    for step in range(max(LIMITS)):
        _, _, _, truncated, info = envs.step(actions_of(step, 4))
        obs = twin.step(actions_of(step, 4))[0]
        assert ("final_obs" in info) == bool(truncated.any())
        new = truncated & ~seen
        seen |= truncated
        if new.any():
            assert torch.equal(info["final_obs"]["policy"][new], obs["policy"][new])
    assert seen.all()


@KINDS
def test_learners_get_true_terminal_observations_and_rewards(kind):
    pytest.importorskip("stable_baselines3")
    venv = sb3_vec_env(as_gymnasium(kind(LIMITS), final_obs=True), action_bound=10.0)
    bare, twin = kind(LIMITS), kind([10**6] * 4)
    venv.reset(), bare.reset(), twin.reset()
    for step in range(3):
        _, rewards, dones, infos = venv.step(actions_of(step, 4).numpy())
        np.testing.assert_array_equal(rewards, bare.step(actions_of(step, 4))[1].numpy())
        obs = twin.step(actions_of(step, 4))[0]["policy"]
    assert dones.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(infos[0]["terminal_observation"]["policy"], obs[0].numpy())


@KINDS
def test_spaces_and_infos(kind):
    envs = wrap(kind(LIMITS), "numpy")
    obs, _ = envs.reset(seed=np.int64(3))
    assert envs.observation_space.contains(obs)
    assert envs.action_space.shape == (4, 2)
    assert envs.spec.max_episode_steps == 7
    assert not envs.unwrapped.has_final_obs
    logs = ["log" in envs.step(actions_of(step, 4).numpy())[4] for step in range(5)]
    assert logs == ([False] * 5 if kind is Direct else [False, False, True, True, True])


def test_some_environments_can_be_reset_where_managers_do_it():
    envs = wrap(Managers(LIMITS), "torch")
    envs.reset()
    before = envs.step(actions_of(0, 4))[0]["policy"]
    obs = envs.reset(options={"reset_mask": np.array([False, True, False, False])})[0]["policy"]
    assert torch.equal(obs[[0, 2, 3]], before[[0, 2, 3]])
    assert obs[1].tolist() == pytest.approx([0.2, 0.2, 0])
