"""Gymnasium's wrappers, as subclasses of ours: the same numbers, where the arrays are."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium import wrappers as theirs
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry import wrappers as ours
from helpers.compare import GYMNASIUM_IS_RIGHT, array_type_of, seen
from helpers.envs import Counter

CART, CAR, PENDULUM, CARDS = "CartPole-v1", "MountainCarContinuous-v0", "Pendulum-v1", "Blackjack-v1"
CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "RecordEpisodeStatistics": (CART, (), {"buffer_length": 5}),
    "NormalizeObservation": (CART, (), {"epsilon": 1e-6}),
    "NormalizeReward": (CART, (0.9,), {}),
    "NormalizeReward ": (PENDULUM, (), {}),
    "ClipReward": (PENDULUM, (-3.0, -1.0), {}),
    "ClipReward ": (PENDULUM, (), {"min_reward": -3}),
    "ClipAction": (CAR, (), {}),
    "RescaleAction": (CAR, (-3.0, 2.0), {}),
    "RescaleObservation": (CAR, (0.0, 1.0), {}),
    "FlattenObservation": (CARDS, (), {}),
    "DtypeObservation": (CART, (np.float64,), {}),
    "TransformObservation": (CART, (lambda obs: obs + obs,), {"observation_space": None}),
    "TransformReward": (CART, (lambda reward: reward * 2,), {}),
    "FrameStackObservation": (CART, (3,), {}),
    "FrameStackObservation ": (CART, (3,), {"padding_type": "zero"}),
    "TimeAwareObservation": (CART, (), {}),
    "TimeAwareObservation ": (CART, (False, True), {}),
}
SINGLE_ONLY = {"FrameStackObservation", "TimeAwareObservation"}
VECTOR = [name for name in CASES if name.strip() not in SINGLE_ONLY]


def play(env: Any, target: str, steps: int = 40) -> list[Any]:
    """Everything that an environment returns, for the actions that belong to a seed."""
    env.action_space.seed(1)
    is_vector = isinstance(env, gym.vector.VectorEnv)
    results = [env.reset(seed=1)[0]]
    for _ in range(steps):
        action = env.action_space.sample()
        obs, reward, terminated, truncated, info = env.step(
            action if target == "numpy" else arrayferry.convert(np.asarray(action), target)
        )
        results.append(copy.deepcopy((obs, reward, terminated, truncated, info)))
        done = seen(terminated) | seen(truncated)
        if not is_vector and done:
            results.append(env.reset()[0])
        elif is_vector and env.metadata["autoreset_mode"] == AutoresetMode.DISABLED and done.any():
            results.append(env.reset(options={"reset_mask": arrayferry.convert(done, target)})[0])
    return results


def leaves(value: Any) -> list[Any]:
    """All that is in a structure, but the times that a clock has measured."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) if key != "t" for leaf in leaves(value[key])]
    is_many = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == object)
    return [leaf for one in value for leaf in leaves(one)] if is_many else [value]


def assert_same(got: list[Any], want: list[Any]) -> None:
    assert len(leaves(got)) == len(leaves(want))
    for one, other in zip(leaves(got), leaves(want)):
        assert type(one) is type(other)
        if hasattr(other, "dtype"):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        else:
            assert one == other


def assert_near(got: list[Any], want: list[Any], target: str) -> None:
    assert len(leaves(got)) == len(leaves(want))
    for one, other in zip(leaves(got), leaves(want)):
        if isinstance(other, (np.ndarray, array_type_of(target))):
            assert isinstance(one, array_type_of(target)), f"{type(one)} is no array of {target}"
            assert seen(one).shape == seen(other).shape
        if other is not None:
            np.testing.assert_allclose(seen(one), seen(other), rtol=2e-5, atol=2e-5)


def make(case: str, where: Any, env: Any) -> Any:
    _, args, kwargs = CASES[case]
    if case.strip() == "TransformObservation" and isinstance(env, gym.Env):
        kwargs = {"observation_space": None}
    return getattr(where, case.strip())(env, *args, **kwargs)


class MaskedReward(theirs.vector.NormalizeReward):
    """Gymnasium's own restarts all rows when some are reset."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        rows = (options or {}).get("reset_mask", slice(None))
        found = self.env.reset(seed=seed, options=options)
        self.accumulated_reward[rows] = self._prev_dones[rows] = 0
        return found


class Reference:
    """Gymnasium's wrappers, and what they would be without their faults."""

    NormalizeReward = MaskedReward

    def __getattr__(self, name: str) -> Any:
        return getattr(theirs.vector, name)


