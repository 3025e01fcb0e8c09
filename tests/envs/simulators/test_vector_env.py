"""Gymnasium's contract and this library's, for simulators of every family."""

from __future__ import annotations

import math
import pickle
import warnings
from contextlib import nullcontext
from copy import deepcopy
from typing import Any
from unittest.mock import MagicMock

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

torch = pytest.importorskip("torch")

from arrayferry import check, explain, wrap  # noqa: E402
from arrayferry.envs import as_gymnasium  # noqa: E402
from arrayferry.errors import OptionError, UnsupportedError  # noqa: E402
from envs.simulators import stand_ins  # noqa: E402

SAME, DISABLED, NEXT = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP
LIMITS = [3, 5, 4, 7]


def maniskill(limits: Any) -> Any:
    return stand_ins.TimeLimitWrapper(stand_ins.BaseEnv(limits))


def isaac_with_final(limits: Any) -> Any:
    return stand_ins.DirectRLEnv(limits, compute_final_obs=False)


# How each is made, and what its own autoreset is when it is stepped bare.
MAKERS: dict[str, Any] = {
    "mjlab": stand_ins.ManagerBasedRlEnv,
    "ManiSkill": maniskill,
    "ManiSkillVectorEnv": lambda limits: stand_ins.ManiSkillVectorEnv(maniskill(limits)),
    "Isaac Lab, direct": stand_ins.DirectRLEnv,
    "Isaac Lab, managers": stand_ins.ManagerBasedRLEnv,
    "Isaac Lab, newer": isaac_with_final,
    "Isaac Lab, Warp": stand_ins.DirectRLEnvWarp,
    "Genesis": stand_ins.Go2Env,
    "rsl_rl": stand_ins.VecEnv,
}
KEEPS_FINAL = ["mjlab", "ManiSkill", "ManiSkillVectorEnv", "Isaac Lab, newer"]
RESETS_ROWS = ["mjlab", "ManiSkill", "ManiSkillVectorEnv", "Isaac Lab, managers"]


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Any:
    return MAKERS[request.param]


def actions_of(step: int, rows: int) -> Any:
    return torch.full((rows, 2), 0.25) * torch.arange(1, rows + 1)[:, None] / (1 + step % 3)


def assert_same(values: Any, expected: Any) -> None:
    """Compare two structures of tensors, bit by bit."""
    if isinstance(expected, dict):
        assert values.keys() == expected.keys()
        values, expected = [*values.values()], [expected[key] for key in values]
    if isinstance(expected, (list, tuple)):
        for value, like in zip(values, expected, strict=True):
            assert_same(value, like)
    elif isinstance(expected, torch.Tensor):
        assert values.dtype == expected.dtype
        assert torch.equal(values, expected)
    else:
        assert values == expected


def leaves_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves_of(item)]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves_of(item)]
    return [value]


class Bare:
    """A simulator stepped by hand, as Gymnasium's SAME_STEP says: the oracle."""

    def __init__(self, sim: Any) -> None:
        self.sim, self.base = sim, getattr(sim, "unwrapped", sim)
        self.needs_resets = isinstance(self.base, stand_ins.BaseEnv)
        if isinstance(sim, stand_ins.ManiSkillVectorEnv):
            sim.auto_reset = False

    def reset(self) -> Any:
        return self.copied(self.sim.reset()[0])

    def step(self, actions: Any) -> Any:
        obs, reward, *flags, info = self.sim.step(actions.clone())  # which a reset writes into
        if len(flags) == 1:
            time_outs = info["time_outs"] != 0
            flags = [(flags[0] != 0) & ~time_outs, time_outs]
        values = [self.copied(value) for value in (obs, reward, *flags)]
        done = values[2] | values[3]
        if self.needs_resets and done.any():
            values[0] = self.copied(self.sim.reset(options={"env_idx": done.nonzero().squeeze(-1)})[0])
        return values

    def copied(self, value: Any) -> Any:
        if hasattr(value, "items"):
            return {key: self.copied(item) for key, item in value.items()}
        return value.clone()


# ---- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("final_obs", [None, False])
def test_a_rollout_is_that_of_the_bare_simulator(make, final_obs):
    bare, envs = Bare(make(LIMITS)), as_gymnasium(make(LIMITS), final_obs=final_obs)
    assert_same(envs.reset()[0], bare.reset())
    ends = 0
    for step in range(40):
        actions = actions_of(step, len(LIMITS))
        expected, (*values, _) = bare.step(actions), envs.step(actions)
        assert_same(values, expected)
        ends += int((values[2] | values[3]).sum())
    assert ends > 20


@pytest.mark.parametrize("target", ["torch", "jax", "numpy"])
def test_wrap_converts_a_rollout(make, target):
    pytest.importorskip(target)
    bare, envs = Bare(make(LIMITS)), wrap(make(LIMITS), target)
    assert isinstance(envs, gym.vector.VectorEnv)
    bare.reset(), envs.reset()
    for step in range(10):
        actions = actions_of(step, len(LIMITS))
        converted = actions if target == "torch" else actions.numpy()
        *values, _ = envs.step(converted)
        assert type(values[1]).__module__.partition(".")[0] in (target, "jaxlib")
        for value, expected in zip(leaves_of(tuple(values)), leaves_of(tuple(bare.step(actions)))):
            np.testing.assert_array_equal(np.asarray(value), expected.numpy())


