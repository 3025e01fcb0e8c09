"""R12, R13, R15: copies of wrappers, environments that overwrite what they handed out, and stable types."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import cloudpickle
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import torch

from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import NAMES, ROUTES, kind_of, made_in, raw, scribble

# --- R12

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
    "deepcopy": copy.deepcopy,
}
DEVICES: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch.device("cpu"),
    "jax": lambda: jax.devices()[0],
}
TWINS = list(product(COPIES, NAMES, [False, True]))
ATTRIBUTES = ["action_space", "observation_space", "metadata", "spec", "render_mode", "reward_range"]


def copy_is_whole(number: int, library: Library) -> None:
    """No attribute is lost, and the copy makes the same 100 steps."""
    way, target, on_device = TWINS[number % len(TWINS)]
    device = DEVICES[target]() if on_device and target in DEVICES else None
    env = library.wrap(gym.make("CartPole-v1"), "numpy", target, device)
    env.reset(seed=number)
    twin = COPIES[way](env)
    for name in (name for name in ATTRIBUTES if hasattr(env, name)):
        assert getattr(twin, name, "lost") == getattr(env, name), f"{way}, {target}: {name} is lost"
    random = Random(number)
    for step in range(100):
        action = made_in(target, np.array(random.randrange(2)))
        one, other = env.step(action), twin.step(action)
        assert kind_of(other[0]) == target
        assert raw(one[0]) == raw(other[0]), f"{way}, {target}: step {step} differs"
        assert one[1:4] == other[1:4], f"{way}, {target}: step {step} differs"
        if one[2] or one[3]:
            assert raw(env.reset()[0]) == raw(twin.reset()[0]), f"{way}, {target}: a reset differs"


# --- R13


class Overwriting(gym.Env[Any, Any]):
    """At each step it overwrites every buffer that it has ever handed out or been given; JAX's it deletes."""

    observation_space = gym.spaces.Dict(x=gym.spaces.Box(-np.inf, np.inf, (1,), np.float32))
    action_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self, framework: str, size: int) -> None:
        self.framework, self.size, self.count = framework, size, 0
        self.out: list[Any] = []
        self.truth: list[bytes] = []

    def _give(self) -> Any:
        for buffer in self.out:
            buffer.delete() if isinstance(buffer, jax.Array) else scribble(buffer)
        new = [np.full(self.size, self.count, "float32"), np.full((2, 3), self.count, "uint8")]
        self.truth += [raw(array) for array in new]
        handed = [made_in(self.framework, array) for array in new]
        # The same memory again, as environments do that allocate once.
        if self.framework != "jax" and len(self.out) >= 2:
            for buffer, array in zip(self.out, new):
                buffer[...] = made_in(self.framework, array)
            handed = self.out[:2]
        self.out[:0] = handed if not self.out or self.framework == "jax" else []
        self.count += 1
        return {"x": handed[0]}, {"nested": {"image": handed[1]}}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._give()

    def step(self, action: Any) -> Any:
        obs, info = self._give()
        if not isinstance(action, jax.Array):
            self.out.append(action)
        return obs, 1.0, False, False, info


def history_is_true(number: int, library: Library) -> None:
    """What the agent kept is what the environment meant, and its actions are as it chose them."""
    kinds = [*ROUTES, ("numpy", "numpy"), "vector", "mountain car"]
    kind = kinds[number % len(kinds)]
    if kind == "vector":
        _vector_history_is_true(number, library)
    elif kind == "mountain car":
        _physics_stay(number, library)
    else:
        _history_is_true(number, library, *kind)


def _history_is_true(number: int, library: Library, source: str, target: str) -> None:
    env = Overwriting(source, Random(number).choice([4, 1_000, 26_000, 110_000]))
    wrapped = library.wrap(env, source, target)
    results, actions = [wrapped.reset()], []
    for step in range(20):
        actions.append(made_in(target, np.full(3, step, "float32")))
        obs, *_, info = wrapped.step(actions[-1])
        results.append((obs, info))
    found = [raw(array) for obs, info in results for array in (obs["x"], info["nested"]["image"])]
    wrong = sum(one != other for one, other in zip(found, env.truth, strict=True))
    assert not wrong, f"{source} to {target}: {wrong} of {len(found)} arrays of the history are wrong"
    changed = sum(raw(one) != raw(np.full(3, step, "float32")) for step, one in enumerate(actions))
    assert not changed, f"{source} to {target}: {changed} actions of the agent's were changed"


