"""Subclasses of the conversion wrappers that were written for Gymnasium keep working here.

Each body is written once and put on Gymnasium's class and on ours: both must do the same.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import gymnasium.wrappers
import numpy as np
import pytest
from gymnasium.utils import RecordConstructorArgs

import arrayferry
import arrayferry.wrappers
from arrayferry.wrappers import ArrayConversion, NumpyToTorch, vector
from arrayferry.wrappers.array_conversion import array_conversion as ours
from helpers.targets import targets

torch = pytest.importorskip("torch")
theirs: Any = pytest.importorskip("gymnasium.wrappers.array_conversion").array_conversion


class Counting(gym.Env[Any, Any]):
    """Observes how often it was stepped, and what it was given."""

    observation_space = action_space = gym.spaces.Box(-10, 10, (2,), np.float32)

    def __init__(self) -> None:
        self.steps, self.given = 0, list[Any]()

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.steps = 0
        self.given.append(options)
        return np.zeros(2, np.float32), {"steps": np.array(0)}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.given.append(action)
        obs = np.full(2, self.steps, np.float32)
        return obs, np.float64(1.5), np.bool_(False), np.bool_(False), {"steps": np.array(self.steps)}


class ManyCounting(gym.vector.VectorEnv[Any, Any, Any]):
    num_envs = 3

    def __init__(self) -> None:
        self.one = Counting()
        self.given = self.one.given
        self.single_observation_space = self.single_action_space = self.one.action_space
        self.observation_space = self.action_space = gym.spaces.Box(-10, 10, (3, 2), np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        obs, info = self.one.reset(options=options)
        return np.stack([obs] * 3), info

    def step(self, actions: Any) -> Any:
        obs, *_, info = self.one.step(actions)
        return np.stack([obs] * 3), np.full(3, 1.5), np.zeros(3, bool), np.zeros(3, bool), info


def calls_super(base: Any, convert: Any) -> Any:
    class CallsSuper(base):  # type: ignore[misc]
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            obs, info = super().reset(seed=seed, options=options)
            return obs - 1, {**info, "reset": True}

        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action * 2)
            return obs * 10, reward + 1, terminated, truncated, {**info, "stepped": True}

    return CallsSuper


def converts_itself(base: Any, convert: Any) -> Any:
    class ConvertsItself(base):  # type: ignore[misc]
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            if options:
                options = convert(options, self._env_xp, self._env_device)
            found = self.env.reset(seed=seed, options=options)
            return convert(found, xp=self._target_xp, device=self._target_device)

        def step(self, action: Any) -> Any:
            action = convert(action, xp=self._env_xp, device=self._env_device)
            obs, reward, *dones, info = self.env.step(self._env_xp.clip(action, 0, 1))
            obs = convert(obs, xp=self._target_xp, device=self._target_device)
            obs = self._target_xp.concat([obs, self._target_xp.ones_like(obs)], axis=-1)
            return obs, reward, *dones, convert(info, xp=self._target_xp, device=self._target_device)

    return ConvertsItself


def makes_arrays(base: Any, convert: Any) -> Any:
    class MakesArrays(base):  # type: ignore[misc]
        def __init__(self, env: Any, target_device: Any = None) -> None:
            super().__init__(env=env, env_xp=np, target_xp=torch, target_device=target_device)
            self.offset = self._target_xp.asarray(2.0, device=self._target_device)

        def step(self, action: Any) -> Any:
            obs, *rest = super().step(action)
            return (obs + self.offset, *rest)

    return lambda env, env_xp, target_xp, device=None: MakesArrays(env, device)


def told(value: Any) -> Any:
    """The type and the values of each leaf."""
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [told(one) for one in value]
    return type(value).__name__, getattr(value, "dtype", None), np.asarray(value).tolist()


BASES = {"single": (gymnasium.wrappers.ArrayConversion, ArrayConversion, Counting)}
BASES["vector"] = (gymnasium.wrappers.vector.ArrayConversion, vector.ArrayConversion, ManyCounting)


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("body", [calls_super, converts_itself, makes_arrays], ids=lambda body: body.__name__)
def test_a_subclass_that_was_written_for_gymnasium_does_here_what_it_does_there(body: Any, kind: str) -> None:
    their_base, our_base, make = BASES[kind]
    results = []
    for base, convert in ((their_base, theirs), (our_base, ours)):
        env = make()
        wrapped: Any = body(base, convert)(env, np, torch)
        action = torch.ones(env.action_space.shape) * 3
        steps = [wrapped.reset(seed=1, options={"mask": torch.tensor([True])}), wrapped.step(action)]
        results.append((told(steps), told(env.given)))
    assert results[1] == results[0]


@pytest.mark.parametrize("kind", BASES)
def test_the_attributes_are_those_that_gymnasium_has(kind: str) -> None:
    their_base, our_base, make = BASES[kind]
    device = torch.device("cpu")
    for args, kwargs in (
        ((np, torch), {}),
        ((np, torch, None, device), {}),
        ((), {"env_xp": np, "target_xp": torch, "env_device": None, "target_device": device}),
        ((np,), {"target_xp": torch, "target_device": device}),
    ):
        wanted, found = (base(make(), *args, **kwargs) for base in (their_base, our_base))
        assert found._target_device == wanted._target_device
        assert found._env_device is wanted._env_device is None
        namespace = arrayferry.wrappers.array_conversion.module_namespace
        assert found._env_xp is namespace(wanted._env_xp)
        assert found._target_xp is namespace(wanted._target_xp)


@pytest.mark.parametrize("name", targets())
def test_the_namespaces_are_the_environments_and_the_agents(name: str) -> None:
    for wrapped in (ArrayConversion(Counting(), name, "numpy"), ArrayConversion(Counting(), "numpy", name)):
        assert arrayferry.Converter(wrapped._env_xp).framework is wrapped._boundary.state.to_env.framework
        assert arrayferry.Converter(wrapped._target_xp).framework is wrapped._boundary.outgoing.framework


def test_the_environments_namespace_is_what_is_assumed_until_it_is_learned() -> None:
    class InTorch(Counting):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return torch.zeros(2), {}

    wrapped = arrayferry.wrap(InTorch(), "numpy")
    assert wrapped._env_xp.__name__ == "array_api_compat.numpy"
    assert wrapped._env_device is None
    wrapped.reset()
    assert wrapped._env_xp.__name__ == "array_api_compat.torch"
    assert wrapped._env_device == torch.device("cpu")


def test_a_device_that_was_given_by_name_is_the_frameworks_own() -> None:
    wrapped = NumpyToTorch(Counting(), device="cpu")
    assert wrapped.device == "cpu"
    assert wrapped._target_device == torch.device("cpu")
    jax = pytest.importorskip("jax")
    given = ArrayConversion(Counting(), np, jax.numpy, target_device="cpu")
    assert given._target_device == jax.devices("cpu")[0]
    assert given._target_xp.zeros(2, device=given._target_device).shape == (2,)


# ---- copied, pickled, made again ----------------------------------------------------------------------


class Scaled(ArrayConversion[Any], RecordConstructorArgs):
    """As Gymnasium's documentation says it: record first."""

    def __init__(self, env: Any, scale: float) -> None:
        RecordConstructorArgs.__init__(self, scale=scale)
        super().__init__(env, env_xp=np, target_xp=torch)
        self.scale = scale

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return (obs * self.scale, *rest)