def vector_of(case: str, mode: AutoresetMode) -> Any:
    return gym.make_vec(CASES[case][0], 3, "sync", vector_kwargs={"autoreset_mode": mode})


def refusal(case: str, where: Any, mode: AutoresetMode) -> str:
    try:
        make(case, where, vector_of(case, mode))
    except (ValueError, AssertionError) as error:
        return repr(error)
    return ""


quiet = pytest.mark.filterwarnings("ignore:.*precision lowered by casting.*:UserWarning:gymnasium")
quieter = pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning:gymnasium")


# dask puts off all that it is asked: what is summed up from step to step takes ever longer.
FRAMEWORKS = ["numpy", "torch", "jax", "array_api_strict", "mlx"]


@quiet
@quieter
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("case", CASES)
def test_single(case: str, framework: str) -> None:
    pytest.importorskip(framework)
    fresh = partial(gym.make, CASES[case][0])
    want = play(make(case, theirs, fresh()), "numpy")
    assert_same(play(make(case, ours, fresh()), "numpy"), want)
    assert_near(play(make(case, ours, arrayferry.wrap(fresh(), framework)), framework), want, framework)


@quiet
@quieter
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("framework", FRAMEWORKS[:4])
@pytest.mark.parametrize("case", VECTOR)
def test_vector(case: str, mode: AutoresetMode, framework: str) -> None:
    pytest.importorskip(framework)
    if not GYMNASIUM_IS_RIGHT and case.startswith(("Record", "Normalize")):
        pytest.skip("before Gymnasium 1.4, statistics went on after an episode had ended")
    if refused := refusal(case, theirs.vector, mode):
        assert refusal(case, ours.vector, mode)[:60] == refused[:60]
        return
    want = play(make(case, Reference(), arrayferry.wrap(vector_of(case, mode), "numpy")), "numpy")
    view = arrayferry.wrap(vector_of(case, mode), framework)
    if framework == "numpy":
        assert_same(play(make(case, ours.vector, view), framework), want)
    else:
        assert_near(play(make(case, ours.vector, view), framework), want, framework)


@quiet
@quieter
@pytest.mark.parametrize("case", VECTOR)
def test_vector_without_a_conversion(case: str) -> None:
    if not GYMNASIUM_IS_RIGHT and case.startswith("NormalizeReward"):
        pytest.skip("before Gymnasium 1.4, statistics went on after an episode had ended")
    mode = AutoresetMode.NEXT_STEP
    want = play(make(case, theirs.vector, vector_of(case, mode)), "numpy")
    assert_same(play(make(case, ours.vector, vector_of(case, mode)), "numpy"), want)


@quiet
@quieter
@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("case", [case for case in CASES if "Transform" not in case])
def test_a_stack_is_recorded_copied_and_pickled(case: str, framework: str) -> None:
    pytest.importorskip(framework)
    env = make(case, ours, arrayferry.wrap(gym.make(CASES[case][0]), framework))
    assert isinstance(env, getattr(theirs, case.strip()))
    play(env, framework, 5)
    env.reset(seed=3)
    want = play(copy.deepcopy(env), framework, 20)
    assert_near(play(pickle.loads(pickle.dumps(env)), framework, 20), want, framework)
    again = gym.make(env.spec)
    assert type(again) is type(env)
    assert again.observation_space == env.observation_space


@quiet
@quieter
@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("case", [case for case in VECTOR if "Transform" not in case])
def test_a_vector_stack_is_copied_and_pickled(case: str, framework: str) -> None:
    pytest.importorskip(framework)
    base = gym.vector.SyncVectorEnv([partial(gym.make, CASES[case][0])] * 2)
    env = make(case, ours.vector, arrayferry.wrap(base, framework))
    assert isinstance(env, getattr(theirs.vector, case.strip()))
    play(env, framework, 5)
    env.reset(seed=3)
    want = play(copy.deepcopy(env), framework, 20)
    got = play(pickle.loads(cloudpickle.dumps(env)), framework, 20)
    assert_near(got, want, framework)


NESTED = spaces.Dict(
    {
        "choice": spaces.Discrete(3, start=-1),
        "many": spaces.MultiDiscrete(np.array([[2, 3], [1, 2]])),
        "bits": spaces.MultiBinary(3),
        "pair": spaces.Tuple((spaces.Box(-1, 1, (2, 2)), spaces.Box(0, 9, (), np.int16))),
    }
)


