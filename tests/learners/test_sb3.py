"""`sb3_vec_env` tells what Stable-Baselines3's own `DummyVecEnv` tells, for vector environments."""

from __future__ import annotations

import pickle
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.learners import sb3_vec_env
from arrayferry.scale import ProcessVectorEnv
from helpers.compare import GYMNASIUM_IS_RIGHT
from learners.counting import Counting, Deadly

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common import vec_env  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize  # noqa: E402

# Not forked, because JAX may have started in this process.
AsyncVectorEnv = partial(gym.vector.AsyncVectorEnv, context="forkserver")
SAME_STEP, NEXT_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED


def vectors(mode: AutoresetMode, nested: bool = False, kind: Any = SyncVectorEnv) -> Any:
    return kind([lambda n=n: Counting(n, nested) for n in (2, 3, 5)], autoreset_mode=mode)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other) or np.ndim(one) == np.ndim(other) == 0, (one, other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "kind", [SyncVectorEnv, AsyncVectorEnv, ProcessVectorEnv], ids=["sync", "async", "processes"]
)
@pytest.mark.parametrize("mode", [SAME_STEP, NEXT_STEP, DISABLED])
def test_it_tells_what_dummy_vec_env_tells(mode: AutoresetMode, kind: Any, nested: bool) -> None:
    ours = sb3_vec_env(vectors(mode, nested, kind))
    theirs = DummyVecEnv([lambda n=n: Counting(n, nested) for n in (2, 3, 5)])
    for venv in (ours, theirs):
        venv.seed(7)
    assert_same(ours.reset(), theirs.reset())
    assert ours.reset_infos == theirs.reset_infos
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = rng.integers(0, 3, 3)
        mine, expected = ours.step(actions), theirs.step(actions)
        for one, other in zip(mine[:3], expected[:3]):
            assert_same(one, other)
        for one, other in zip(mine[3], expected[3]):
            assert_same(one, other)
        assert ours.reset_infos == theirs.reset_infos
    assert mine[1].dtype == np.float32
    ours.close()


@pytest.mark.parametrize("mode", [SAME_STEP, NEXT_STEP, DISABLED])
def test_a_worker_that_dies_is_told_with_the_step(mode: AutoresetMode) -> None:
    venv = sb3_vec_env(ProcessVectorEnv([lambda: Deadly(9)] * 4, workers=2, autoreset_mode=mode))
    venv.reset()
    last = venv.step(np.zeros(4, int))[0][0]
    obs, _, done, infos = venv.step(np.array([2, 0, 0, 0]))
    assert done.tolist() == [True, True, False, False]
    assert ["fault" in info for info in infos] == done.tolist()
    assert "died" in infos[1]["fault_reason"]
    assert infos[0]["TimeLimit.truncated"]
    np.testing.assert_array_equal(infos[0]["terminal_observation"], last)
    assert obs[:, 0].tolist() == [0, 0, 2, 2]
    assert venv.step(np.zeros(4, int))[0][:, 0].tolist() == [1, 1, 3, 3]  # no step is only a reset
    venv.close()


@pytest.mark.parametrize("mode", [NEXT_STEP, DISABLED])
def test_every_mode_of_a_vector_in_jax_is_told_alike(mode: AutoresetMode) -> None:
    pytest.importorskip("flax")
    from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

    env = CartPoleFunctional()
    one, other = (
        sb3_vec_env(arrayferry.envs.as_gymnasium(env, 3, max_episode_steps=9, autoreset_mode=its))
        for its in (mode, SAME_STEP)
    )
    for venv in (one, other):
        venv.seed(7)
    assert_same(one.reset(), other.reset())
    lasts = 0
    for actions in np.random.default_rng(0).integers(0, 2, (40, 3)):
        mine, expected = one.step(actions), other.step(actions)
        for part, wanted in zip(mine[:3], expected[:3]):
            assert_same(part, wanted)
        for told, wanted in zip(mine[3], expected[3]):
            lasts += "terminal_observation" in told
            assert_same(told, wanted)
    assert lasts > 9


@pytest.mark.parametrize("mode", [SAME_STEP, NEXT_STEP, DISABLED])
def test_statistics_of_the_episodes(mode: AutoresetMode) -> None:
    recorded = arrayferry.wrappers.vector.RecordEpisodeStatistics(vectors(mode))
    assert_lengths_are_told(sb3_vec_env(recorded))


