"""What a step inside `jax.jit` takes, against the Python loop, the bare environment and an empty callback.

One interleaved run on CartPole, the least of many laps, in microseconds per step: of the clock, and of the
processor, which are all threads of this program and no other. There are two comparisons:

- given actions: all of them are there before the first step, which is no rollout that anybody needs.
- with a policy: a small actor network (two layers of 64) makes logits of the observation, and an action is
  sampled from them. In the loop that is one compiled call per step; inside `jax.jit` it is traced.

    python benchmarks/in_jit.py [--laps 80]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import arrayferry
from arrayferry import _in_jit
from arrayferry._in_jit.callback import by_buffers
from arrayferry._in_jit.host import Host
from arrayferry._in_jit.turns import STATE

Lap = Callable[[], Any]

KEY = jax.random.PRNGKey(0)  # calls with a key of the newer type take longer, which would favour us
WEIGHTS = [jax.random.normal(KEY, shape) / shape[0] ** 0.5 for shape in ((4, 64), (64, 64), (64, 2))]


def make(num_envs: int) -> Any:
    if not num_envs:
        return gym.make("CartPole-v1")
    mode = "vector_entry_point" if num_envs > 100 else "sync"
    return gym.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode=mode)


def policy(weights: list[Any], key: Any, obs: Any) -> tuple[Any, Any]:
    """Return the next key, and actions that are sampled from the logits of a small actor network."""
    *hidden, last = weights
    for weight in hidden:
        obs = jnp.tanh(obs @ weight)
    key, used = jax.random.split(key)
    return key, jax.random.categorical(used, obs @ last)


def loop(env: Any, actions: list[Any]) -> Lap:
    def lap() -> Any:
        env.reset(seed=0)
        for action in actions:
            obs, _, terminated, truncated, _ = env.step(action)
            if terminated is True or truncated is True:
                env.reset()
        return obs

    return lap


def loop_with_policy(env: Any, steps: int) -> Lap:
    act = jax.jit(policy)

    def lap() -> Any:
        key = KEY
        obs, _ = env.reset(seed=0)
        for _ in range(steps):
            key, action = act(WEIGHTS, key, obs)
            obs, _, terminated, truncated, _ = env.step(action)
            if terminated is True or truncated is True:
                obs, _ = env.reset()
        return obs

    return lap


def functions(num_envs: int, via_io_callback: bool) -> Any:
    found = _in_jit.buffers_work
    _in_jit.buffers_work = (lambda: False) if via_io_callback else found
    try:
        return arrayferry.in_jit(make(num_envs), autoreset=not num_envs)  # a vector has its own
    finally:
        _in_jit.buffers_work = found


def compiled(num_envs: int, actions: Any, via_io_callback: bool) -> Lap:
    reset, step = functions(num_envs, via_io_callback)
    rollout = jax.jit(lambda key, actions: jax.lax.scan(step, reset(key)[0], actions)[1])
    return lambda: rollout(KEY, actions)


def compiled_with_policy(num_envs: int, steps: int, via_io_callback: bool) -> Lap:
    reset, step = functions(num_envs, via_io_callback)

    @jax.jit
    def rollout(weights: list[Any], key: Any) -> Any:
        def body(carry: Any, _: None) -> Any:
            key, state, obs = carry
            key, action = policy(weights, key, obs)
            state, values = step(state, action)
            return (key, state, values[0]), values

        return jax.lax.scan(body, (key, *reset(key)), None, steps)[1]

    return lambda: rollout(WEIGHTS, KEY)


def empty(num_envs: int, actions: Any) -> Lap:
    """Call a function that does nothing, with the arrays of a step."""
    declared = [STATE, *Host(make(num_envs), {}, False).values.leaves]

    def step(state: Any, action: Any) -> Any:
        new, *rest = by_buffers(lambda *arrays: None, declared, state, action)
        return new, rest

    start = jnp.zeros(STATE.shape, STATE.dtype)
    rollout = jax.jit(lambda actions: jax.lax.scan(step, start, actions)[1])
    return lambda: rollout(actions)


def measure(laps: dict[str, Lap], count: int, steps: int) -> dict[str, tuple[float, float]]:
    """Return the least microseconds per step of each lap, of the clock and of the processor."""
    for lap in laps.values():
        jax.block_until_ready(lap())
    least = dict.fromkeys(laps, (float("inf"), float("inf")))
    for _ in range(count):
        for name, lap in laps.items():
            clock, processor = time.perf_counter(), time.process_time()
            jax.block_until_ready(lap())
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            least[name] = (min(least[name][0], clock), min(least[name][1], processor))
    return {name: (one / steps * 1e6, other / steps * 1e6) for name, (one, other) in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--laps", type=int, default=80)
    options = parser.parse_args()
    for num_envs, steps in ((0, 500), (16, 128), (1024, 128)):
        drawn = np.random.default_rng(0).integers(0, 2, (steps, num_envs) if num_envs else steps)
        actions = jnp.asarray(drawn)
        given: dict[str, Lap] = {
            'loop with wrap(env, "jax")': loop(arrayferry.wrap(make(num_envs), "jax"), list(actions)),
            "in_jit by buffer_callback": compiled(num_envs, actions, via_io_callback=False),
            "in_jit by io_callback": compiled(num_envs, actions, via_io_callback=True),
            "bare environment": loop(make(num_envs), list(drawn)),
            "empty buffer_callback": empty(num_envs, actions),
        }
        sampled: dict[str, Lap] = {
            'loop with wrap(env, "jax")': loop_with_policy(arrayferry.wrap(make(num_envs), "jax"), steps),
            "in_jit by buffer_callback": compiled_with_policy(num_envs, steps, via_io_callback=False),
            "in_jit by io_callback": compiled_with_policy(num_envs, steps, via_io_callback=True),
        }
        for title, laps in (("given actions", given), ("with a policy", sampled)):
            print(f"{num_envs or 'single'}, {title}:", flush=True)
            found = measure(laps, options.laps, steps)
            rival = found['loop with wrap(env, "jax")']
            for name, took in found.items():
                texts = [f"{one:7.1f} us {one / other:5.2f}x" for one, other in zip(took, rival)]
                print(f"  {name:28} clock {texts[0]}   processor {texts[1]}", flush=True)


if __name__ == "__main__":
    main()