def test_one_row_is_a_vector_of_one_row(make):
    envs = wrap(make([3]), "torch")
    envs.reset()
    _, reward, terminated, truncated, _ = envs.step(torch.zeros(1, 2))
    assert envs.num_envs == 1
    assert envs.action_space.shape == (1, 2)
    assert reward.shape == terminated.shape == truncated.shape == (1,)


# ---- what you receive is yours, and what you pass leaves no trace -----------------------------------------


@pytest.mark.parametrize("opened", [as_gymnasium, lambda sim: wrap(sim, "torch")], ids=["bare", "wrapped"])
def test_what_was_returned_never_changes(make, opened):
    envs = opened(make(LIMITS))
    kept = [envs.reset()]
    for step in range(100):
        if step == 50:
            kept.append(envs.reset())
        kept.append(envs.step(actions_of(step, len(LIMITS))))
    leaves = [leaf for leaf in leaves_of(tuple(kept)) if isinstance(leaf, torch.Tensor)]
    assert len({leaf.data_ptr() for leaf in leaves}) == len(leaves)
    copies = [leaf.clone() for leaf in leaves]
    for step in range(10):
        envs.step(actions_of(step, len(LIMITS)))
    envs.reset()
    for leaf, copy in zip(leaves, copies):
        assert torch.equal(leaf, copy)
        leaf.zero_()  # nor does the simulator notice
    again, fresh = opened(make(LIMITS)), opened(make(LIMITS))
    assert_same(again.reset()[0], fresh.reset()[0])


def test_writing_into_results_does_not_reach_the_simulator(make):
    envs, twin = as_gymnasium(make(LIMITS)), as_gymnasium(make(LIMITS))
    envs.reset(), twin.reset()
    for step in range(12):
        result = envs.step(actions_of(step, len(LIMITS)))
        assert_same(result, twin.step(actions_of(step, len(LIMITS))))
        for leaf in leaves_of(result):
            if isinstance(leaf, torch.Tensor):
                leaf.zero_()


def test_copy_false_shares_memory():
    sim = stand_ins.DirectRLEnv(LIMITS)
    envs = wrap(sim, "torch", copy=False)
    envs.reset()
    reward = envs.step(torch.zeros(4, 2))[1]
    assert reward.data_ptr() == sim.reward_buf.data_ptr()


@pytest.mark.parametrize("opened", [as_gymnasium, lambda sim: wrap(sim, "torch")], ids=["bare", "wrapped"])
def test_an_action_leaves_no_trace(make, opened):
    """Its gradient, dtype and memory: the stand-ins keep the action that they are given."""
    sim, twin = opened(make(LIMITS)), Bare(make(LIMITS))
    sim.reset(), twin.reset()
    for step in range(6):
        actions = actions_of(step, len(LIMITS))
        passed = actions.double().requires_grad_()
        result = sim.step(passed)
        assert torch.equal(passed.float(), actions)  # the stand-ins write into it when they reset
        for leaf in leaves_of(result):
            assert not getattr(leaf, "requires_grad", False)
            assert getattr(leaf, "dtype", None) is not torch.float64
        with torch.no_grad():
            passed.zero_()
        assert_same([*result[:4]], twin.step(actions))


@pytest.mark.parametrize("made_in", [True, False])
@pytest.mark.parametrize("stepped_in", [True, False])
def test_inference_mode_works_on_either_side(make, made_in, stepped_in):
    with torch.inference_mode(made_in):
        sim, twin = make(LIMITS), Bare(make(LIMITS))
        twin.reset()
        expected = [twin.step(actions_of(step, len(LIMITS))) for step in range(8)]
    envs = wrap(sim, "torch")
    envs.reset()
    for step in range(8):
        with torch.inference_mode(stepped_in != bool(step % 2)):
            *values, _ = envs.step(actions_of(step, len(LIMITS)))
        assert not any(leaf.is_inference() for leaf in leaves_of(tuple(values)))
        assert_same(values, expected[step])


def test_a_simulator_that_was_rolled_out_in_inference_mode_goes_on():
    sim = stand_ins.Go2Env(LIMITS)
    with torch.inference_mode():
        sim.reset()
        sim.step(torch.zeros(4, 2))
    envs = wrap(sim, "torch")
    envs.reset()
    for step in range(8):
        envs.step(actions_of(step, 4))


