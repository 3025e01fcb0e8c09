"""`get_state` and `set_state` of environments in JAX: everything after a state comes again, bit for bit."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry.envs import Interface, as_gymnasium, as_parallel, register_environment

jax = pytest.importorskip("jax")
cartpole = pytest.importorskip("gymnasium.envs.phys2d.cartpole")

MODES = ["NextStep", "SameStep", "Disabled"]


class Relay:
    """Two agents, one of whom leaves after the first step; rewards count the steps."""


def relay(env: Relay, params: Any) -> Interface:
    def step(key: Any, time: Any, action: Any) -> Any:
        time = time + 1
        over = np.array([True, False])
        return time, dict.fromkeys("ab", time), np.ones(2) * time, over, over & False, {}

    actions = gym.spaces.Dict(dict.fromkeys("ab", gym.spaces.Discrete(2)))
    return Interface(lambda key: (0, dict.fromkeys("ab", 0), {}), step, None, actions, agents=("a", "b"))


register_environment(Relay, relay)


def make(count: int | None = None, mode: str = "SameStep") -> Any:
    options = {} if count is None else {"num_envs": count, "autoreset_mode": mode}
    return as_gymnasium(cartpole.CartPoleFunctional(), max_episode_steps=13, **options)


def roll_out(envs: Any, steps: int, seed: int = 0) -> list[Any]:
    """Return the results of steps, and of resets where environments need them, as plain data."""
    mode = envs.metadata.get("autoreset_mode", AutoresetMode.DISABLED)
    envs.action_space.seed(seed)
    results = []
    for _ in range(steps):
        results.append(envs.step(envs.action_space.sample()))
        over = np.logical_or(*results[-1][2:4])
        if over.any() and mode is AutoresetMode.DISABLED:
            results.append(envs.reset(options={"reset_mask": over} if over.shape else None))
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(arrayferry.convert(results, "numpy"))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [None, 1, 5])
def test_a_rollout_comes_again(count: int | None, mode: str) -> None:
    envs = make(count, mode)
    envs.reset(seed=3)
    roll_out(envs, 9)
    state = envs.get_state()
    first = roll_out(envs, 40, seed=1)
    for other in (envs, make(count, mode)):  # also one that was never reset
        for _ in range(2):
            other.set_state(state)
            assert roll_out(other, 40, seed=1) == first


@pytest.mark.parametrize("mode", MODES)
def test_a_mask_says_which_environments_go_on_from_it(mode: str) -> None:
    envs = make(4, mode)
    envs.reset(seed=3)
    state = envs.get_state()
    for _ in range(3):
        envs.step(np.zeros(4, int))
    before = envs.get_state()
    mask = np.array([True, False, False, True])
    envs.set_state(state, mask)
    for new, old, now in zip(*map(jax.tree.leaves, (state, before, envs.get_state()))):
        assert np.array_equal(np.asarray(now)[mask], np.asarray(new)[mask])
        assert np.array_equal(np.asarray(now)[~mask], np.asarray(old)[~mask])
    envs.set_state(before, ~mask)
    envs.set_state(state, mask)
    envs.step(np.zeros(4, int))


def test_a_state_outlives_steps() -> None:
    """A step takes over the memory of the carry, and not that of a state."""
    envs = make(3)
    envs.reset(seed=0)
    state = envs.get_state()
    envs.set_state(state)
    envs.step(np.zeros(3, int))
    envs.set_state(state, np.array([True, False, True]))
    envs.step(np.zeros(3, int))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    envs.set_state(jax.tree.map(np.asarray, state))  # as it comes back from a file
    envs.step(np.zeros(3, int))


def test_wrapped_environments_have_it() -> None:
    torch = pytest.importorskip("torch")
    envs = arrayferry.wrap(cartpole.CartPoleFunctional(), "torch", num_envs=3)
    envs.reset(seed=0)
    state = envs.get_state()
    first = envs.step(torch.zeros(3, dtype=torch.int64))[0]
    envs.set_state(state)
    assert torch.equal(envs.step(torch.zeros(3, dtype=torch.int64))[0], first)


@pytest.mark.parametrize("spoil", ["count", "kind", "part", "dtype"])
def test_other_states_are_refused(spoil: str) -> None:
    envs = make(3)
    envs.reset(seed=0)
    other = make(2) if spoil == "count" else make() if spoil == "kind" else envs
    other.reset(seed=0)
    state = other.get_state()
    state = {
        "part": lambda: state[0],
        "dtype": lambda: jax.tree.map(lambda leaf: np.asarray(leaf, bool), state),
    }.get(spoil, lambda: state)()
    with pytest.raises(arrayferry.errors.OptionError, match="not a state of CartPoleFunctional"):
        envs.set_state(state)
    assert envs.step(np.zeros(3, int))[0].shape == (3, 4)


def test_masks_are_checked() -> None:
    envs = make(3)
    envs.reset(seed=0)
    state = envs.get_state()
    with pytest.raises(arrayferry.errors.OptionError, match="pass 3 bools"):
        envs.set_state(state, [True, False])


@pytest.mark.parametrize("name", ["get_state", "set_state"])
def test_other_environments_have_no_state_to_give(name: str) -> None:
    envs = arrayferry.wrap(gym.make_vec("CartPole-v1", num_envs=2), "numpy")
    assert not hasattr(envs, name)
    with pytest.raises(arrayferry.FerryError, match=rf"has no {name}\(\)[\s\S]*Hint: use copy.deepcopy"):
        getattr(envs, name)


def test_agents_that_have_left_come_back() -> None:
    """The state of an environment with many agents says which of them are still there."""
    pytest.importorskip("pettingzoo")
    env = as_parallel(Relay())
    env.reset(seed=0)
    everyone, state = dict.fromkeys("ab", 0), env.get_state()
    first = env.step(everyone)
    assert env.agents == ["b"]
    later = env.get_state()
    for other in env, as_parallel(Relay()):
        other.set_state(state)
        assert other.agents == ["a", "b"]
        assert other.step(everyone) == first
        other.set_state(later)
        assert other.agents == ["b"]
        assert other.step({"b": 0})[1] == {"b": 2.0}
    with pytest.raises(arrayferry.errors.OptionError, match="not a state of Environment"):
        env.set_state(state[0])
