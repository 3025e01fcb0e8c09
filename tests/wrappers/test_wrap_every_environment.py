"""Every environment that Gymnasium registers: 100 steps, equal value by value to the bare environment.

A sample of them here; all of them, those of other packages too, under `make stress`.
"""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry.wrappers import vector
from helpers.compare import assert_crossed, seen

SAMPLE = [
    "Acrobot-v1",
    "Blackjack-v1",
    "CartPole-v1",
    "CliffWalking-v1",
    "FrozenLake8x8-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Taxi-v4",
    "phys2d/Pendulum-v0",
    "tabular/CliffWalking-v0",
]
# Of packages that register their environments when they are imported.
ELSEWHERE = {
    "ALE/Pong-v5": "ale_py",
    "ALE/Breakout-v5": "ale_py",
    "MiniGrid-Empty-5x5-v0": "minigrid",
    "MiniGrid-DoorKey-5x5-v0": "minigrid",
}


def newest() -> list[str]:
    """The latest version of each registered environment, without the tests' own and shells for old Gyms."""
    latest: dict[tuple[Any, str], Any] = {}
    for spec in gym.registry.values():
        key = (spec.namespace, spec.name)
        if callable(spec.entry_point) or spec.name.startswith("GymV"):
            continue
        if key not in latest or latest[key].version < spec.version:
            latest[key] = spec
    return sorted(spec.id for spec in latest.values())


def environments() -> list[Any]:
    rest = [name for name in (*newest(), *ELSEWHERE) if name not in SAMPLE]
    return [*SAMPLE, *(pytest.param(name, marks=pytest.mark.stress) for name in rest)]


def made(make: Any, name: str, **options: Any) -> Any:
    if name in ELSEWHERE:
        pytest.importorskip(ELSEWHERE[name])
    try:
        with warnings.catch_warnings():
            # What Gymnasium thinks of an environment is not what is tested here.
            warnings.simplefilter("ignore")
            return make(name, **options)
    except (gym.error.DependencyNotInstalled, ImportError, AttributeError) as error:
        pytest.skip(f"not installed here: {error}")


every_environment = pytest.mark.parametrize("name", environments())
torch_and_jax = pytest.mark.parametrize("framework", ["torch", "jax"])


@every_environment
@torch_and_jax
def test_single(name: str, framework: str) -> None:
    pytest.importorskip(framework)
    bare, base = (made(gym.make, name, disable_env_checker=True) for _ in range(2))
    env = arrayferry.wrap(base, framework)
    bare.action_space.seed(1)
    assert_crossed(env.reset(seed=1), bare.reset(seed=1), framework, "reset")
    for number in range(100):
        action = bare.action_space.sample()
        want = bare.step(action)
        got = env.step(arrayferry.convert(action, framework))
        assert_crossed(got[0], want[0], framework, f"obs {number}")
        assert_crossed(got[4], want[4], framework, f"info {number}")
        assert got[1:4] == (float(want[1]), bool(want[2]), bool(want[3])), number
        assert [type(item) for item in got[1:4]] == [float, bool, bool]
        if want[2] or want[3]:
            assert_crossed(env.reset(), bare.reset(), framework, f"reset {number}")
    bare.close()
    env.close()


@every_environment
@torch_and_jax
def test_vector(name: str, framework: str) -> None:
    pytest.importorskip(framework)
    bare, base = (made(gym.make_vec, name, num_envs=2) for _ in range(2))
    env = vector.ArrayConversion(base, None, framework)  # wrap would replace phys2d's, which lose steps
    bare.action_space.seed(2)
    assert_crossed(env.reset(seed=2), bare.reset(seed=2), framework, "reset")
    for number in range(100):
        action = bare.action_space.sample()
        want = bare.step(action)
        got = env.step(arrayferry.convert(action, framework))
        assert_crossed(got, want, framework, f"step {number}")
        assert seen(got[2]).dtype == np.bool_
    bare.close()
    env.close()
