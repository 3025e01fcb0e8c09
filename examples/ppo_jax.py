"""Train a JAX agent on CartPole, a NumPy environment: PPO in one file, in CleanRL's style [--quick]."""

import sys
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import optax

import arrayferry

ENVS, STEPS, UPDATES, GAMMA, LAMBDA = 32, 64, 16, 0.99, 0.95
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-3))


@jax.jit
def network(params: Any, obs: Any) -> Any:
    """Return the log-probabilities of the actions, and the value of the observation."""
    return jax.nn.log_softmax(jnp.tanh(obs @ params[0]) @ params[1]), jnp.tanh(obs @ params[2]) @ params[3]


@jax.jit
def learn(params: Any, state: Any, last: Any, obs: Any, action: Any, reward: Any, done: Any) -> Any:
    """Return the parameters and the optimizer's state after the updates with a rollout."""

    def loss(params: Any) -> Any:
        logits, value = network(params, obs)
        ratio = jnp.exp(jnp.take_along_axis(logits - old, action[..., None], -1)[..., 0])
        return (0.5 * (value - target) ** 2 - jnp.minimum(ratio * gain, ratio.clip(0.8, 1.2) * gain)).mean()

    old, values = network(params, obs)
    errors = reward + GAMMA * ~done * jnp.vstack([values[1:], network(params, last)[1]]) - values
    back: Any = lambda later, now: (now[0] + GAMMA * LAMBDA * ~now[1] * later,) * 2  # noqa: E731
    gain = jax.lax.scan(back, jnp.zeros(ENVS), (errors, done), reverse=True)[1]
    target, gain = gain + values, (gain - gain.mean()) / (gain.std() + 1e-8)
    for _ in range(UPDATES):
        change, state = OPTIMIZER.update(jax.grad(loss)(params), state)
        params = optax.apply_updates(params, change)
    return params, state


def train(frames: int = 300_000, seed: int = 0) -> float:
    """Return the mean return of the last 100 episodes."""
    bare = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS, autoreset_mode="SameStep")
    envs = arrayferry.wrappers.vector.RecordEpisodeStatistics(arrayferry.wrap(bare, "jax"))  # the line to add
    keys, shapes = jax.random.split(jax.random.key(seed), 5), ((4, 64), (64, 2), (4, 64), (64,))
    params = [jax.random.normal(key, shape) * 0.3 for key, shape in zip(keys, shapes)]
    state, (obs, _), rollout = OPTIMIZER.init(params), envs.reset(seed=seed), []
    for step, key in enumerate(jax.random.split(keys[-1], frames // ENVS), 1):
        action = jax.random.categorical(key, network(params, obs)[0])
        before, (obs, reward, terminated, truncated, _) = obs, envs.step(action)
        rollout.append((before, action, reward, terminated | truncated))
        if step % STEPS == 0:
            (params, state), rollout = learn(params, state, obs, *map(jnp.stack, zip(*rollout))), []
    return sum(map(float, envs.return_queue)) / max(1, len(envs.return_queue))


if __name__ == "__main__":
    print(f"mean return {train(8192 if '--quick' in sys.argv else 300_000):.0f}")