class ScaledPair(NumpyToTorch):
    """Takes what its base takes, and is recorded by it."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return (obs * 3.0, *rest)


class WithState(Scaled):
    """Says itself what is pickled, beside what its base says."""

    episodes = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.episodes += 1
        return super().reset(seed=seed, options=options)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "seen": self.episodes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.episodes = state["seen"] * 100


class ScaledVector(vector.NumpyToTorch):
    def step(self, actions: Any) -> Any:
        obs, *rest = super().step(actions)
        return (obs * 3.0, *rest)


def step_of(env: Any) -> Any:
    env.reset(seed=1)
    return told(env.step(torch.tensor(1))[0])


@pytest.mark.parametrize("remake", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy])
def test_subclasses_are_pickled_and_copied_whole(remake: Any) -> None:
    for make in (lambda env: Scaled(env, 3.0), ScaledPair, lambda env: ScaledPair(env, "cpu")):
        env = make(gym.make("CartPole-v1"))
        assert step_of(remake(env)) == step_of(env)
    envs = ScaledVector(ManyCounting())
    again = remake(envs)
    assert told(again.reset()) == told(envs.reset())
    assert told(again.step(torch.ones(3, 2))) == told(envs.step(torch.ones(3, 2)))


def test_a_subclass_may_say_what_is_pickled() -> None:
    env = WithState(gym.make("CartPole-v1"), 3.0)
    env.reset(seed=1)
    again = pickle.loads(pickle.dumps(env))
    assert (again.episodes, again.scale) == (100, 3.0)
    assert again._target_xp is env._target_xp
    assert type(again.reset(seed=1)[0]) is torch.Tensor


@pytest.mark.parametrize("make", [lambda env: Scaled(env, 3.0), lambda env: ScaledPair(env, device="cpu")])
def test_subclasses_are_made_again_from_their_spec(make: Any) -> None:
    env = make(gym.make("CartPole-v1"))
    again: Any = gym.make(env.spec)
    assert type(again) is type(env)
    assert step_of(again) == step_of(env)
    assert again.spec == env.spec
    assert type(gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))) is type(env)
