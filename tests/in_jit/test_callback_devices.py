"""`in_jit` in programs of their own: on several devices, and at the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent

import pytest

pytest.importorskip("jax")

START = """
import threading
import gymnasium as gym, jax, jax.numpy as jnp, numpy as np
import arrayferry
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def make():
    return gym.make_vec("CartPole-v1", 4, "sync")

reset, step = arrayferry.in_jit(make())
"""


def run(program: str, devices: int = 1) -> str:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, "-c", START + dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_rollout_on_several_devices_equals_the_loop() -> None:
    program = """
        assert jax.device_count() == 4
        mesh = Mesh(jax.devices(), ("x",))
        weights = jax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, P("x")))

        @jax.jit
        def rollout(key, weights):
            def body(carry, _):
                state, obs = carry
                action = ((obs @ weights).sum(1) > 0).astype(int)
                state, (obs, *rest) = step(state, action)
                return (state, obs), (action, obs, *rest)

            return jax.lax.scan(body, reset(key), None, length=30)

        (state, obs), (actions, *values) = rollout(jax.random.key(0), weights)
        envs = make()
        envs.reset(seed=int(jax.random.bits(jax.random.key(0), dtype="uint32") >> 1))
        for index, action in enumerate(np.asarray(actions)):
            for mine, theirs in zip(values, envs.step(action)[:4]):
                assert np.array_equal(mine[index], theirs.astype(mine.dtype)), index
        state, _ = step(state, jnp.zeros(4, int))
        (state, _), _ = jax.jit(lambda *args: (step(*args), 0))(state, jax.device_put(
            jnp.zeros(4, int), NamedSharding(mesh, P("x"))))
        print(len(actions))
    """
    assert run(program, devices=4) == "30"


@pytest.mark.parametrize("devices", [1, 4])
def test_pmap_and_shard_map_are_refused(devices: int) -> None:
    program = """
        mesh = Mesh(jax.devices(), ("x",))
        count = jax.device_count()
        keys = jax.random.split(jax.random.key(0), count)
        state, _ = reset(jax.random.key(0))
        actions = jnp.zeros((count, 4), int)
        over_keys = dict(mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        programs = {
            "reset": [
                lambda: jax.pmap(lambda key: reset(key)[1])(keys),
                lambda: jax.pmap(lambda key: reset(key)[1], axis_name="i")(keys),
                lambda: jax.shard_map(lambda key: reset(key[0])[1], **over_keys)(keys),
                lambda: jax.jit(jax.shard_map(lambda key: reset(key[0])[1], **over_keys))(keys),
            ],
            "step": [
                lambda: jax.pmap(lambda action: step(state, action)[1][0])(actions),
                lambda: jax.shard_map(lambda action: step(state, action[0])[1][0], **over_keys)(actions),
            ],
        }
        for name, calls in programs.items():
            for call in calls:
                try:
                    jax.block_until_ready(call())
                except arrayferry.FerryError as error:
                    assert f"{name} cannot be under pmap or shard_map" in str(error), error
                    assert error.hint
                else:
                    raise AssertionError(name)
        jax.block_until_ready(step(state, jnp.zeros(4, int)))  # nothing was stepped
        obs = jax.vmap(lambda row: row * 2, axis_name="i")(reset(jax.random.key(0))[1])
        print(obs.shape)
    """
    assert run(program, devices) == "(4, 4)"


@pytest.mark.parametrize("work", ["pass", "time.sleep(0.005)"], ids=["quick", "slow"])
@pytest.mark.parametrize("devices", [1, 2], ids=["buffers", "io"])
def test_an_exit_in_the_middle_of_rollouts_does_not_abort(devices: int, work: str) -> None:
    program = f"""
        import time
        started = [threading.Event(), threading.Event()]

        class Slow(gym.Env):
            observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)

            def __init__(self, started):
                self.started, self.count = started, 0

            def reset(self, *, seed=None, options=None):
                return np.zeros(2, np.float32), {{}}

            def step(self, action):
                {work}
                self.count += 1
                if self.count > 20:
                    self.started.set()
                return np.zeros(2, np.float32), 0.0, False, False, {{}}

        def roll(started):
            reset, step = arrayferry.in_jit(Slow(started))
            go = jax.jit(lambda key: jax.lax.scan(lambda s, _: step(s, 0), reset(key)[0], None, 200)[1][1])
            while True:
                go(jax.random.key(0)).block_until_ready()

        for event in started:
            threading.Thread(target=roll, args=(event,), daemon=True).start()
        assert all(event.wait(60) for event in started)
        print("ends")
    """
    assert run(program, devices) == "ends"


def test_what_the_program_itself_has_started_is_finished_at_exit() -> None:
    program = """
        class Told(gym.Env):
            observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                return np.zeros(2, np.float32), {}

            def step(self, action):
                if action == 1:
                    print("the last step", flush=True)
                return np.zeros(2, np.float32), 0.0, False, False, {}

        reset, step = arrayferry.in_jit(Told())
        actions = jnp.zeros(500, int).at[-1].set(1)
        go = jax.jit(lambda key: jax.lax.scan(step, reset(key)[0], actions)[1][1])
        go(jax.random.key(0))
    """
    assert run(program) == "the last step"


@pytest.mark.parametrize("devices", [1, 2], ids=["buffers", "io"])
def test_the_environment_has_the_x64_of_the_code_around_it(devices: int) -> None:
    program = """
        from gymnasium.envs.phys2d.cartpole import CartPoleFunctional
        from arrayferry.envs import as_gymnasium

        enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        over_devices = NamedSharding(Mesh(jax.devices(), ("x",)), P("x"))
        for is_wide in (True, False):
            jax.config.update("jax_enable_x64", not is_wide)
            with enable_x64(is_wide):
                env, same = (as_gymnasium(CartPoleFunctional()) for _ in range(2))
                reset, step = arrayferry.in_jit(env)

                @jax.jit
                def rollout(key, weights):
                    def body(state, _):
                        state, (obs, *_) = step(state, (weights.sum() > 0).astype(int))
                        return state, obs

                    return jax.lax.scan(body, reset(key)[0], None, length=5)[1]

                key = jax.random.key(0)
                obs = np.asarray(rollout(key, jax.device_put(jnp.ones(2), over_devices)))
                same.reset(seed=int(jax.random.bits(key, dtype="uint32") >> 1))
                assert np.array_equal(obs, [same.step(1)[0] for _ in obs])
            assert jax.config.jax_enable_x64 != is_wide
        print(len(obs))
    """
    assert run(program, devices) == "5"