class Samples(gym.Env[Any, Any]):
    """Shows samples of a space."""

    def __init__(self, observation_space: Any, length: int = 4) -> None:
        self.observation_space, self.action_space = copy.deepcopy(observation_space), spaces.Discrete(2)
        self.length, self.count = length, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.observation_space.sample(), 1.0, self.count >= self.length, False, {}


NESTING: dict[str, Callable[[Any, Any], Any]] = {
    "flat": lambda where, env: where.FlattenObservation(env),
    "frames": lambda where, env: where.FrameStackObservation(env, 3, padding_type="zero"),
    "time": lambda where, env: where.TimeAwareObservation(
        theirs.TimeLimit(env, 9), False, dict_time_key="now"
    ),
    "flat time": lambda where, env: where.TimeAwareObservation(theirs.TimeLimit(env, 9), normalize_time=True),
}


@pytest.mark.parametrize("space", [NESTED, spaces.Tuple((NESTED, NESTED["bits"])), NESTED["many"]])
@pytest.mark.parametrize("case", NESTING)
@pytest.mark.parametrize("framework", ["numpy", "torch", "jax", "array_api_strict"])
def test_nested_observations(case: str, space: Any, framework: str) -> None:
    pytest.importorskip(framework)
    want = play(NESTING[case](theirs, Samples(space)), "numpy", 9)
    assert_same(play(NESTING[case](ours, Samples(space)), "numpy", 9), want)
    for options in ({}, {"spaces": "target"}):
        env = NESTING[case](ours, arrayferry.wrap(Samples(space), framework, **options))
        got = play(env, framework, 9)
        assert_near(got, want, framework)
        assert arrayferry.convert(got[0], "numpy") in NESTING[case](theirs, Samples(space)).observation_space


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_nested_observations_of_many_environments(framework: str) -> None:
    pytest.importorskip(framework)
    make_one = partial(gym.vector.SyncVectorEnv, [partial(Samples, NESTED)] * 3)
    want = play(theirs.vector.FlattenObservation(make_one()), "numpy", 9)
    got = play(ours.vector.FlattenObservation(arrayferry.wrap(make_one(), framework)), framework, 9)
    assert_near(got, want, framework)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_text_is_flattened_too(framework: str) -> None:
    pytest.importorskip(framework)
    space = spaces.Dict(word=spaces.Text(5), box=spaces.Box(0, 1, (2,)))
    want = play(theirs.FlattenObservation(Samples(space)), "numpy", 5)
    assert_near(
        play(ours.FlattenObservation(arrayferry.wrap(Samples(space), framework)), framework, 5),
        want,
        framework,
    )
    make_one = partial(gym.vector.SyncVectorEnv, [partial(Samples, space)] * 2)
    want = play(theirs.vector.FlattenObservation(make_one()), "numpy", 5)
    got = play(ours.vector.FlattenObservation(arrayferry.wrap(make_one(), framework)), framework, 5)
    assert_near(got, want, framework)


def test_statistics_stay_in_their_framework_and_keep_their_meaning() -> None:
    torch = pytest.importorskip("torch")
    view = arrayferry.wrap(vector_of("NormalizeObservation", AutoresetMode.NEXT_STEP), "torch")
    env = ours.vector.NormalizeReward(
        ours.vector.NormalizeObservation(ours.vector.RecordEpisodeStatistics(view))
    )
    play(env, "torch")
    for rms in (env.env.obs_rms, env.return_rms):
        assert (rms.mean.dtype, rms.var.dtype) == (torch.float64, torch.float64)
    assert env.env.obs_rms.count == pytest.approx(3 * 41, abs=1e-3)
    recorder = env.env.env
    assert recorder.episode_returns.dtype == np.float64  # in NumPy, as in Gymnasium
    assert len(recorder.return_queue) == recorder.episode_count == len(recorder.time_queue)
    assert list(recorder.return_queue) == list(recorder.length_queue)  # a reward of 1 for every step
    env.update_running_mean = env.env.update_running_mean = False
    before = copy.deepcopy((env.return_rms.mean, env.env.obs_rms.mean))
    play(env, "torch", 5)
    assert torch.equal(before[0], env.return_rms.mean)
    assert torch.equal(before[1], env.env.obs_rms.mean)


