"""What is measured: environments that do nothing but return arrays, and the rivals that convert them.

An environment here costs next to nothing, so that what is left is the conversion. Each rival has one of
its own. "By hand" is an expert's own `gymnasium.Wrapper`: the framework's fastest call for each array,
no check, no private copy.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import torch
from gymnasium import spaces

import arrayferry

Step = Callable[[], Any]
BARE, BY_HAND, THEIRS, OURS = "bare", "by hand", "Gymnasium", "arrayferry"


class Toy(gym.Env[Any, Any]):
    """Makes a new observation in every step, as most environments do."""

    action_space = spaces.Discrete(2)

    def __init__(self, observe: Callable[[], Any], info: Callable[[], dict[str, Any]] = dict) -> None:
        self.observe, self.info = observe, info
        self.observation_space = space_of(observe())

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        return self.observe(), 1.0, False, False, self.info()


class ToyVector(gym.vector.VectorEnv[Any, Any, Any]):
    """The same, sixty-four at once."""

    num_envs = 64

    def __init__(
        self, results: Callable[[], tuple[Any, ...]], info: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.results, self.info = results, info
        self.observation_space = space_of(np.asarray(results()[0]))
        self.single_observation_space = space_of(np.asarray(results()[0])[0])
        self.single_action_space, self.action_space = spaces.Discrete(2), spaces.MultiDiscrete([2] * 64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.results()[0], {}

    def step(self, actions: Any) -> Any:
        return *self.results(), self.info()


def space_of(value: Any) -> spaces.Space[Any]:
    """A space for a structure of arrays."""
    if isinstance(value, dict):
        return spaces.Dict({key: space_of(child) for key, child in value.items()})
    if isinstance(value, int):
        return spaces.Discrete(16)
    return spaces.Box(0, 1, value.shape, value.dtype)


class ByHand(gym.Wrapper[Any, Any, Any, Any]):
    """One call for the action, one for each array of the observation."""

    def __init__(self, env: Any, convert: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.convert = convert

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action.item())
        return self.convert(obs), reward, terminated, truncated, info


class VectorByHand(gym.vector.VectorWrapper[Any, Any, Any, Any, Any]):
    """One call for the actions, one for each of the four arrays."""

    def __init__(self, env: Any, enter: Callable[[Any], Any], convert: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.enter, self.convert = enter, convert

    def step(self, actions: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(self.enter(actions))
        convert = self.convert
        return convert(obs), convert(reward), convert(terminated), convert(truncated), info


def new(shape: tuple[int, ...] = (4,), dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


def dict_of_8() -> dict[str, Any]:
    return {f"k{i}": new() for i in range(8)}


def info_of_3() -> dict[str, Any]:
    return {"speed": 1.5, "lives": 3, "position": new()}


def info_with_a_date() -> dict[str, Any]:
    """A leaf that has no counterpart in torch, and stays as it is."""
    return {"when": np.array(["2026-01-01"], "M8[D]"), "position": new()}


def info_at_the_end() -> dict[str, Any]:
    """What a recorded vector environment of 64 says when episodes are over."""
    episode = {"r": np.zeros(64), "l": np.zeros(64, int), "t": np.zeros(64)}
    return {"episode": episode, "_episode": np.zeros(64, bool)}


def batch(shape: tuple[int, ...] = (4,), dtype: Any = np.float32) -> tuple[Any, ...]:
    return new((64, *shape), dtype), np.zeros(64), np.zeros(64, bool), np.zeros(64, bool)


def jax_batch() -> Callable[[], tuple[Any, ...]]:
    """New arrays in every step, without the time that an environment takes to compute them."""
    made = jax.device_put([array.astype(array.dtype) for array in (new((64, 4)), new((64,)), *batch()[2:])])
    fresh = jax.jit(lambda arrays: tuple(jnp.logical_not(a) if a.dtype == bool else a + 1 for a in arrays))
    return lambda: fresh(made)


MODULES: dict[str, Any] = {"torch": torch, "jax": jnp, "numpy": np}
BY_CALL: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("numpy", "torch"): torch.from_numpy,
    ("numpy", "jax"): jnp.asarray,
    ("jax", "torch"): lambda array: torch.from_numpy(np.array(array)),
    ("jax", "numpy"): np.array,
}


def single(
    observe: Callable[[], Any], to: str, by_hand: Callable[[Any], Any], **info: Any
) -> dict[str, Step]:
    """The rivals in a single environment on NumPy."""
    make = partial(Toy, observe, **info)
    envs: dict[str, Any] = {
        **({} if info else {BY_HAND: ByHand(make(), by_hand)}),  # which leaves infos as they are
        THEIRS: gym.wrappers.ArrayConversion(make(), env_xp=np, target_xp=MODULES[to]),
        OURS: arrayferry.wrap(make(), to),
        **peers(make, observe, to),
    }
    return stepping(envs, make(), 1, arrayferry.convert(np.int64(1), to))


def vector(
    results: Callable[[], Any], source: str, to: str, cast_actions: bool = False, **info: Any
) -> dict[str, Step]:
    """The rivals in a vector environment."""
    make = partial(ToyVector, results, **info)
    actions = {
        "torch": torch.zeros(64, dtype=torch.int64),
        "jax": jnp.zeros(64, int),
        "numpy": np.zeros(64, int),
    }
    if cast_actions:
        actions["torch"] = actions["torch"].int()
    enter: Callable[[Any], Any] = {"numpy": np.asarray, "jax": jnp.asarray}[source]
    if (source, to) == ("numpy", "torch"):
        enter = (lambda action: action.numpy().astype(int)) if cast_actions else torch.Tensor.numpy
    elif to == "torch":
        enter = lambda action: jnp.asarray(action.numpy())  # noqa: E731
    envs = {
        **({} if info else {BY_HAND: VectorByHand(make(), enter, BY_CALL[source, to])}),
        THEIRS: gym.wrappers.vector.ArrayConversion(make(), env_xp=MODULES[source], target_xp=MODULES[to]),
        OURS: arrayferry.wrap(make(), to),
    }
    return stepping(envs, make(), actions[source], actions[to])


def stepping(envs: dict[str, Any], bare: Any, native: Any, action: Any) -> dict[str, Step]:
    def stepper(env: Any, action: Any) -> Step | None:
        env.reset(seed=0)
        try:
            env.step(action)
        except Exception:  # it cannot do this work
            return None
        return lambda: env.step(action)

    steps = {BARE: stepper(bare, native)} | {name: stepper(env, action) for name, env in envs.items()}
    return {name: step for name, step in steps.items() if step is not None}


def peers(make: Callable[[], Any], observe: Callable[[], Any], to: str) -> dict[str, Any]:
    """Converters of other libraries, as their own training loops call them on NumPy observations."""
    if to != "torch":
        return {}
    cpu = torch.device("cpu")
    calls: dict[str, tuple[str, str, Callable[[Any], Callable[[Any], Any]]]] = {
        "Stable-Baselines3": (
            "stable_baselines3.common.utils",
            "obs_as_tensor",
            lambda f: partial(f, device=cpu),
        ),
        "tianshou": ("tianshou.data", "to_torch", lambda f: f),
        "RLlib": ("ray.rllib.utils.torch_utils", "convert_to_torch_tensor", lambda f: f),
    }
    found: dict[str, Any] = {}
    for name, (module, function, bind) in calls.items():
        try:
            found[name] = ByHand(make(), bind(getattr(importlib.import_module(module), function)))
        except ImportError:
            continue
    with contextlib.suppress(ImportError):
        found["TorchRL"] = TorchRL(make())
    return found


class TorchRL:
    """TorchRL's environment, whose step takes and gives a TensorDict."""

    def __init__(self, env: Any) -> None:
        from torchrl.envs import GymWrapper

        self.env = GymWrapper(env)

    def reset(self, seed: int) -> None:
        self.start = self.env.reset()

    def step(self, action: Any) -> Any:
        self.start["action"] = torch.nn.functional.one_hot(action, 2)
        return self.env.step(self.start)


