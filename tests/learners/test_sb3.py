"""`sb3_vec_env` tells what Stable-Baselines3's own `DummyVecEnv` tells, for vector environments."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.learners import sb3_vec_env

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

# Not forked, because JAX may have started in this process.
AsyncVectorEnv = partial(gym.vector.AsyncVectorEnv, context="forkserver")
SAME_STEP, NEXT_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED


class Counting(gym.Env[Any, Any]):
    """Ends after some steps, by turns terminated and truncated; observes the count and a random number."""

    action_space = spaces.Discrete(3)
    render_mode = "rgb_array"
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(self, length: int = 3, nested: bool = False) -> None:
        box = spaces.Box(-1e3, 1e3, (2,), np.float32)
        self.observation_space = spaces.Dict(a=box, b=spaces.Discrete(1000)) if nested else box
        self.length, self.nested, self.episodes = length, nested, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count, self.options = 0, options
        return self._observe(), {"start": self.episodes}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.count += 1
        is_over = self.count == self.length
        self.episodes += is_over
        cut = is_over and self.episodes % 2 == 0
        return self._observe(), self.count + 0.25, is_over and not cut, cut, {"count": self.count}

    def _observe(self) -> Any:
        a = np.array([self.count, self.np_random.random()], np.float32)
        return {"a": a, "b": self.count} if self.nested else a

    def render(self) -> Any:
        return np.full((2, 2, 3), self.count, np.uint8)

    def shout(self, word: str) -> str:
        return word.upper()


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
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv], ids=["sync", "async"])
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


def test_some_environments_only() -> None:
    sync, asynchronous = (
        sb3_vec_env(vectors(SAME_STEP, kind=kind)) for kind in (SyncVectorEnv, AsyncVectorEnv)
    )
    assert sync.env_method("shout", "hi", indices=[1]) == ["HI"]
    with pytest.raises(arrayferry.FerryError, match="some environments only"):
        asynchronous.env_method("shout", "hi", indices=[1])
    assert sync.env_is_wrapped(gym.wrappers.TimeLimit) == [False] * 3
    limited = SyncVectorEnv([lambda: gym.wrappers.TimeLimit(Counting(), 5)], autoreset_mode=SAME_STEP)
    assert sb3_vec_env(limited).env_is_wrapped(gym.wrappers.TimeLimit) == [True]
    asynchronous.close()


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
    with pytest.raises(arrayferry.FerryError, match="some environments only"):
        venv.set_attr("gravity", 2.0, indices=0)


@pytest.mark.parametrize(
    ("mode", "message"), [(None, "does not say"), (NEXT_STEP, "no action to learn from")]
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