@pytest.mark.parametrize("kind", ["single", "vector"])
def test_statistics_may_be_taken_from_an_environment_of_another_framework(kind: str) -> None:
    pytest.importorskip("torch")
    where = ours if kind == "single" else ours.vector
    make_one = partial(gym.make, CART) if kind == "single" else partial(gym.make_vec, CART, 2)
    trained = where.NormalizeObservation(make_one())
    play(trained, "numpy", 20)
    tested = where.NormalizeObservation(arrayferry.wrap(make_one(), "torch"))
    tested.obs_rms, tested.update_running_mean = copy.deepcopy(trained.obs_rms), False
    trained.update_running_mean = False
    assert_near(play(tested, "torch", 20), want := play(trained, "numpy", 20), "torch")
    trained.obs_rms = tested.obs_rms
    np.testing.assert_allclose(trained.reset(seed=1)[0], want[0], rtol=1e-5)


def test_no_graph_grows_out_of_differentiable_observations() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(3, requires_grad=True)
    env = ours.NormalizeObservation(Counter(show=lambda count: weight * count))
    obs, _ = env.reset(seed=1)
    assert obs.requires_grad
    assert not env.obs_rms.mean.requires_grad


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_rewards_and_dones_that_are_arrays(framework: str) -> None:
    pytest.importorskip(framework)
    want = play(theirs.ClipReward(theirs.NormalizeReward(gym.make(CART)), 0.0, 0.5), "numpy")
    view = arrayferry.wrap(gym.make(CART), framework, scalars="target")
    got = play(ours.RecordEpisodeStatistics(ours.ClipReward(ours.NormalizeReward(view), 0.0, 0.5)), framework)
    assert all(isinstance(step[1], array_type_of(framework)) for step in got if isinstance(step, tuple))
    for one, other in zip(got, want):
        np.testing.assert_allclose(seen(one[1]), seen(other[1]), rtol=1e-5)


def test_a_plain_jax_environment_stays_in_jax_on_its_device() -> None:
    jax = pytest.importorskip("jax")
    device = jax.devices()[-1]
    shown = {"show": lambda count: jax.device_put(jax.numpy.full(3, count, "float32"), device)}
    env: Any = ours.NormalizeObservation(theirs.TimeLimit(Counter(**shown), 5))
    env = ours.TimeAwareObservation(ours.FrameStackObservation(env, 2, padding_type="zero"), flatten=False)
    obs, _ = env.reset(seed=1)
    assert {name: (one.shape, one.device) for name, one in obs.items()} == {
        "obs": ((2, 3), device),
        "time": ((1,), device),
    }


def test_the_action_space_is_the_one_of_that_moment() -> None:
    torch = pytest.importorskip("torch")
    base = gym.make(CAR)
    env = ours.ClipAction(arrayferry.wrap(base, "torch"))
    assert env.action(torch.tensor([5.0])) == 1
    base.action_space = spaces.Box(-2, 2, (1,))
    assert env.action(torch.tensor([5.0])) == 2
    assert env.action(np.array([5.0])) == 2


@pytest.mark.needs("gymnasium>=1.4")  # an older one asserts, without a word
def test_what_gymnasium_refuses_is_refused() -> None:
    for where in (ours, theirs):
        with pytest.raises(TypeError, match="Box"):
            where.ClipAction(gym.make(CART))
        with pytest.raises(gym.error.InvalidBound):
            where.ClipReward(gym.make(CART))
        with pytest.raises(ValueError, match="stack_size"):
            where.FrameStackObservation(gym.make(CART), 0)


def test_an_info_that_has_the_statistics_already_is_refused() -> None:
    pytest.importorskip("torch")
    view = arrayferry.wrap(vector_of("RecordEpisodeStatistics", AutoresetMode.NEXT_STEP), "torch")
    with pytest.raises(ValueError, match="episode"):
        play(ours.vector.RecordEpisodeStatistics(ours.vector.RecordEpisodeStatistics(view)), "torch")


# ---- what is handed out is the agent's, and a masked reset concerns its rows only


def spoil(value: Any) -> None:
    """Write into everything that an agent has received."""
    if isinstance(value, dict):
        for one in list(value.values()):
            spoil(one)
        value.clear()
    elif isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == object):
        for one in value:
            spoil(one)
    elif hasattr(value, "shape") and not isinstance(value, np.generic):
        value[...] = ~value if "bool" in str(value.dtype) else 77