def _vector_history_is_true(number: int, library: Library) -> None:
    """A vector environment that was told not to copy."""
    target = NAMES[number // 9 % 3]

    def make() -> Any:
        return gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 2, copy=False)

    bare, env = make(), library.wrap(make(), "numpy", target)
    truth, held = [raw(bare.reset(seed=number)[0])], [env.reset(seed=number)[0]]
    for step in range(20):
        action = np.full((2, 1), step / 10, "float32")
        truth.append(raw(bare.step(action)[0]))
        held.append(env.step(made_in(target, action))[0])
    wrong = sum(raw(one) != other for one, other in zip(held, truth, strict=True))
    assert not wrong, f"vector environment to {target}: {wrong} of {len(held)} observations are wrong"


def _physics_stay(number: int, library: Library) -> None:
    """It returns its own state array, and the agent scales its observations in place."""
    target = ("numpy", "torch")[number // 9 % 2]
    bare, env = gym.make("MountainCarContinuous-v0"), gym.make("MountainCarContinuous-v0")
    env = library.wrap(env, "numpy", target)
    want, got = bare.reset(seed=number)[0], env.reset(seed=number)[0]
    for step in range(20):
        assert raw(got) == raw(want), f"mountain car to {target}: step {step} differs"
        if not isinstance(got, np.ndarray) or got.flags.writeable:
            got *= 1000
        action = np.array([step / 10 - 1], "float32")
        want, got = np.array(bare.step(action)[0]), env.step(made_in(target, action))[0]


# --- R15

BUNDLED = [
    *("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"),
    *("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"),
]


class Undecided(gym.Env[Any, Any]):
    """Gives Python's numbers and NumPy's by turns."""

    observation_space = gym.spaces.Dict(n=gym.spaces.Discrete(9), x=gym.spaces.Box(-1, 1, ()))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return {"n": 3, "x": 0.5}, {}

    def step(self, action: Any) -> Any:
        self.count += 1
        python, numpy = {"n": 3, "x": 0.5}, {"n": np.int64(3), "x": np.float64(0.5)}
        return python if self.count % 2 else numpy, 1.0, False, False, {}


def types_are_stable(number: int, library: Library) -> None:
    """One entry in the cache of a jitted function over 1,000 steps."""
    name = ["undecided", *BUNDLED][number]
    env: Any = Undecided() if name == "undecided" else gym.make(name)
    wrapped = library.wrap(env, "numpy", "jax")
    policy = jax.jit(lambda obs: jax.tree.map(lambda x: x + 1, obs))
    env.action_space.seed(number)
    obs, _ = wrapped.reset(seed=number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MountainCarContinuous wants another bound
        for _ in range(1_000):
            policy(obs)
            action = env.action_space.sample()
            obs, _, terminated, truncated, _ = wrapped.step(jnp.asarray(action))
            if terminated or truncated:
                obs, _ = wrapped.reset()
    entries = policy._cache_size()
    assert entries == 1, f"{name}: {entries} entries in the jit cache"


GOALS = [
    Goal(
        name="R12",
        title="a copied or unpickled wrapper is whole",
        trial=copy_is_whole,
        unit="a wrapper pickled, cloudpickled or deep-copied, then 100 steps of both",
        full=20 * len(TWINS),
        thin=len(TWINS),
        peer=2 * len(TWINS),
    ),
    Goal(
        name="R13",
        title="an environment that overwrites its buffers changes no history",
        trial=history_is_true,
        unit="20 steps on 6 routes, NumPy to itself, a vector environment that reuses, MountainCarContinuous",
        full=900,
        thin=54,
        peer=90,
    ),
    Goal(
        name="R15",
        title="one entry in the jit cache",
        trial=types_are_stable,
        unit=f"1,000 steps of {len(BUNDLED)} bundled environments, and of one with numbers of both kinds",
        full=len(BUNDLED) + 1,
        thin=4,
        peer=len(BUNDLED) + 1,
        sampled=False,
    ),
]
