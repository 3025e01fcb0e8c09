"""PPO in JAX, all of it in one `jax.jit`, on MuJoCo's InvertedPendulum, which is not written in JAX.

The environments are stepped inside the compiled loop; nothing else is known of them there.

    pip install "arrayferry[jax]" gymnasium[mujoco] optax
    python examples/ppo_in_jit.py [--quick]
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import optax
from gymnasium.vector import AutoresetMode

import arrayferry

ENVS, STEPS, EPOCHS, BATCHES = 8, 128, 4, 4
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


def layers(key: jax.Array, *sizes: int) -> list[Any]:
    """Make the weights of a network without biases."""
    keys = jax.random.split(key, len(sizes))
    return [jax.nn.initializers.orthogonal()(key, shape) for key, *shape in zip(keys, sizes, sizes[1:])]


def apply(weights: list[Any], x: Any) -> Any:
    """Apply a network to observations."""
    for weight in weights[:-1]:
        x = jnp.tanh(x @ weight)
    return x @ weights[-1]


def log_probability(parameters: Any, obs: Any, action: Any) -> Any:
    """Return the log-probability of a normal distribution, up to a constant."""
    spread = parameters["spread"]
    return -(((action - apply(parameters["actor"], obs)) / jnp.exp(spread)) ** 2 / 2 + spread).sum(-1)


def train(envs: Any, updates: int, seed: int = 0) -> Any:
    """Train an agent in a compiled loop; return the mean length of the episodes of each update."""
    reset, step = arrayferry.in_jit(envs)
    ins, outs = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-3))

    def loss(parameters: Any, batch: Any) -> Any:
        obs, action, old, advantage, target = batch
        ratio = jnp.exp(log_probability(parameters, obs, action) - old)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
        return ((apply(parameters["critic"], obs)[:, 0] - target) ** 2).mean() - gain.mean()

    def one_step(carry: Any, key: jax.Array) -> Any:
        parameters, state, obs = carry
        noise = jnp.exp(parameters["spread"]) * jax.random.normal(key, (ENVS, outs))
        action = apply(parameters["actor"], obs) + noise
        state, (new, reward, terminated, truncated, _) = step(state, action)
        value, chance = apply(parameters["critic"], obs)[:, 0], log_probability(parameters, obs, action)
        return (parameters, state, new), (obs, action, chance, value, reward, terminated | truncated)

    def advantage_of(carry: Any, values: Any) -> Any:
        advantage, after = carry
        value, reward, done = values
        advantage = reward + GAMMA * after * ~done - value + GAMMA * LAMBDA * advantage * ~done
        return (advantage, value), advantage

    def learn(carry: Any, batch: Any) -> Any:
        parameters, memory = carry
        changes, memory = optimizer.update(jax.grad(loss)(parameters, batch), memory)
        return (optax.apply_updates(parameters, changes), memory), None

    def update(carry: Any, key: jax.Array) -> Any:
        parameters, memory, state, obs = carry
        keys = jax.random.split(key, STEPS + EPOCHS)
        (_, state, last), rollout = jax.lax.scan(one_step, (parameters, state, obs), keys[EPOCHS:])
        start = jnp.zeros(ENVS), apply(parameters["critic"], last)[:, 0]
        _, advantage = jax.lax.scan(advantage_of, start, rollout[3:], reverse=True)
        data = [one.reshape(-1, *one.shape[2:]) for one in (*rollout[:3], advantage, advantage + rollout[3])]
        orders = jax.vmap(lambda key: jax.random.permutation(key, STEPS * ENVS))(keys[:EPOCHS])
        batches = [leaf[orders.reshape(EPOCHS * BATCHES, -1)] for leaf in data]
        (parameters, memory), _ = jax.lax.scan(learn, (parameters, memory), batches)
        return (parameters, memory, state, last), STEPS * ENVS / jnp.maximum(rollout[5].sum(), 1)

    @jax.jit
    def run(key: jax.Array) -> Any:
        actor, critic, of_env, of_updates = jax.random.split(key, 4)
        networks = {"actor": layers(actor, ins, 64, outs), "critic": layers(critic, ins, 64, 1)}
        parameters = {**networks, "spread": jnp.zeros(outs)}
        start = parameters, optimizer.init(parameters), *reset(of_env)
        return jax.lax.scan(update, start, jax.random.split(of_updates, updates))[1]

    return run(jax.random.key(seed))


def main() -> None:
    """Train, and show how long the pendulum stays up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two updates")
    updates = 2 if parser.parse_args().quick else 30
    mode = {"autoreset_mode": AutoresetMode.SAME_STEP}
    envs = gym.make_vec("InvertedPendulum-v5", ENVS, vectorization_mode="sync", vector_kwargs=mode)
    for number, length in enumerate(train(envs, updates)):
        if number % 5 == 0 or number == updates - 1:
            print(f"after {(number + 1) * STEPS * ENVS:6} steps: {length:5.0f} steps in an episode")


if __name__ == "__main__":
    main()