@pytest.mark.skipif(not GYMNASIUM_IS_RIGHT, reason="its statistics are wrong before Gymnasium 1.4")
def test_gymnasium_s_own_statistics() -> None:
    assert_lengths_are_told(sb3_vec_env(gym.wrappers.vector.RecordEpisodeStatistics(vectors(SAME_STEP))))
    for mode in (NEXT_STEP, DISABLED):  # a reset of some environments makes them forget the others
        envs = arrayferry.wrap(gym.wrappers.vector.RecordEpisodeStatistics(vectors(mode)), "torch")
        with pytest.raises(arrayferry.FerryError, match="VecMonitor"):
            sb3_vec_env(envs)


def assert_lengths_are_told(venv: Any) -> None:
    venv.reset()
    told: list[list[int]] = [[], [], []]
    for _ in range(12):
        *_, infos = venv.step(np.zeros(3, int))
        for lengths, info in zip(told, infos):
            if "episode" in info:
                lengths.append(int(info["episode"]["l"]))
                assert info["episode"]["r"] == sum(range(lengths[-1] + 1)) + 0.25 * lengths[-1]
    assert told == [[2] * 6, [3] * 4, [5] * 2]


def test_the_environment_may_speak_another_framework() -> None:
    torch = pytest.importorskip("torch")
    inner = arrayferry.wrap(vectors(SAME_STEP), "torch")
    venv = sb3_vec_env(inner)
    assert type(inner.reset(seed=0)[0]) is torch.Tensor
    venv.seed(0)
    assert type(venv.reset()) is np.ndarray
    obs, reward, done, infos = venv.step(np.zeros(3, int))
    assert (type(obs), type(reward), done.dtype) == (np.ndarray, np.ndarray, bool)
    _, _, done, infos = venv.step(np.zeros(3, int))
    assert done.tolist() == [True, False, False]
    assert infos[0]["terminal_observation"][0] == 2


def test_attributes_and_methods() -> None:
    for kind in (SyncVectorEnv, AsyncVectorEnv):
        venv = sb3_vec_env(vectors(SAME_STEP, kind=kind))
        assert venv.get_attr("length") == [2, 3, 5]
        assert venv.get_attr("length", 1) == [3]
        venv.set_attr("length", 9, indices=[0, 2])
        assert venv.get_attr("length") == [9, 3, 9]
        venv.set_attr("length", 4)
        assert venv.get_attr("length") == [4, 4, 4]
        assert venv.env_method("shout", "hi") == ["HI"] * 3
        assert venv.has_attr("length")
        venv.reset()
        assert [frame.shape for frame in venv.get_images()] == [(2, 2, 3)] * 3
        assert venv.render().shape == (4, 4, 3)
        venv.close()


def test_options_go_to_the_environments() -> None:
    venv = sb3_vec_env(vectors(SAME_STEP))
    venv.set_options({"level": 3})
    venv.reset()
    assert venv.get_attr("options") == [{"level": 3}] * 3
    venv.reset()
    assert venv.get_attr("options") == [None] * 3
    venv.set_options([{"level": 1}, {"level": 2}, {}])
    with pytest.raises(arrayferry.FerryError, match="options differ"):
        venv.reset()


class Native(gym.vector.VectorEnv[Any, Any, Any]):
    """A vector environment that is one object."""

    num_envs, gravity = 2, 9.8
    single_observation_space, observation_space = (spaces.Box(-1, 1, s) for s in ((2,), (2, 2)))
    single_action_space, action_space = spaces.Discrete(2), spaces.MultiDiscrete([2, 2])

    def __init__(self, mode: AutoresetMode | None) -> None:
        self.metadata = {} if mode is None else {"autoreset_mode": mode}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.seed = seed
        return np.zeros((2, 2), np.float32), {"level": 3}

    def step(self, actions: Any) -> Any:
        return np.zeros((2, 2), np.float32), np.ones(2), np.zeros(2, bool), np.zeros(2, bool), {"level": 3}

    def name_of(self, index: int) -> str:
        return f"env {index}"


