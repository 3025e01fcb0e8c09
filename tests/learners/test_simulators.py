"""Learners get the rewards, observations and ends of the bare simulator, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

torch = pytest.importorskip("torch")

from arrayferry import wrap  # noqa: E402
from arrayferry.envs import as_gymnasium  # noqa: E402
from arrayferry.errors import UnsupportedError  # noqa: E402
from arrayferry.learners import rsl_rl_vec_env, sb3_vec_env, torchrl_env  # noqa: E402
from envs.simulators import stand_ins  # noqa: E402
from envs.simulators.test_vector_env import LIMITS, MAKERS, Bare, actions_of, maniskill  # noqa: E402

STEPS = 20
KEEPS_FINAL = ["mjlab", "ManiSkill", "ManiSkillVectorEnv", "Isaac Lab, newer"]
MODES = pytest.mark.parametrize("mode", ["SameStep", "Disabled"])


def bare_rollout(sim: Any) -> Any:
    """Return what the bare simulator gives for each step, stacked."""
    bare = Bare(sim)
    bare.reset()
    steps = [bare.step(actions_of(step, len(LIMITS))) for step in range(STEPS)]
    return [torch.stack([step[index] for step in steps]) for index in (1, 2, 3)]


@pytest.mark.parametrize("family", KEEPS_FINAL)
def test_sb3(family):
    pytest.importorskip("stable_baselines3")
    venv = sb3_vec_env(MAKERS[family](LIMITS), action_bound=10.0)
    twin = Bare(MAKERS[family]([stand_ins.FOREVER] * 4))
    twin.reset()
    venv.reset()
    assert venv.action_space.is_bounded()
    rewards, dones, first_ends = [], [], {}
    for step in range(STEPS):
        _, reward, done, infos = venv.step(actions_of(step, 4).numpy())
        expected = twin.step(actions_of(step, 4))[0]
        rewards.append(reward)
        dones.append(done)
        for row in np.flatnonzero(done).tolist():
            final = infos[row]["terminal_observation"]
            if first_ends.setdefault(row, step) == step and infos[row]["TimeLimit.truncated"]:
                pairs = (
                    [(final[key], expected[key]) for key in final]
                    if isinstance(final, dict)
                    else [(final, expected)]
                )
                for value, like in pairs:
                    np.testing.assert_array_equal(value, like[row].numpy())
    reward, terminated, truncated = bare_rollout(MAKERS[family](LIMITS))
    np.testing.assert_array_equal(np.stack(rewards), reward.numpy())
    np.testing.assert_array_equal(np.stack(dones), (terminated | truncated).numpy())
    assert len(first_ends) == 4


@pytest.mark.learners
@MODES
@pytest.mark.parametrize("family", ["mjlab", "ManiSkill"])
def test_torchrl(family, mode):
    pytest.importorskip("torchrl")
    from tensordict.nn import TensorDictModuleBase

    sim = MAKERS[family](LIMITS)
    env = torchrl_env(as_gymnasium(sim, autoreset_mode=mode))
    sim.unwrapped.episodes.zero_()  # it has been played to learn what its infos are
    steps = iter(range(STEPS))

    class Policy(TensorDictModuleBase):
        in_keys, out_keys = [], ["action"]

        def forward(self, data):
            return data.set("action", actions_of(next(steps), 4))

    rollout = env.rollout(STEPS, Policy(), break_when_any_done=False)
    reward, terminated, truncated = bare_rollout(MAKERS[family](LIMITS))
    assert torch.equal(rollout["next", "reward"].squeeze(-1), reward.T)
    assert torch.equal(rollout["next", "truncated"].squeeze(-1), truncated.T)
    assert torch.equal(rollout["next", "terminated"].squeeze(-1), terminated.T)


@pytest.mark.learners
@pytest.mark.parametrize("family", MAKERS)
def test_rsl_rl(family):
    pytest.importorskip("rsl_rl")
    env = rsl_rl_vec_env(MAKERS[family](LIMITS))
    results = [env.step(actions_of(step, 4)) for step in range(STEPS)]
    reward, terminated, truncated = bare_rollout(MAKERS[family](LIMITS))
    assert torch.equal(torch.stack([result[1] for result in results]), reward)
    assert torch.equal(torch.stack([result[2] for result in results]), terminated | truncated)
    time_outs = torch.stack([result[3]["time_outs"] for result in results])
    assert torch.equal(time_outs, truncated & ~terminated)


@pytest.mark.learners
def test_rsl_rl_sets_the_simulators_counter():
    pytest.importorskip("rsl_rl")
    sim = stand_ins.ManagerBasedRlEnv([9, 9])
    env = rsl_rl_vec_env(sim)
    assert env.max_episode_length == 9
    env.episode_length_buf = torch.tensor([3, 8])
    assert env.step(torch.zeros(2, 2))[3]["time_outs"].tolist() == [False, True]
    assert env.episode_length_buf.tolist() == sim.episode_length_buf.tolist() == [4, 0]


@pytest.mark.learners
@pytest.mark.parametrize("family", ["mjlab", "Isaac Lab, direct"])
def test_skrl(family):
    skrl = pytest.importorskip("skrl.envs.wrappers.torch")
    env = skrl.wrap_env(wrap(MAKERS[family](LIMITS), "numpy"), wrapper="gymnasium")
    env.reset()
    rewards = [env.step(actions_of(step, 4))[1].squeeze(-1) for step in range(STEPS)]
    assert torch.equal(torch.stack(rewards), bare_rollout(MAKERS[family](LIMITS))[0])


@pytest.mark.parametrize("target", ["torch", "jax"])
@pytest.mark.parametrize("family", MAKERS)
def test_a_loop_of_ones_own(family, target):
    pytest.importorskip(target)
    envs = wrap(MAKERS[family](LIMITS), target)
    envs.reset()
    rewards = []
    for step in range(STEPS):
        actions = actions_of(step, 4)
        rewards.append(envs.step(actions if target == "torch" else actions.numpy())[1])
    expected = bare_rollout(MAKERS[family](LIMITS))[0]
    np.testing.assert_array_equal(np.stack([np.asarray(reward) for reward in rewards]), expected.numpy())


def test_actions_without_bounds_are_refused_with_what_to_pass():
    pytest.importorskip("stable_baselines3")
    with pytest.raises(UnsupportedError, match="pass action_bound"):
        sb3_vec_env(stand_ins.ManagerBasedRlEnv(LIMITS))
    bound = sb3_vec_env(maniskill(LIMITS), action_bound=5.0).action_space
    assert (bound.low.min(), bound.high.max()) == (-1, 1)


@pytest.mark.parametrize("family", sorted(set(MAKERS) - set(KEEPS_FINAL)))
def test_learners_that_need_final_observations_refuse_simulators_without(family):
    pytest.importorskip("stable_baselines3")
    sim = MAKERS[family](LIMITS)
    with pytest.raises(UnsupportedError, match="gives no final observations"):
        sb3_vec_env(sim, action_bound=1.0)
    assert not sim.episodes.any()
    if family.startswith("Isaac Lab, "):
        return
    with pytest.raises(UnsupportedError, match="mode SAME_STEP, not DISABLED"):
        as_gymnasium(sim, autoreset_mode=AutoresetMode.DISABLED)


@pytest.mark.parametrize("learner", [lambda envs: sb3_vec_env(envs, action_bound=1.0), torchrl_env])
def test_learners_that_reset_rows_refuse_simulators_that_cannot(learner):
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("torchrl")
    sim = stand_ins.Unknown(LIMITS)
    with pytest.raises(UnsupportedError, match="cannot reset only some of its environments"):
        learner(as_gymnasium(sim, autoreset_mode=AutoresetMode.DISABLED))
    assert not sim.episodes.any()
