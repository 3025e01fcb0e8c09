"""Environments written in JAX, stepped from torch: arrayferry, the package's own loop, and TorchRL.

Each rival steps the same environments in the same process, by turns. The native loops are one compiled call
per step, as the package's documentation has it: one of them reads observation, reward and dones in every
step and gets its actions from the host, as any learner outside of JAX must; the other reads nothing and has
its actions on the device already.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import brax.envs
import gymnax
import jax
import numpy as np
import torch
from measure import measure

import arrayferry

SIZES = (1, 64, 1024, 4096)

Step = Callable[[], Any]


def loop(init: Callable[[Any], Any], step: Callable[..., Any], actions: Any, reads: bool) -> Step:
    """A native loop: `init(key)` gives the state, `step(key, state, action)` the next and what to read."""
    keys = jax.random.PRNGKey(0)
    state, step = jax.jit(init)(keys), jax.jit(step)
    turns = cycle(actions if reads else [jax.device_put(one) for one in actions])

    count = 0

    def run() -> None:
        nonlocal keys, state, count
        keys, state, *outputs = step(keys, state, next(turns))
        count += 1
        if reads:
            for output in outputs:
                np.asarray(output)
        elif count % 16 == 0:  # or the work would pile up, and be done in the time of the next rival
            jax.block_until_ready(outputs)

    return run


def ours(env: Any, count: int, actions: Any) -> Step:
    """The environments through `wrap`, with actions of torch."""
    wrapped: Any = arrayferry.wrap(env, "torch", num_envs=None if count == 1 else count)
    wrapped.reset(seed=0)
    turns = cycle([torch.from_numpy(one) for one in actions])

    def run() -> None:
        _, _, terminated, truncated, _ = wrapped.step(next(turns))
        if count == 1 and (terminated or truncated):
            wrapped.reset()

    return run


def cart_pole(count: int) -> dict[str, Step]:
    """The rivals for gymnax's CartPole."""
    env, params = gymnax.make("CartPole-v1")
    many = count > 1
    shape = (99, count) if many else (99,)
    actions = [np.asarray(one) for one in np.random.default_rng(0).integers(2, size=shape).astype(np.int32)]

    def init(key: Any) -> Any:
        return (
            jax.vmap(env.reset, (0, None))(jax.random.split(key, count), params)[1]
            if many
            else env.reset(key)[1]
        )

    def step(key: Any, state: Any, action: Any) -> Any:
        key, step_key = jax.random.split(key)
        if many:
            keys = jax.random.split(step_key, count)
            obs, state, reward, *dones, _ = jax.vmap(env.step, (0, 0, 0, None))(keys, state, action, params)
        else:
            obs, state, reward, *dones, _ = env.step(step_key, state, action, params)
        return key, state, obs, reward, *dones

    return _rivals((env, params), count, init, step, actions)


def fast(count: int) -> dict[str, Step]:
    """The rivals for Brax's "fast", TorchRL's own adapter among them."""
    env = brax.envs.get_environment("fast")
    many = count > 1
    shape = (99, count, 1) if many else (99, 1)
    actions = [*np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)]

    def init(key: Any) -> Any:
        return jax.vmap(env.reset)(jax.random.split(key, count)) if many else env.reset(key)

    def step(key: Any, state: Any, action: Any) -> Any:
        state = (jax.vmap(env.step) if many else env.step)(state, action)
        return key, state, state.obs, state.reward, state.done

    rivals = _rivals(env, count, init, step, actions)
    try:
        from torchrl.envs import BraxEnv
    except ImportError:
        return rivals
    theirs = BraxEnv("fast", batch_size=[count] if many else [])
    data = theirs.reset()
    data["action"] = torch.from_numpy(actions[0])
    return rivals | {"TorchRL": partial(theirs.step, data)}


def _rivals(env: Any, count: int, init: Any, step: Any, actions: Any) -> dict[str, Step]:
    return {
        "native, unread": loop(init, step, actions, reads=False),
        "native, read": loop(init, step, actions, reads=True),
        "arrayferry": ours(env, count, actions),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the seconds per step here")
    parser.add_argument("--laps", type=int, default=150)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name, rivals in {"gymnax CartPole-v1": cart_pole, "brax fast": fast}.items():
        for count in arguments.sizes:
            seconds = measure(rivals(count), arguments.laps, 0.005)
            results[f"{name}, {count}"] = seconds
            best = seconds["arrayferry"]
            shares = "  ".join(
                f"{rival} {seconds[rival] / best:5.2f}" for rival in seconds if rival != "arrayferry"
            )
            print(f"{name:20} {count:5}  {count / best:12,.0f} steps/s   of: {shares}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