def test_a_native_vector_environment() -> None:
    venv = sb3_vec_env(Native(SAME_STEP))
    venv.seed(5)
    venv.reset()
    assert venv.envs.unwrapped.seed == 5
    assert venv.reset_infos == [{"level": 3}] * 2
    assert venv.step(np.zeros(2, int))[3] == [{"level": 3, "TimeLimit.truncated": False}] * 2
    assert venv.get_attr("gravity") == [9.8, 9.8]
    venv.set_attr("gravity", 1.0)
    assert venv.get_attr("gravity") == [1.0, 1.0]
    assert venv.env_method("name_of", 1) == ["env 1"] * 2
    with pytest.raises(arrayferry.FerryError, match="only some environments"):
        venv.set_attr("gravity", 2.0, indices=0)


class Told(Native):
    """Tells more than a value of each environment."""

    def step(self, actions: Any) -> Any:
        goal, ragged = np.arange(3.0), [[1], [1, 2], [3]]
        info = {"goal": goal, "ragged": ragged, "nested": {"goal": goal}, "names": ["a", "b"]}
        return *super().step(actions)[:4], info


def test_an_info_that_is_not_of_each_environment_is_for_all() -> None:
    venv = sb3_vec_env(Told(SAME_STEP))
    venv.reset()
    for name, info in zip("ab", venv.step(np.zeros(2, int))[3], strict=True):
        assert info["goal"].tolist() == info["nested"]["goal"].tolist() == [0, 1, 2]
        assert (info["ragged"], info["names"]) == ([[1], [1, 2], [3]], name)


class Silent(Native):
    """Does not tell the last observation of an episode."""

    def step(self, actions: Any) -> Any:
        obs, reward, _, truncated, info = super().step(actions)
        return obs, reward, np.array([True, False]), truncated, info


def test_a_last_observation_that_is_not_told_is_refused() -> None:
    venv = sb3_vec_env(Silent(SAME_STEP))
    venv.reset()
    with pytest.raises(arrayferry.FerryError, match="no final_obs"):
        venv.step(np.zeros(2, int))


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (None, "does not say"),
        (NEXT_STEP, r'no action to learn from\n.*vectorization_mode="sync"\); or, if it'),
    ],
)
def test_a_mode_that_cannot_be_told_is_refused(mode: AutoresetMode | None, message: str) -> None:
    with pytest.raises(arrayferry.FerryError, match=message):
        sb3_vec_env(Native(mode))


def test_it_can_be_pickled() -> None:
    venv = pickle.loads(pickle.dumps(sb3_vec_env(vectors_at_module_level())))
    venv.seed(1)
    assert venv.reset().shape == (2, 2)


def vectors_at_module_level() -> Any:
    return SyncVectorEnv([Counting, Counting], autoreset_mode=SAME_STEP)


def test_ppo_learns_from_it_and_vec_normalize_wraps_it() -> None:
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 4, autoreset_mode=NEXT_STEP)
    venv = VecNormalize(sb3_vec_env(envs))
    model = sb3.PPO("MlpPolicy", venv, n_steps=16, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(128)
    assert model.num_timesteps == 128


# ---- what Stable-Baselines3 promises of its own vector environments ----------------------------------------

SPACES = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "discrete": spaces.Discrete(4),
    "multi_discrete": spaces.MultiDiscrete([2, 3]),
    "multi_binary": spaces.MultiBinary(3),
    "image": spaces.Box(0, 255, (36, 36, 3), np.uint8),
}
SPACES["dict"] = spaces.Dict(SPACES)
SPACES["tuple"] = spaces.Tuple([SPACES["box"], SPACES["discrete"]])


class Dice(gym.Env[Any, Any]):
    """Observes and takes members of any space, and ends by its own dice."""

    def __init__(self, observed: Any, acted: Any = SPACES["discrete"]) -> None:
        self.observation_space, self.action_space = deepcopy(observed), deepcopy(acted)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        ends, cut = self.np_random.random(2) < 0.2
        return self.observation_space.sample(), self.np_random.random(), bool(ends), bool(cut), {}


def both(observed: Any, acted: Any = SPACES["discrete"]) -> tuple[Any, Any]:
    """Return our vector environment and Stable-Baselines3's, of the same environments."""
    makes = [lambda: Dice(observed, acted)] * 3
    return sb3_vec_env(SyncVectorEnv(makes, autoreset_mode=SAME_STEP)), DummyVecEnv(makes)


def assert_same_steps(ours: Any, theirs: Any, actions: Any, steps: int = 25) -> None:
    for venv in (ours, theirs):
        venv.seed(3)
    assert_same_parts(ours.reset(), theirs.reset())
    for _ in range(steps):
        action = actions()
        for one, other in zip(ours.step(action), theirs.step(action), strict=True):
            assert_same_parts(one, other)


