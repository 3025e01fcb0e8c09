"""EnvPool in compiled code: by its own functions, with the checks that they lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayferry
from arrayferry._in_jit import envpool as own

jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = pytest.mark.filterwarnings("ignore")


def make(task: str = "CartPole-v1", **options: Any) -> Any:
    envpool = pytest.importorskip("envpool")
    return envpool.make(task, env_type="gymnasium", seed=3, **{"num_envs": 4, **options})


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_a_rollout_equals_the_loop(task):
    bare, env, random = make(task), make(task), np.random.default_rng(1)
    is_pendulum = task == "Pendulum-v1"
    actions = random.uniform(-2, 2, (250, 4, 1)) if is_pendulum else random.integers(0, 2, (250, 4))
    assert own.own_step(env) is not None
    reset, step = arrayferry.in_jit(env, info=("elapsed_step",))

    @jax.jit
    def rollout(key: Any, actions: Any) -> Any:
        state, first = reset(key)
        return first, jax.lax.scan(step, state, actions)[1]

    first, values = rollout(jax.random.key(0), actions)
    assert np.array_equal(first, bare.reset()[0])
    for index, action in enumerate(actions):
        *expected, info = bare.step(action.astype(np.float32 if is_pendulum else np.int32))
        for mine, theirs in zip(values, [*expected, info["elapsed_step"]]):
            mine = mine["elapsed_step"] if isinstance(mine, dict) else mine
            assert np.array_equal(mine[index], theirs)
    assert (values[2] | values[3]).any()


def test_a_life_that_is_lost_ends_no_rollout():
    """There EnvPool counts on after the end of what is an episode to the agent."""
    reset, step = arrayferry.in_jit(make("Breakout-v5", episodic_life=True, max_episode_steps=60))
    state, _ = reset(jax.random.key(0))
    actions = np.random.default_rng(0).integers(0, 4, (150, 4))
    _, (_, _, terminated, truncated, _) = jax.jit(lambda *args: jax.lax.scan(step, *args))(state, actions)
    assert terminated.any()
    assert truncated.any()


@pytest.mark.parametrize("num_envs", [1, 4])
def test_a_state_is_used_once(num_envs):
    reset, step = arrayferry.in_jit(make(num_envs=num_envs))
    action = jnp.arange(num_envs) % 2
    ended = set()
    for count in range(14):  # before, at and after the end of an episode
        old, _ = reset(jax.random.key(0))
        for _ in range(count):
            old, (_, _, terminated, *_) = step(old, action)
            ended.add(bool(terminated.any()))
        new, _ = step(old, action)
        with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
            jax.block_until_ready(step(old, action))
        jax.block_until_ready(step(new, action))  # no step was taken with the old one
    assert ended == {False, True}


def test_what_it_would_take_for_an_action_is_refused():
    reset, step = arrayferry.in_jit(make())
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"action: float32\[4\] jax where int32\[4\]"):
        step(state, jnp.zeros(4))
    with pytest.raises(arrayferry.FerryError, match=r"action: int32\[3\] jax where int32\[4\]"):
        step(state, jnp.zeros(3, int))
    with pytest.raises(arrayferry.FerryError, match="step cannot be under vmap"):
        jax.vmap(step, (None, 0))(state, jnp.zeros((2, 4), int))
    with pytest.raises(arrayferry.FerryError, match="reset cannot be under vmap"):
        jax.vmap(reset)(jax.random.split(jax.random.key(0)))
    with pytest.raises(arrayferry.FerryError, match=r"no info 'lives'[\s\S]*elapsed_step"):
        arrayferry.in_jit(make(), info=("lives",))
    with pytest.raises(arrayferry.FerryError, match="without batch_size"):
        arrayferry.in_jit(make(batch_size=2))
    reset, step = arrayferry.in_jit(make("Pendulum-v1"))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"step has no gradient[\s\S]*stop_gradient"):
        jax.grad(lambda action: step(state, action)[1][1].sum())(jnp.zeros((4, 1)))


def test_a_state_of_another_environment_is_refused():
    """Even of another task, whose observations would not fit into this one's memory."""
    (reset, step), (other, _) = arrayferry.in_jit(make()), arrayferry.in_jit(make("Acrobot-v1"))
    theirs, _ = other(jax.random.key(0))
    state, _ = reset(jax.random.key(0))
    for use in (lambda: step(theirs, jnp.zeros(4, int)), lambda: reset(jax.random.key(0), theirs)):
        with pytest.raises(arrayferry.FerryError, match="this state belongs to another environment"):
            use()
    jax.block_until_ready(step(state, jnp.zeros(4, int)))