def cartpole() -> dict[str, Step]:
    """A whole step of a real environment, resets included, for the picture in the README."""
    make = partial(gym.make, "CartPole-v1")
    envs: dict[str, Any] = {
        BARE: make(),
        BY_HAND: ByHand(make(), torch.from_numpy),
        THEIRS: gym.wrappers.ArrayConversion(make(), env_xp=np, target_xp=torch),
        OURS: arrayferry.wrap(make(), "torch"),
    }

    def stepper(env: Any, actions: list[Any]) -> Step:
        env.reset(seed=0)
        turn = itertools.cycle(actions)  # left and right in turn: the pole stands for a while

        def step() -> None:
            _, _, terminated, truncated, _ = env.step(next(turn))
            if terminated or truncated:
                env.reset(seed=0)

        return step

    both = [torch.tensor(0), torch.tensor(1)]
    return {name: stepper(env, [0, 1] if name == BARE else both) for name, env in envs.items()}


def each(call: Callable[[Any], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda obs: {key: call(value) for key, value in obs.items()}


# For each row of the table: a function that returns a step of each rival, by its name.
WORKS: dict[str, Callable[[], dict[str, Step]]] = {
    "NumPy to torch, Box(4)": lambda: single(new, "torch", torch.from_numpy),
    "NumPy to torch, Dict of 8": lambda: single(dict_of_8, "torch", each(torch.from_numpy)),
    "NumPy to JAX, Box(4)": lambda: single(new, "jax", jnp.asarray),
    "NumPy to JAX, Dict of 8": lambda: single(dict_of_8, "jax", partial(jax.tree.map, jnp.asarray)),
    "vector 64, NumPy to torch, (64, 4)": lambda: vector(batch, "numpy", "torch"),
    "vector 64, NumPy to torch, 64 x 84x84x4 uint8": lambda: vector(
        partial(batch, (84, 84, 4), np.uint8), "numpy", "torch"
    ),
    "vector 64, NumPy to JAX, (64, 4)": lambda: vector(batch, "numpy", "jax"),
    "vector 64, JAX to torch, (64, 4)": lambda: vector(jax_batch(), "jax", "torch"),
    "vector 64, JAX to NumPy, (64, 4)": lambda: vector(jax_batch(), "jax", "numpy"),
    "info of 3 leaves, to torch": lambda: single(new, "torch", torch.from_numpy, info=info_of_3),
    "info with a date, which is kept, to torch": lambda: single(
        new, "torch", torch.from_numpy, info=info_with_a_date
    ),
    "numbers only, as FrozenLake, to torch": lambda: single(lambda: 3, "torch", torch.tensor),
    "actions of a vector 64 that are cast, torch to NumPy": lambda: vector(
        batch, "numpy", "torch", cast_actions=True
    ),
    "infos of a vector 64 at episode end, to torch": lambda: vector(
        batch, "numpy", "torch", info=info_at_the_end
    ),
}