def assert_same_parts(one: Any, other: Any) -> None:
    if isinstance(one, (list, tuple)):
        for a, b in zip(one, other, strict=True):
            assert_same_parts(a, b)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same_parts(one[key], other[key])
    else:
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", SPACES)
def test_observations_of_every_space(name: str) -> None:
    ours, theirs = both(SPACES[name])
    assert ours.observation_space == theirs.observation_space
    rng = np.random.default_rng(0)
    assert_same_steps(ours, theirs, lambda: rng.integers(0, 4, 3))


@pytest.mark.parametrize("name", ["box", "discrete", "multi_discrete", "multi_binary"])
def test_actions_of_every_space(name: str) -> None:
    ours, theirs = both(SPACES["box"], SPACES[name])
    space = deepcopy(SPACES[name])
    space.seed(1)
    assert_same_steps(ours, theirs, lambda: np.stack([space.sample() for _ in range(3)]))


WRAPPED = {
    "normalize": (VecNormalize, "box"),
    "monitor": (VecMonitor, "box"),
    "frame_stack": (partial(vec_env.VecFrameStack, n_stack=2), "image"),
    "transpose": (vec_env.VecTransposeImage, "image"),
    "extract": (partial(vec_env.VecExtractDictObs, key="box"), "dict"),
    "check_nan": (partial(vec_env.VecCheckNan, raise_exception=True), "box"),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_its_wrappers_see_what_they_see_in_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)  # VecMonitor tells it
    wrapper, space = WRAPPED[name]
    ours, theirs = map(wrapper, both(SPACES[space]))
    rng = np.random.default_rng(0)
    assert_same_steps(ours, theirs, lambda: rng.integers(0, 4, 3))


def test_seeds_are_told_and_used_once() -> None:
    ours, theirs = both(SPACES["box"])
    assert ours.seed(7) == theirs.seed(7) == [7, 8, 9]
    first, second = ours.reset(), ours.reset()
    assert not np.array_equal(first, second)  # the seeds are used up
    ours.seed(7)
    np.testing.assert_array_equal(ours.reset(), first)
    assert len(set(map(bytes, first))) == 3  # each environment has its own


def test_what_it_returned_stays_as_it_was() -> None:
    ours, _ = both(SPACES["box"])
    ours.seed(0)
    first = ours.reset()
    kept = first.copy()
    for _ in range(5):
        ours.step(np.zeros(3, int))
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("make", [lambda: gym.make("CartPole-v1"), Counting], ids=["cart_pole", "counting"])
@pytest.mark.parametrize("framework", ["torch", "jax", "numpy"])
def test_check_env_takes_a_view(framework: str, make: Any) -> None:
    pytest.importorskip(framework)
    inside = arrayferry.wrap(make(), framework)  # an environment of that framework
    check_env(arrayferry.wrap(inside, "numpy"))


def test_a_model_is_evaluated_saved_and_loaded(tmp_path: Any) -> None:
    venv = sb3_vec_env(SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, autoreset_mode=SAME_STEP))
    model = sb3.DQN("MlpPolicy", venv, learning_starts=20, seed=0, device="cpu").learn(60)
    mean, _ = evaluate_policy(model, VecMonitor(venv), n_eval_episodes=4)
    assert mean > 0
    model.save(tmp_path / "model")
    loaded = sb3.DQN.load(tmp_path / "model", env=venv, device="cpu")
    obs = venv.reset()
    np.testing.assert_array_equal(loaded.predict(obs, True)[0], model.predict(obs, True)[0])


@pytest.mark.parametrize("envs", ["CartPole-v1", None, Counting()])
def test_what_is_no_vector_is_refused(envs: Any) -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError, match="is not a vector environment"):
        sb3_vec_env(envs)


def test_the_last_observation_of_a_discrete_space_is_a_scalar() -> None:
    lakes = [lambda: gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=1)]
    venv = sb3_vec_env(SyncVectorEnv(lakes, autoreset_mode=SAME_STEP))
    venv.seed(0)
    venv.reset()
    last = venv.step(np.array([1]))[3][0]["terminal_observation"]
    assert isinstance(last, np.int64)
    assert {4: "here"}[last] == "here"