def play_and_spoil(env: Any, framework: str, *, is_spoilt: bool, steps: int = 60) -> list[Any]:
    """What an environment returns, with masked resets where it takes them, to an agent that may spoil it."""
    is_vector = isinstance(env, gym.vector.VectorEnv)
    resets_itself = is_vector and env.metadata["autoreset_mode"] != AutoresetMode.DISABLED
    env.action_space.seed(1)
    received = [env.reset(seed=1)]
    results = copy.deepcopy(received)
    for step in range(steps):
        if is_spoilt:
            spoil(received)
        action = arrayferry.convert(np.asarray(env.action_space.sample()), framework)
        received[:] = [env.step(action)]
        results.append(copy.deepcopy(received[0]))
        done = np.asarray(seen(received[0][2]) | seen(received[0][3]))
        if is_spoilt:
            spoil(received)
        if (done.any() and not resets_itself) or step % 20 == 13:
            mask = done | np.array([False, True, False])
            options = {"reset_mask": arrayferry.convert(mask, framework)} if is_vector else None
            if type(env).__name__ == "NormalizeObservation":
                options = None
            received[:] = [env.reset(options=options)]
            results.append(copy.deepcopy(received[0]))
            if is_spoilt and options is not None:
                options["reset_mask"][:] = True
    return results


@quiet
@quieter
@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_an_agent_that_writes_into_what_it_receives_changes_nothing(case: str, framework: str) -> None:
    pytest.importorskip(framework)
    envs = [make(case, ours, arrayferry.wrap(gym.make(CASES[case][0]), framework)) for _ in range(2)]
    got, want = (play_and_spoil(env, framework, is_spoilt=one) for env, one in zip(envs, (True, False)))
    assert_near(got, want, framework)


@pytest.mark.parametrize("name", ["DelayObservation", "MaxAndSkipObservation"])
def test_an_agent_that_writes_into_what_gymnasium_s_own_code_returns(name: str) -> None:
    envs = [getattr(ours, name)(arrayferry.wrap(gym.make(CART), "numpy"), 2) for _ in range(2)]
    got, want = (play_and_spoil(env, "numpy", is_spoilt=one) for env, one in zip(envs, (True, False)))
    assert_near(got, want, "numpy")


@quiet
@quieter
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("case", VECTOR)
def test_an_agent_of_many_that_writes_into_what_it_receives_changes_nothing(
    case: str, framework: str, mode: AutoresetMode
) -> None:
    pytest.importorskip(framework)
    if refusal(case, theirs.vector, mode):
        pytest.skip("Gymnasium refuses it")
    if not GYMNASIUM_IS_RIGHT:
        pytest.skip("before Gymnasium 1.4, statistics went on after an episode had ended")
    envs = [make(case, ours.vector, arrayferry.wrap(vector_of(case, mode), framework)) for _ in range(2)]
    got, want = (play_and_spoil(env, framework, is_spoilt=one) for env, one in zip(envs, (True, False)))
    assert_near(got, want, framework)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_masked_reset_restarts_the_sums_of_its_rows_only(framework: str, mode: AutoresetMode) -> None:
    pytest.importorskip(framework)
    base = gym.vector.SyncVectorEnv([partial(Counter, 9)] * 3, autoreset_mode=mode)
    env = ours.vector.NormalizeReward(arrayferry.wrap(base, framework), gamma=1.0)
    actions = arrayferry.convert(np.zeros(3, int), framework)
    env.reset(seed=1)
    for _ in range(3):
        env.step(actions)
    env.reset(options={"reset_mask": arrayferry.convert(np.array([True, False, False]), framework)})
    assert seen(env.accumulated_reward).tolist() == [0, 3, 3]
    env.step(actions)
    assert seen(env.accumulated_reward).tolist() == [0.5, 5, 5]
    env.reset()
    assert seen(env.accumulated_reward).tolist() == [0, 0, 0]


def test_a_reset_that_fails_leaves_the_sums_alone() -> None:
    env = ours.vector.NormalizeReward(arrayferry.wrap(gym.make_vec(CART, 2), "numpy"))
    env.reset(seed=1)
    env.step(np.array([0, 1]))
    before = env.accumulated_reward.tolist()
    for options in ({"reset_mask": np.zeros(2, bool)}, {"reset_mask": np.ones(3, bool)}, {"low": "x"}):
        with pytest.raises((ValueError, TypeError, AssertionError)):
            env.reset(options=options)
        assert env.accumulated_reward.tolist() == before != [0, 0]


def test_a_reward_is_clipped_into_memory_of_its_own() -> None:
    class Keeps(gym.vector.SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            obs, self.kept, *rest = super().step(actions)
            return obs, self.kept, *rest

    base = Keeps([Counter, Counter])
    env = ours.vector.ClipReward(base, 0.0, 0.25)
    env.reset()
    assert env.step(np.array([0, 0]))[1].tolist() == [0.25, 0.25]
    assert base.kept.tolist() == [0.5, 0.5]