CHANGES = {
    "reset": lambda env: env.reset(),
    "step": lambda env: env.step(np.zeros(4, np.int32)),
    "send and recv": lambda env: (env.send(np.zeros(4, np.int32)), env.recv()),
    "in_jit": lambda env: jax.block_until_ready(arrayferry.in_jit(env)[0](jax.random.key(0))),
}


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_state_is_refused_whoever_changed_the_environment_since(change, steps):
    env = make()
    reset, step = arrayferry.in_jit(env)
    state, _ = reset(jax.random.key(0))
    for _ in range(steps):
        state, _ = step(state, jnp.zeros(4, int))
    change(env)
    for _ in range(steps):  # as many as before
        env.step(np.zeros(4, np.int32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
        jax.block_until_ready(step(state, jnp.zeros(4, int)))
    state, _ = reset(jax.random.key(0))
    jax.block_until_ready(step(state, jnp.zeros(4, int)))


def test_an_autoreset_that_it_does_not_make_is_refused():
    with pytest.raises(arrayferry.FerryError, match="autoreset=True, but this vector environment"):
        arrayferry.in_jit(make(), autoreset=True)


def test_a_number_is_no_key():
    reset, _ = arrayferry.in_jit(make())
    with pytest.raises(arrayferry.FerryError, match=r"key: int32\[\] jax is not a key"):
        reset(0)


@pytest.mark.parametrize("action", [[0, 1, 2, 0], [0, -1, 0, 0]])
def test_an_integer_out_of_range_is_refused(action):
    reset, step = arrayferry.in_jit(make())
    state, _ = reset(jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="action: an integer outside its space"):
        jax.block_until_ready(step(state, jnp.array(action)))
    jax.block_until_ready(step(state, jnp.zeros(4, int)))  # no step was taken before
    with jax.enable_x64(True):
        state, _ = reset(jax.random.key(0))
        with pytest.raises(jax.errors.JaxRuntimeError, match="action: an integer outside its space"):
            jax.block_until_ready(step(state, jnp.array([2**32, 0, 0, 0])))


@pytest.mark.parametrize("action", [{"foo": 0}, {"action": 0, "foo": 0}, {"action": (0,)}, {}], ids=str)
def test_an_action_of_other_parts_is_refused(action):
    reset, step = arrayferry.in_jit(make())
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"action: .* where \['action'\] was declared"):
        step(state, jax.tree.map(lambda _: jnp.zeros(4, int), action))
    jax.block_until_ready(step(state, {"action": jnp.zeros(4, int)}))


def test_its_doubles_never_go_into_the_memory_of_floats():
    """EnvPool's MuJoCo has float64: without x64 its steps are callbacks, with x64 its own."""
    bare = make("HalfCheetah-v5")
    bare.reset()
    action = np.full((4, 6), 0.5)
    expected = bare.step(action)
    for x64 in (False, True):
        with jax.enable_x64(x64):
            env = make("HalfCheetah-v5")
            assert (own.own_step(env) is not None) is x64
            reset, step = arrayferry.in_jit(env)
            state, _ = reset(jax.random.key(0))
            _, (obs, reward, *_) = step(state, action)
            assert obs.dtype == (np.float64 if x64 else np.float32)
            assert np.array_equal(obs, expected[0].astype(obs.dtype))
            assert np.array_equal(reward, expected[1])