def test_a_simulator_that_is_rolled_out_in_inference_mode_by_others_goes_on(make):
    sim = make(LIMITS)
    envs = wrap(sim, "torch")
    with torch.inference_mode():
        sim.reset()
        sim.step(torch.zeros(4, 2))
    envs.reset()
    for step in range(8):
        *values, _ = envs.step(actions_of(step, 4))
        assert not any(leaf.is_inference() for leaf in leaves_of(tuple(values)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_counter_that_is_set_in_inference_mode_can_be_counted_on(dtype: Any) -> None:
    envs = wrap(stand_ins.ManagerBasedRlEnv([9, 9]), "torch")
    envs.reset()
    with torch.inference_mode():
        envs.episode_length_buf = torch.tensor([3, 8], dtype=dtype)
    assert envs.step(torch.zeros(2, 2))[3].tolist() == [False, True]


# ---- ends of episodes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", KEEPS_FINAL)
def test_final_observations_are_those_of_a_twin_without_a_time_limit(family):
    envs, twin = as_gymnasium(MAKERS[family](LIMITS)), Bare(MAKERS[family]([stand_ins.FOREVER] * 4))
    assert envs.has_final_obs
    envs.reset(), twin.reset()
    first = [None] * 4
    for step in range(max(LIMITS)):
        _, _, _, truncated, info = envs.step(actions_of(step, 4))
        expected = twin.step(actions_of(step, 4))[0]
        assert ("final_obs" in info) == ("_final_obs" in info) == bool(truncated.any())
        if not truncated.any():
            continue
        assert torch.equal(info["_final_obs"], truncated)
        for row in truncated.nonzero().squeeze(-1).tolist():
            if first[row] is None:
                first[row] = step
                for final, like in zip(leaves_of(info["final_obs"]), leaves_of(expected)):
                    assert torch.equal(final[row], like[row])
                    assert final.shape == like.shape
    assert first == [limit - 1 for limit in LIMITS]


@pytest.mark.parametrize("family", sorted(set(MAKERS) - set(KEEPS_FINAL)))
def test_final_observations_are_not_invented(family):
    envs = as_gymnasium(MAKERS[family](LIMITS))
    assert not envs.has_final_obs
    envs.reset()
    for step in range(8):
        info = envs.step(actions_of(step, 4))[4]
        assert not [key for key in info if "final" in key]


@pytest.mark.parametrize("make", [stand_ins.DirectRLEnv, stand_ins.ManagerBasedRLEnv])
def test_isaac_lab_is_observed_before_it_resets_if_asked(make):
    sim = make(LIMITS)
    envs, twin = as_gymnasium(sim, final_obs=True), Bare(make([stand_ins.FOREVER] * 4))
    assert envs.has_final_obs
    envs.reset(), twin.reset()
    for step in range(3):
        info = envs.step(actions_of(step, 4))[4]
        expected = twin.step(actions_of(step, 4))[0]
    assert info["_final_obs"].tolist() == [True, False, False, False]
    assert torch.equal(info["final_obs"]["policy"][0], expected["policy"][0])
    assert "final_obs" not in envs.step(actions_of(3, 4))[4] or LIMITS[2] == 4
    assert "_reset_idx" not in vars(sim)


def test_final_infos_are_those_before_the_reset():
    envs = as_gymnasium(maniskill(LIMITS))
    envs.reset()
    for step in range(3):
        info = envs.step(actions_of(step, 4))[4]
    final = info["final_info"]
    assert info["_final_info"].tolist() == [True, False, False, False]
    assert final["elapsed_steps"][0] == 3
    assert final["_elapsed_steps"].tolist() == [True, False, False, False]
    assert "reconfigure" not in final
    assert info["elapsed_steps"].tolist() == [0, 3, 3, 3]
    assert info["_elapsed_steps"].all()


@pytest.mark.parametrize("family", ["mjlab", "ManiSkill", "ManiSkillVectorEnv"])
def test_disabled_autoreset_leaves_resets_to_the_caller(family):
    envs = wrap(MAKERS[family](LIMITS), "torch", autoreset_mode="Disabled")
    assert envs.metadata["autoreset_mode"] is DISABLED
    envs.reset()
    for step in range(3):
        obs, _, _, truncated, info = envs.step(actions_of(step, 4))
    assert truncated.tolist() == [True, False, False, False]
    assert not [key for key in info if "final" in key]
    with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
        envs.step(actions_of(3, 4))
    new, _ = envs.reset(options={"reset_mask": truncated})
    for leaf, old in zip(leaves_of(new), leaves_of(obs)):
        assert torch.equal(leaf[1:], old[1:])
        assert not torch.equal(leaf[0], old[0])
    assert envs.step(actions_of(3, 4))[3].tolist() == [False, False, True, False]


@pytest.mark.parametrize("family", RESETS_ROWS)
def test_partial_resets_leave_other_rows_alone(family):
    envs, twin = as_gymnasium(MAKERS[family](LIMITS)), as_gymnasium(MAKERS[family](LIMITS))
    envs.reset(), twin.reset()
    mask = np.array([False, True, False, False])
    before = envs.step(actions_of(0, 4))[0]
    twin.step(actions_of(0, 4))
    obs, info = envs.reset(options={"reset_mask": mask})
    for leaf, old in zip(leaves_of(obs), leaves_of(before)):
        assert torch.equal(leaf[~mask], old[~mask])
    if "ManiSkill" in family:
        assert info["_elapsed_steps"].tolist() == mask.tolist()
    for step in range(1, 3):
        ours, theirs = envs.step(actions_of(step, 4)), twin.step(actions_of(step, 4))
        for leaf, old in zip(leaves_of(ours[:4]), leaves_of(theirs[:4])):
            assert torch.equal(leaf[~mask], old[~mask])
    assert not envs.step(actions_of(3, 4))[3][1]  # which would have ended one step later


class Doubled(gym.ObservationWrapper[Any, Any, Any]):
    """Doubles observations, wherever they come from."""

    def observation(self, obs: Any) -> Any:
        return {key: 2 * value for key, value in obs.items()}


class Recorder(stand_ins.ManagerBasedRlEnv):
    """As mjlab's `VideoRecorder`, which is a wrapper and an environment; it doubles observations, too."""

    def __init__(self, env: Any) -> None:
        self._wrapped_env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped_env, name)

    @property
    def unwrapped(self) -> Any:
        return self._wrapped_env

    def reset(self, **options: Any) -> Any:
        obs, info = self._wrapped_env.reset(**options)
        return {key: 2 * value for key, value in obs.items()}, info

    def step(self, actions: Any) -> Any:
        obs, *others = self._wrapped_env.step(actions)
        return {key: 2 * value for key, value in obs.items()}, *others


@pytest.mark.parametrize(("family", "wrapper"), [("mjlab", Recorder), ("Isaac Lab, managers", Doubled)])
def test_partial_resets_pass_through_wrappers(family, wrapper):
    sim = MAKERS[family](LIMITS)
    envs, twin = wrap(wrapper(sim), "torch"), wrap(MAKERS[family](LIMITS), "torch")
    mask = {"reset_mask": np.array([False, True, False, False])}
    calls = [lambda each, step=step: each.step(actions_of(step, 4)) for step in range(6)]
    for call in [lambda each: each.reset(), *calls, lambda each: each.reset(options=mask)]:
        obs, expected = call(envs)[0], call(twin)[0]
        assert_same(obs, {key: 2 * value for key, value in expected.items()})
    assert "reset" not in vars(sim)


@pytest.mark.parametrize("opened", [as_gymnasium, lambda sim, **mode: wrap(sim, "torch", **mode)])
def test_a_simulator_has_one_newest_state_whichever_view_steps_it(opened):
    sim = maniskill(LIMITS)
    train, evaluate = (opened(sim, autoreset_mode=DISABLED) for _ in range(2))
    train.reset()
    for step in range(3):  # the third of which ends an episode
        evaluate.step(actions_of(step, 4))
    with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
        train.step(actions_of(3, 4))
    obs, _ = train.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert torch.equal(obs, sim.unwrapped.observe())
    evaluate.step(actions_of(3, 4))


def test_a_reset_that_is_interrupted_is_asked_for_again():
    sim = maniskill(LIMITS)
    envs = as_gymnasium(sim)
    envs.reset()
    for step in range(2):
        envs.step(actions_of(step, 4))
    begin, sim.unwrapped.begin = sim.unwrapped.begin, None
    with pytest.raises(TypeError):
        envs.step(actions_of(2, 4))
    sim.unwrapped.begin = begin
    with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
        envs.step(actions_of(3, 4))
    envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    envs.step(actions_of(3, 4))


def test_nothing_is_stepped_before_a_reset(make):
    sim = make(LIMITS)
    with pytest.raises(gym.error.ResetNeeded):
        as_gymnasium(sim).step(torch.zeros(4, 2))
    with pytest.raises(gym.error.ResetNeeded if RESETS_ROWS else UnsupportedError):
        wrap(stand_ins.ManagerBasedRlEnv(LIMITS), "torch").reset(options={"reset_mask": np.ones(4, bool)})
    assert not getattr(sim, "unwrapped", sim).episode_length_buf.any()


# ---- infos ------------------------------------------------------------------------------------------------


def test_logs_are_there_when_an_episode_ended_and_only_then(make):
    envs = as_gymnasium(make(LIMITS))
    _, info = envs.reset()
    infos = [info]
    for step in range(9):
        *_, terminated, truncated, info = envs.step(actions_of(step, 4))
        logs = [key for key in ("log", "episode") if key in info]
        has_logs = not isinstance(envs.env, stand_ins.BaseEnv)
        assert bool(logs) == (has_logs and bool((terminated | truncated).any()))
        infos.append(info)
    assert len({id(info) for info in infos}) == len(infos)
    assert not any("final_obs" in info for info, *_ in [(infos[1],)])


def test_each_entry_with_rows_has_a_mask():
    envs = as_gymnasium(stand_ins.Go2Env(LIMITS))
    envs.reset()
    for step in range(3):
        info = envs.step(actions_of(step, 4))[4]
    assert sorted(info) == ["_time_outs", "episode", "time_outs"]
    assert info["_time_outs"].all()
    assert info["time_outs"].tolist() == [1, 0, 0, 0]


def with_infos(at_reset: Any, at_step: Any) -> Any:
    """Return an environment of ManiSkill whose resets and steps add something to the infos."""

    @stand_ins.in_package("mani_skill")
    class Env(stand_ins.BaseEnv):
        def reset(self, **options: Any) -> Any:
            obs, info = super().reset(**options)
            return obs, info | at_reset

        def step(self, actions: Any) -> Any:
            *values, info = super().step(actions)
            return *values, info | at_step

    return as_gymnasium(stand_ins.TimeLimitWrapper(Env(LIMITS)))


def info_of_the_first_end(at_reset: Any, at_step: Any) -> Any:
    envs = with_infos(at_reset, at_step)
    envs.reset()
    infos = [envs.step(actions_of(step, 4))[4] for step in range(3)]
    assert infos[2]["_final_info"].tolist() == [True, False, False, False]
    return infos[2]


ROWS, GO_ON = torch.arange(4), [False, True, True, True]


@pytest.mark.parametrize(
    ("at_reset", "at_step"),
    [
        ({"x": 3}, {"x": ROWS}),
        ({"x": {"y": ROWS}}, {"x": ROWS}),
        ({"x": ROWS[:, None]}, {"x": ROWS}),
        ({"x": torch.zeros(4)}, {"x": ROWS + 2**60}),  # which float32 would round
        ({"x": np.array([0.5] * 4)}, {"x": np.array(list("abcd"))}),
    ],
)
def test_infos_of_other_forms_after_a_reset_are_left_out(at_reset, at_step):
    info = info_of_the_first_end(at_reset, at_step)
    assert info["_x"].tolist() == GO_ON
    assert info["x"].tolist() == at_step["x"].tolist()
    assert info["final_info"]["x"].tolist() == at_step["x"].tolist()


def test_infos_that_are_tensordicts_become_dicts():
    tensordict = pytest.importorskip("tensordict")
    rows = tensordict.TensorDict({"y": ROWS}, batch_size=[4])
    info = info_of_the_first_end({"x": rows + 10}, {"x": rows})
    assert info["x"]["y"].tolist() == [10, 1, 2, 3]
    assert info["final_info"]["x"]["y"][0] == 0


def test_infos_that_are_text_have_rows():
    info = info_of_the_first_end({"x": np.array(["new"] * 4)}, {"x": np.array(list("abcd"))})
    assert info["x"].tolist() == ["new", "b", "c", "d"]
    assert info["_x"].all()
    assert info["final_info"]["x"].tolist() == list("abcd")


def test_masks_of_a_simulator_are_kept():
    odd, none = torch.tensor([False, True, False, True]), torch.zeros(4, dtype=torch.bool)
    info = info_of_the_first_end({"x": ROWS, "_x": none}, {"x": ROWS, "_x": odd})
    assert info["_x"].tolist() == [False, True, False, True]
    assert not info["final_info"]["_x"].any()
    info = info_of_the_first_end({"x": ROWS}, {"x": ROWS, "_x": odd})
    assert info["_x"].tolist() == [True, True, False, True]
    assert "__x" not in info


# ---- what Gymnasium asks for ------------------------------------------------------------------------------


def test_spaces_are_gymnasiums_and_contain_what_comes_out(make):
    envs = wrap(make(LIMITS), "numpy")
    obs, _ = envs.reset()
    assert envs.observation_space.contains(obs)
    assert envs.single_observation_space.contains(
        {key: value[0] for key, value in obs.items()} if isinstance(obs, dict) else obs[0]
    )
    actions = envs.action_space.sample()
    assert actions.shape == (4, 2)
    assert envs.observation_space.contains(envs.step(actions)[0])


def test_metadata_say_what_is_true_and_the_classes_are_untouched(make):
    sim = make(LIMITS)
    base = getattr(sim, "unwrapped", sim)
    before = dict(getattr(type(base), "metadata", {}))
    envs = wrap(sim, "torch")
    assert envs.metadata["autoreset_mode"] is SAME
    assert getattr(type(base), "metadata", {}) == before
    assert getattr(base, "metadata", {}) is not envs.unwrapped.metadata
    assert envs.spec.max_episode_steps in (max(LIMITS), 5)
    assert envs.spec.to_json()


def test_seeds_of_numpy_are_ints():
    sim = stand_ins.ManagerBasedRlEnv(LIMITS)
    envs = wrap(sim, "torch")
    first, _ = envs.reset(seed=np.int64(7))
    again, _ = wrap(stand_ins.ManagerBasedRlEnv(LIMITS), "torch").reset(seed=7)
    assert_same(first, again)
    assert sim.seeds == [7]
    with pytest.raises(OptionError, match="one seed"):
        envs.reset(seed=[1, 2, 3, 4])
    several = maniskill(LIMITS)
    wrap(several, "torch").reset(seed=[1, 2, 3, np.int64(4)])
    assert several.unwrapped.seeds == [10]
    for wrong, error in ([1, 2, 3], OptionError), (1.5, OptionError), ([1, 2, 3, 4.5], TypeError):
        with pytest.raises(error):
            wrap(maniskill(LIMITS), "torch").reset(seed=wrong)


def test_seeds_that_nobody_takes_are_ignored_with_a_warning():
    envs = wrap(stand_ins.Go2Env(LIMITS), "torch")
    with pytest.warns(UserWarning, match="takes no seed, so that 1 is ignored"):
        envs.reset(seed=1)
    with pytest.raises(UnsupportedError, match="takes no options"):
        envs.reset(options={"at": 1})


def test_a_reset_that_is_refused_changes_nothing():
    envs, twin = wrap(stand_ins.Go2Env(LIMITS), "torch"), wrap(stand_ins.Go2Env(LIMITS), "torch")
    envs.reset(), twin.reset()
    for refused in {"options": {"at": 1}}, {"options": {"reset_mask": np.ones(4, bool)}}, {"seed": [1, 2]}:
        with pytest.raises((UnsupportedError, OptionError)):
            envs.reset(**refused)
    assert_same(envs.step(actions_of(0, 4))[:4], twin.step(actions_of(0, 4))[:4])


def test_what_only_seems_to_have_everything_is_no_simulator():
    with pytest.raises(UnsupportedError, match="is not a Gymnasium environment"):
        wrap(MagicMock(), "torch")


def test_explain_and_check_take_simulators(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some cannot be seeded
        assert "reward" in str(explain(make(LIMITS), "torch"))
        assert check(make(LIMITS), "torch", steps=10).ok


@pytest.mark.parametrize("family", ["mjlab", "ManiSkill", "Isaac Lab, direct"])
def test_frames_are_one_for_each_environment_or_one_for_all(family):
    frames = wrap(MAKERS[family](LIMITS), "torch").render()
    assert {"mjlab": 1, "ManiSkill": 4, "Isaac Lab, direct": None}[family] == (frames and len(frames))
    assert frames is None or (type(frames) is tuple and frames[0].shape == (4, 6, 3))


@pytest.mark.parametrize("auto_reset", [True, False])
def test_close_closes_and_leaves_settings_as_they_were(auto_reset):
    sim = stand_ins.ManagerBasedRlEnv(LIMITS, auto_reset)
    envs = wrap(sim, "torch")
    envs.reset()
    for step in range(4):
        envs.step(actions_of(step, 4))
        assert sim.cfg.auto_reset is auto_reset
    envs.close()
    assert sim.closed == 1
    assert sim.cfg.auto_reset is auto_reset


def test_settings_are_put_back_when_a_step_fails():
    sim = isaac_with_final(LIMITS)
    envs = wrap(sim, "torch")
    envs.reset()
    with pytest.raises(RuntimeError):
        envs.step(torch.zeros(3, 2))
    assert sim.cfg.compute_final_obs is False


def test_what_a_learner_sets_reaches_the_simulator():
    sim = stand_ins.ManagerBasedRlEnv([9, 9])
    envs = wrap(sim, "torch")
    envs.reset()
    envs.unwrapped.episode_length_buf = np.array([3, 8], np.int32)
    assert sim.episode_length_buf.dtype == torch.long
    assert envs.episode_length_buf is sim.episode_length_buf
    assert envs.step(torch.zeros(2, 2))[3].tolist() == [False, True]
    envs.reset()
    envs.episode_length_buf = torch.tensor([3, 8])
    assert sim.episode_length_buf.tolist() == [3, 8]
    assert envs.max_episode_length == 9
    with pytest.raises(AttributeError, match="nothing"):
        envs.nothing  # noqa: B018


# ---- which ------------------------------------------------------------------------------------------------


def test_an_open_simulator_is_not_opened_again(make):
    envs = as_gymnasium(make(LIMITS))
    assert wrap(envs, "torch").unwrapped is envs


def test_wrappers_around_a_simulator_are_stepped():
    class Doubled(gym.Wrapper):
        def step(self, actions):
            obs, reward, *others = self.env.step(actions)
            return obs, reward * 2, *others

    sim = stand_ins.DirectRLEnv(LIMITS)
    envs = wrap(Doubled(sim), "torch")
    envs.reset()
    reward = envs.step(torch.ones(4, 2))[1]
    assert torch.equal(reward, sim.reward_buf * 2)


def test_a_single_environment_of_maniskill_stays_single():
    env = wrap(stand_ins.CPUGymWrapper(maniskill([3])), "torch")
    assert not isinstance(env, gym.vector.VectorEnv)
    obs, _ = env.reset()
    assert obs.shape == (5,)
    assert type(env.step(np.zeros(2, np.float32))[1]) is float


class OnlyBatches(gym.Env[Any, Any]):
    """An environment that has `num_envs` and batches, and says nothing else about itself."""

    def __init__(self, count: Any = 4, metadata: Any = None) -> None:
        self.sim, self.num_envs, self.steps = stand_ins.Unknown(LIMITS[: int(count)]), count, 0
        self.observation_space, self.action_space = self.sim.observation_space, self.sim.action_space
        self.metadata = metadata

    def reset(self, **options: Any) -> Any:
        return self.sim.reset(**options)

    def step(self, actions: Any) -> Any:
        self.steps += 1
        return self.sim.step(actions)


@pytest.mark.parametrize("count", [4, np.int64(4)])
def test_an_environment_whose_spaces_are_batches_is_refused_before_any_step(count):
    sim = OnlyBatches(count)
    with pytest.raises(UnsupportedError, match="does not say what it does when an episode ends"):
        wrap(sim, "torch")
    with pytest.raises(UnsupportedError, match="set its single_action_space"):
        wrap(sim, "torch", autoreset_mode=SAME)
    sim.single_action_space = gym.spaces.Box(-1, 1, (2,))
    envs = wrap(sim, "torch", autoreset_mode=SAME)
    envs.reset()
    assert not sim.steps
    assert envs.step(torch.zeros(4, 2))[1].shape == (4,)


def test_one_row_is_opened_by_as_gymnasium_when_nothing_tells_it_from_a_single_environment():
    sim = OnlyBatches(1)
    sim.observation_space = gym.spaces.Dict(policy=sim.observation_space)
    with pytest.raises(UnsupportedError, match="set its single_action_space"):
        as_gymnasium(sim, autoreset_mode=SAME)


def test_a_simulator_that_is_no_ordinary_object_is_opened():
    class Slots:
        __slots__ = "num_envs", "single_action_space"

        def __init__(self) -> None:
            self.num_envs, self.single_action_space = 2, gym.spaces.Box(-1, 1, (2,))

        def reset(self) -> Any:
            return np.zeros((2, 3)), None

        def step(self, actions: Any) -> Any:
            return np.zeros((2, 3)), actions[:, 0], *np.zeros((2, 2), bool), {}

    envs = wrap(as_gymnasium(Slots(), autoreset_mode=SAME), "torch")
    envs.reset()
    assert envs.step(torch.ones(2, 2))[1].tolist() == [1, 1]


def test_a_device_that_is_not_declared_is_learned():
    sim = stand_ins.Go2Env(LIMITS)
    del sim.device
    envs = wrap(sim, "torch")
    envs.reset()
    assert envs.step(np.zeros((4, 2)))[1].shape == (4,)


@pytest.mark.parametrize(
    ("declared", "known"), [(math.inf, None), (np.int64(7), 7), (7.0, 7), (None, None), ("7", None)]
)
def test_time_limits_of_any_type_are_read(declared, known):
    sim = stand_ins.Go2Env(LIMITS)
    sim.max_episode_length = declared
    assert wrap(sim, "torch").spec.max_episode_steps == known


@pytest.mark.parametrize(
    "wrapper", [gym.wrappers.RecordEpisodeStatistics, lambda sim: gym.wrappers.TimeLimit(sim, 9)]
)
def test_wrappers_that_count_one_episode_are_refused_around_many(wrapper):
    sim = stand_ins.DirectRLEnv(LIMITS)
    with pytest.raises(UnsupportedError, match="put wrappers around what you get"):
        wrap(wrapper(sim), "torch")
    assert not sim.episodes.any()


def test_agents_of_isaac_lab_are_refused_with_what_makes_one_of_them():
    @stand_ins.in_package("isaaclab")
    class DirectMARLEnv(gym.Env[Any, Any]):
        num_envs = 4

    with pytest.raises(UnsupportedError, match="multi_agent_to_single_agent"):
        wrap(DirectMARLEnv(), "torch")


def test_observations_that_are_tuples_are_reset_row_by_row():
    @stand_ins.in_package("mani_skill")
    class Env(stand_ins.BaseEnv):
        def observe(self) -> Any:
            return super().observe(), {"twice": super().observe() * 2}

    envs = wrap(stand_ins.TimeLimitWrapper(Env(LIMITS)), "torch")
    envs.reset()
    for step in range(3):
        obs, *_, info = envs.step(actions_of(step, 4))
    assert obs[0][:, 2].tolist() == [0, 3, 3, 3]
    assert obs[1]["twice"][:, 2].tolist() == [0, 6, 6, 6]
    assert info["final_obs"][0][0, 2] == 3


def test_an_unknown_environment_is_refused_before_any_step():
    sim = stand_ins.Unknown(LIMITS)
    with pytest.raises(
        UnsupportedError, match=r"as_gymnasium\(env, autoreset_mode=AutoresetMode.SAME_STEP\)"
    ):
        wrap(sim, "torch")
    assert not sim.seeds
    assert not sim.episodes.any()


def test_an_unknown_environment_does_what_the_user_says():
    bare = Bare(stand_ins.Unknown(LIMITS))
    envs = wrap(as_gymnasium(stand_ins.Unknown(LIMITS), autoreset_mode=SAME), "torch")
    assert envs.metadata["autoreset_mode"] is SAME
    assert_same(envs.reset()[0], bare.reset())
    for step in range(8):
        assert_same([*envs.step(actions_of(step, 4))[:4]], bare.step(actions_of(step, 4)))


@pytest.mark.parametrize("mode", [NEXT, DISABLED])
def test_an_object_in_numpy_is_learned_from_its_first_observation(mode):
    sim = stand_ins.UnknownObject([2, 3])
    envs = as_gymnasium(sim, autoreset_mode=mode)
    assert not hasattr(envs, "single_observation_space")
    obs, info = envs.reset(seed=1)
    assert type(obs["at"]) is np.ndarray
    assert info == {}
    assert envs.observation_space.contains(obs)
    with pytest.raises(UnsupportedError, match="only some"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    info = envs.step(torch.zeros(2, 2))[4]
    assert info["_steps"].all()
    assert type(info["steps"]) is np.ndarray
    assert wrap(envs, "torch").step(torch.zeros(2, 2))[3].tolist() == [True, False]
    with pytest.raises(gym.error.ResetNeeded) if mode is DISABLED else nullcontext():
        envs.step(np.zeros((2, 2)))


@pytest.mark.parametrize("form", [lambda rows: rows, lambda rows: {"policy": rows}, lambda rows: (rows,)])
def test_observations_with_other_rows_are_refused(form: Any) -> None:
    class Fewer(stand_ins.DirectRLEnv):
        def step(self, actions: Any) -> Any:
            return form(torch.zeros(3, 2)), *super().step(actions)[1:]

    envs = wrap(Fewer(LIMITS), "torch")
    envs.reset()
    with pytest.raises(UnsupportedError, match=r"Fewer returns float32\[3,2\] torch as observation of 4 env"):
        envs.step(torch.zeros(4, 2))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_the_third_of_four_values_says_who_is_done_in_any_dtype(dtype: Any) -> None:
    class Sim(stand_ins.Go2Env):
        def step(self, actions: Any) -> Any:
            obs, reward, done, extras = super().step(actions)
            return obs, reward, done.to(dtype), extras

    envs = wrap(Sim(LIMITS), "torch")
    envs.reset()
    for step in range(3):
        _, _, terminated, truncated, _ = envs.step(actions_of(step, 4))
    assert terminated.dtype == truncated.dtype == torch.bool
    assert truncated.tolist() == [True, False, False, False]


def test_floats_among_five_values_may_be_costs():
    class Sim(stand_ins.Go2Env):
        def step(self, actions: Any) -> Any:
            obs, reward, done, extras = super().step(actions)
            return obs, reward, torch.rand(4), done, extras

    envs = wrap(Sim(LIMITS), "torch")
    envs.reset()
    with pytest.raises(UnsupportedError, match="as terminated of 4"):
        envs.step(torch.zeros(4, 2))


def test_five_values_that_mean_something_else_are_refused_with_nothing_handed_out():
    envs = wrap(stand_ins.LeggedEnv(LIMITS), "torch")
    envs.reset()
    with pytest.raises(UnsupportedError, match="LeggedEnv returns None as reward of 4 environments"):
        envs.step(torch.zeros(4, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wrap(stand_ins.DirectRLEnv(LIMITS), "torch", num_envs=4), "is made already"),
        (lambda: wrap((stand_ins.DirectRLEnv(LIMITS), {}), "torch"), "is made already"),
        (
            lambda: wrap(stand_ins.DirectRLEnv(LIMITS), "torch", autoreset_mode=NEXT),
            "mode SAME_STEP, not NEXT_STEP",
        ),
        (
            lambda: wrap(stand_ins.ManagerBasedRlEnv(LIMITS), "torch", autoreset_mode=NEXT),
            "SAME_STEP or DISABLED, not NEXT",
        ),
        (lambda: wrap(stand_ins.Go2Env(LIMITS), "torch", autoreset_mode=DISABLED), "mode SAME_STEP, not DIS"),
        (lambda: as_gymnasium(stand_ins.Go2Env(LIMITS), final_obs=True), "final observations"),
        (lambda: as_gymnasium(stand_ins.DirectRLEnvWarp(LIMITS), final_obs=True), "final observations"),
        (
            lambda: as_gymnasium(stand_ins.Unknown(LIMITS), autoreset_mode=SAME, final_obs=True),
            "final observations",
        ),
        (lambda: wrap(stand_ins.BaseEnv(LIMITS, reconfiguration_freq=1), "torch"), "resets only as a whole"),
        (lambda: as_gymnasium(gym.make("CartPole-v1"), final_obs=False), "leave final_obs out"),
        (
            lambda: wrap(
                gym.wrappers.vector.RecordEpisodeStatistics(MAKERS["ManiSkillVectorEnv"]([3])), "torch"
            ),
            "put wrappers around",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_when_it_is_wrapped(call, message):
    with pytest.raises(UnsupportedError, match=message):
        call()


def test_partial_resets_that_would_touch_other_rows_are_refused():
    for sim in (stand_ins.ManagerBasedRLEnv(LIMITS, history={"joints": 3}), stand_ins.DirectRLEnv(LIMITS)):
        envs = wrap(sim, "torch")
        envs.reset()
        with pytest.raises(UnsupportedError, match="only some"):
            envs.reset(options={"reset_mask": np.array([True, False, False, False])})


def test_isaac_lab_that_declares_disabled_autoreset_is_believed():
    sim = stand_ins.ManagerBasedRLEnv(LIMITS, compute_final_obs=False)
    sim.metadata = {**sim.metadata, "autoreset_mode": DISABLED}
    envs = wrap(sim, "torch")
    assert envs.metadata["autoreset_mode"] is DISABLED
    assert not envs.has_final_obs


# ---- copies -----------------------------------------------------------------------------------------------


def pickled_by_value(envs: Any) -> Any:
    cloudpickle = pytest.importorskip("cloudpickle")
    return cloudpickle.loads(cloudpickle.dumps(envs))


@pytest.mark.parametrize("opened", [as_gymnasium, lambda sim: wrap(sim, "torch")], ids=["bare", "wrapped"])
@pytest.mark.parametrize("duplicated", [deepcopy, pickled_by_value])
def test_a_copy_steps_a_simulator_of_its_own(make, opened, duplicated):
    envs = opened(make(LIMITS))
    envs.reset()
    twin = duplicated(envs)
    results = [envs.step(actions_of(step, 4))[:4] for step in range(8)]
    for step, expected in enumerate(results):
        assert_same(twin.step(actions_of(step, 4))[:4], expected)


def test_a_copy_observes_its_own_simulator_before_it_resets():
    envs = as_gymnasium(stand_ins.DirectRLEnv(LIMITS), final_obs=True)
    envs.reset()
    twin = deepcopy(envs)
    envs.step(actions_of(0, 4))
    for step in range(3):
        info = twin.step(actions_of(step, 4))[4]
    assert info["final_obs"]["policy"][0, 2] == 3


def test_a_simulator_is_pickled():
    envs = pickle.loads(pickle.dumps(wrap(stand_ins.Go2Env(LIMITS), "torch")))
    envs.reset()
    assert envs.step(torch.zeros(4, 2))[1].shape == (4,)
