"""mjlab itself, on the CPU: `make test-with NAME=mjlab`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.mjlab
torch = pytest.importorskip("torch")
pytest.importorskip("mjlab")

from arrayferry import wrap  # noqa: E402
from arrayferry.envs import as_gymnasium  # noqa: E402
from envs.simulators.real_mjlab import make  # noqa: E402
from envs.simulators.test_vector_env import assert_same, leaves_of  # noqa: E402

ROWS = pytest.mark.parametrize("rows", [1, 4, 64])
LIMIT = 10


def actions_of(step: int, rows: int, count: int = 1) -> Any:
    return torch.sin(torch.arange(rows * count).reshape(rows, count) + step) / 2


def staggered(rows: int) -> Any:
    return torch.arange(rows) % LIMIT


def roll(reset: Any, step: Any, sim: Any, steps: int, count: int = 1) -> list[Any]:
    """Reset with a seed, let the episodes end at different times, and return copies of what comes out."""
    obs, _ = reset(seed=3)
    results = [copied((obs,))]
    sim.episode_length_buf = staggered(sim.num_envs)
    for number in range(steps):
        results.append(copied(step(actions_of(number, sim.num_envs, count))[:4]))
    return results


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return tuple(map(copied, value)) if isinstance(value, tuple) else value.clone()


@ROWS
@pytest.mark.parametrize("final_obs", [None, False])
def test_a_rollout_with_staggered_ends_is_bit_for_bit_that_of_the_bare_simulator(rows, final_obs):
    bare, sim = make(rows, LIMIT), make(rows, LIMIT)
    envs = wrap(as_gymnasium(sim, final_obs=final_obs), "torch")
    expected = roll(bare.reset, bare.step, bare, 40)
    assert_same(roll(envs.reset, envs.step, sim, 40), expected)
    assert sum(int(truncated.sum()) for *_, truncated in expected[1:]) >= 3 * rows
    assert sim.cfg.auto_reset is True


def test_noise_is_drawn_once_without_final_observations():
    rows, task = 4, "Mjlab-Velocity-Flat-Unitree-Go1"
    bare, sim = make(rows, LIMIT, task), make(rows, LIMIT, task)
    envs = as_gymnasium(sim, final_obs=False)
    count = envs.single_action_space.shape[0]
    expected = roll(bare.reset, bare.step, bare, 15, count)
    assert_same(roll(envs.reset, envs.step, sim, 15, count), expected)


@ROWS
@pytest.mark.parametrize("opened", [as_gymnasium, lambda sim: wrap(sim, "torch")], ids=["bare", "wrapped"])
def test_final_observations_are_those_of_a_twin_without_a_time_limit(rows, opened):
    sim, twin = make(rows, LIMIT), make(rows, 10_000)
    envs = opened(sim)
    envs.reset(seed=3)
    sim.episode_length_buf = staggered(rows)
    results = [envs.step(actions_of(step, rows)) for step in range(LIMIT)]
    twin.reset(seed=3)
    seen = torch.zeros(rows, dtype=torch.bool)
    for step, (*_, truncated, info) in enumerate(results):
        obs = twin.step(actions_of(step, rows))[0]
        new = truncated & ~seen
        seen |= truncated
        if not truncated.any():
            assert "final_obs" not in info
            continue
        assert torch.equal(info["_final_obs"], truncated)
        for key, final in info["final_obs"].items():
            assert torch.equal(final[new], obs[key][new])
    assert seen.all()


@ROWS
def test_partial_resets_leave_other_rows_alone(rows):
    sim, twin = make(rows, 1000), make(rows, 1000)
    envs, others = (wrap(each, "torch", autoreset_mode="Disabled") for each in (sim, twin))
    envs.reset(seed=3)
    before = envs.step(actions_of(0, rows))[0]
    mask = np.arange(rows) % 2 == 0
    obs, _ = envs.reset(options={"reset_mask": mask})
    for leaf, old in zip(leaves_of(obs), leaves_of(before)):
        assert torch.equal(leaf[~mask], old[~mask])
        assert not torch.equal(leaf[mask], old[mask])
    result = envs.step(actions_of(1, rows))
    others.reset(seed=3)
    for step in range(2):
        expected = others.step(actions_of(step, rows))
    for leaf, like in zip(leaves_of(result[:4]), leaves_of(expected[:4])):
        assert torch.equal(leaf[~mask], like[~mask])


@ROWS
def test_what_was_returned_never_changes_and_actions_leave_no_trace(rows):
    sim = make(rows, LIMIT)
    envs = wrap(sim, "torch")
    kept = [envs.reset(seed=3)]
    sim.episode_length_buf = staggered(rows)
    for step in range(100):
        kept.append(envs.step(actions_of(step, rows).double().requires_grad_()))
    leaves = [leaf for leaf in leaves_of(tuple(kept)) if isinstance(leaf, torch.Tensor)]
    copies = [leaf.clone() for leaf in leaves]
    for step in range(30):
        envs.step(actions_of(step, rows))
    for leaf, copy in zip(leaves, copies):
        assert torch.equal(leaf, copy)
        assert not leaf.requires_grad
        assert leaf.dtype is not torch.float64


@pytest.mark.parametrize("made_in", [True, False])
def test_inference_mode_on_either_side(made_in):
    with torch.inference_mode(made_in):
        sim = make(4, LIMIT)
    envs = wrap(sim, "torch")
    envs.reset(seed=3)
    results = []
    for step in range(24):
        with torch.inference_mode(step % 3 == 0):
            results.append(envs.step(actions_of(step, 4))[:4])
    bare = make(4, LIMIT)
    bare.reset(seed=3)
    assert_same(results, [copied(bare.step(actions_of(step, 4))[:4]) for step in range(24)])
    assert not any(leaf.is_inference() for leaf in leaves_of(tuple(results)))


def test_spaces_spec_infos_and_close():
    sim = make(4, LIMIT)
    envs = wrap(sim, "numpy")
    obs, info = envs.reset(seed=np.int64(3))
    assert envs.observation_space.contains(obs)
    assert envs.action_space.shape == (4, 1)
    assert envs.spec.max_episode_steps == LIMIT
    assert "log" in info
    logs = ["log" in envs.step(envs.action_space.sample() * 0)[4] for _ in range(LIMIT)]
    assert logs == [False] * (LIMIT - 1) + [True]
    envs.close()
    assert sim.cfg.auto_reset is True


def test_an_agent_in_jax_gets_the_same_numbers():
    jax = pytest.importorskip("jax")
    bare, sim = make(4, LIMIT), make(4, LIMIT)
    expected = roll(bare.reset, bare.step, bare, 20)
    envs = wrap(sim, "jax")
    results = roll_jax(envs, sim, 20)
    for result, like in zip(results, expected[1:]):
        for leaf, wanted in zip(leaves_of(result), leaves_of(like)):
            assert isinstance(leaf, jax.Array)
            np.testing.assert_array_equal(np.asarray(leaf), wanted.numpy())


def roll_jax(envs: Any, sim: Any, steps: int) -> list[Any]:
    import jax.numpy as jnp

    envs.reset(seed=3)
    sim.episode_length_buf = staggered(sim.num_envs)
    return [envs.step(jnp.asarray(actions_of(step, sim.num_envs).numpy()))[:4] for step in range(steps)]


# ---- learners ---------------------------------------------------------------------------------------------


def rewards_of_sb3(sim: Any) -> Any:
    from arrayferry.learners import sb3_vec_env

    venv = sb3_vec_env(sim, action_bound=1.0)
    venv.seed(3)
    venv.reset()
    return [torch.as_tensor(venv.step(actions_of(step, 4).numpy())[1]) for step in range(25)]


def rewards_of_rsl_rl(sim: Any) -> Any:
    from arrayferry.learners import rsl_rl_vec_env

    env = rsl_rl_vec_env(sim, seed=3)
    return [env.step(actions_of(step, 4))[1] for step in range(25)]


def rewards_of_torchrl(sim: Any) -> Any:
    from tensordict.nn import TensorDictModuleBase

    from arrayferry.learners import torchrl_env

    steps = iter(range(25))

    class Policy(TensorDictModuleBase):
        in_keys, out_keys = [], ["action"]

        def forward(self, data: Any) -> Any:
            return data.set("action", actions_of(next(steps), 4))

    env = torchrl_env(sim)
    sim.seed(3)
    # Where all episodes end in the same step, TorchRL resets once more than is needed: until then.
    rollout = env.rollout(LIMIT, Policy(), break_when_any_done=False)
    return [*rollout["next", "reward"].squeeze(-1).T]


def rewards_of_skrl(sim: Any) -> Any:
    from skrl.envs.wrappers.torch import wrap_env

    view = wrap(sim, "numpy")
    env = wrap_env(view, wrapper="gymnasium")
    env.reset()
    view.reset(seed=3)
    return [env.step(actions_of(step, 4))[1].squeeze(-1) for step in range(25)]


LEARNERS = {
    "stable_baselines3": rewards_of_sb3,
    "rsl_rl": rewards_of_rsl_rl,
    "torchrl": rewards_of_torchrl,
    "skrl": rewards_of_skrl,
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_learner_gets_the_rewards_of_the_bare_simulator(learner):
    pytest.importorskip(learner)
    bare = make(4, LIMIT)
    bare.reset(seed=3)
    expected = [bare.step(actions_of(step, 4))[1].clone() for step in range(25)]
    rewards = LEARNERS[learner](make(4, LIMIT))
    assert_same(rewards, expected[: len(rewards)])


def test_rsl_rl_learns():
    pytest.importorskip("rsl_rl")
    from rsl_rl.runners import OnPolicyRunner

    from arrayferry.learners import rsl_rl_vec_env

    torch.manual_seed(0)
    env = rsl_rl_vec_env(make(64, 200, "Mjlab-Cartpole-Swingup"), seed=0)
    rewards, step = [], env.step

    def counted(actions: Any) -> Any:
        result = step(actions)
        rewards.append(float(result[1].mean()))
        return result

    env.step = counted
    model = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}
    cfg = {
        "num_steps_per_env": 32,
        "save_interval": 1000,
        "obs_groups": {"actor": ["actor"], "critic": ["critic"]},
        "actor": model | {"distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": model,
        "algorithm": {"class_name": "PPO", "learning_rate": 1e-3, "entropy_coef": 0.0},
    }
    OnPolicyRunner(env, cfg).learn(40, init_at_random_ep_len=True)
    assert sum(rewards[-320:]) > 2 * sum(rewards[:320])
