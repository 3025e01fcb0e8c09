"""A call to the host in compiled code: what transforms may and may not do with it."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from in_jit.helpers import BOX, Scripted, counting, rollout

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("compiled_quickly", "way")


def test_unused_results_are_steps_too() -> None:
    env = Scripted(BOX, counting)
    reset, step = arrayferry.in_jit(env)

    @jax.jit
    def run(key: Any) -> Any:
        state, _ = reset(key)
        for action in range(5):
            state, _ = step(state, jnp.float32(action))
        return key

    jax.block_until_ready(run(jax.random.key(0)))
    jax.effects_barrier()
    assert env.actions == [0, 1, 2, 3, 4]


def test_vmap_is_refused() -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting))
    with pytest.raises(arrayferry.FerryError, match=r"reset cannot be under vmap[\s\S]*vector environment"):
        jax.vmap(reset)(jax.random.split(jax.random.key(0)))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match="step cannot be under vmap"):
        jax.vmap(step, in_axes=(None, 0))(state, jnp.ones(2))


def test_gradients_end_at_the_environment() -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"step has no gradient[\s\S]*stop_gradient"):
        jax.grad(lambda action: step(state, action)[1][0].sum())(1.0)

    @jax.grad
    def loss(weight: Any) -> Any:
        state, obs = reset(jax.random.key(0))

        def body(carry: Any, _: Any) -> Any:
            state, obs = carry
            state, (new, reward, *_) = step(state, jax.lax.stop_gradient(weight * obs[0]))
            return (state, new), weight * new.sum() + reward

        return jax.lax.scan(body, (state, obs), None, 3)[1].sum()

    assert loss(1.0) == 2 * (1 + 2 + 3)


def test_a_step_is_not_exported() -> None:
    from jax import export

    reset, step = arrayferry.in_jit(Scripted(BOX, counting))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(Exception, match="callback"):
        export.export(step)(state, jnp.float32(1)).serialize()


def test_x64_keeps_what_the_space_declares() -> None:
    with jax.enable_x64(True):
        space = spaces.Box(0, 2.0**50, (1,), np.int64)
        reset, step = arrayferry.in_jit(Scripted(space, lambda n: np.array([2**40 + n])))
        _, (obs, reward, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(2))
    assert obs[:, 0].tolist() == [2**40 + 1, 2**40 + 2]
    assert reward.dtype == np.float64


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the state is another one in each callback")
def test_the_threads_of_xla_keep_their_python_state() -> None:
    """A state that is made anew for each callback costs more than a step."""
    threads, local, states = set(), threading.local(), []

    class Asking(Scripted):
        def step(self, action: Any) -> Any:
            threads.add(threading.get_native_id())
            if not hasattr(local, "is_known"):
                local.is_known = True
                states.append(1)
            return super().step(action)

    reset, step = arrayferry.in_jit(Asking(BOX, counting))
    run = jax.jit(lambda key, actions: jax.lax.scan(step, reset(key)[0], actions)[1][0])
    # XLA waits for actions that are not there yet in a thread of its own, and goes on there.
    later = jax.jit(lambda x: 0 * jax.lax.fori_loop(0, 30, lambda _, one: jnp.tanh(one @ one), x)[0, :50])
    for _ in range(3):
        run(jax.random.key(0), later(jnp.ones((300, 300)))).block_until_ready()
    assert len(states) == len(threads)
