"""The environments that `wrap` takes, or refuses with a hint: one row per class."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.experimental.functional import FuncEnv
from gymnasium.vector import VectorEnv

from arrayferry.envs import brax, func_env, gymnax, jaxmarl, jumanji, pgx, xminigrid
from arrayferry.envs._environments import JaxEnv, JaxVectorEnv
from arrayferry.envs.adapters import EnvAdapter, register_environment
from arrayferry.envs.dm_env import open_with_shimmy
from arrayferry.envs.simulators import SimulatorVectorEnv, families

# AsyncVectorEnv has the first four, EnvPool, ALE and ours with workers the others. `recv` returns what a step
# does, even after `async_reset`.
_CALLS = {
    "step_async": ("action", None),
    "step_wait": (None, "step"),
    "reset_async": ("options", None),
    "reset_wait": (None, "reset"),
    "send": ("action", None),
    "recv": (None, "step"),
    "async_reset": ("options", None),
}
_XLA = "call env.xla()"

# A compiled function takes NumPy arrays in less time than JAX needs to put them on a device. A step waits
# until everything is computed, and no result shares memory with an action.
_JAX = EnvAdapter("single", framework="jax", action_framework="numpy", reads_actions_at_once=True)

_ISAAC_LAB = EnvAdapter("vector", partial(families.open_simulator, families.isaac_lab))
_MANISKILL = EnvAdapter("vector", partial(families.open_simulator, families.maniskill))
_VECTOR_OF_RSL_RL = EnvAdapter("vector", partial(families.open_simulator, families.vec_env))

_OLD_GYM = (
    "it is an environment of gym, Gymnasium's predecessor: wrap it in shimmy.GymV26CompatibilityV0(env=env), "
    "or shimmy.GymV21CompatibilityV0 for gym before 0.26 (pip install shimmy)"
)
_VEC_ENV = (
    "it already returns what Stable-Baselines3 takes: wrap the environments that it is made of, as in "
    "make_vec_env(lambda: arrayferry.wrap(gymnasium.make(...), ...)); or wrap gymnasium.make_vec(...)"
)
_TORCHRL = (
    "it already returns tensors: wrap the environment that it is made of, as in "
    'torchrl.envs.GymWrapper(arrayferry.wrap(gymnasium.make(...), "torch"))'
)
_MARL = "turn it into one of a single agent: isaaclab.envs.multi_agent_to_single_agent(env)"
_INSIDE = "pass the environment inside it, and put Gymnasium's wrappers or ours around what wrap returns"

_KNOWN: dict[Any, EnvAdapter] = {
    gym.Env: EnvAdapter("single"),
    VectorEnv: EnvAdapter("vector", calls=_CALLS),
    "pettingzoo:AECEnv": EnvAdapter("aec"),
    "pettingzoo:ParallelEnv": EnvAdapter("parallel"),
    "gymnasium:FunctionalJaxEnv": EnvAdapter("single", framework="jax"),
    "gymnasium:FunctionalJaxVectorEnv": EnvAdapter("vector", func_env.open_fused, framework="jax"),
    "envpool:GymnasiumEnvPoolMixin": EnvAdapter("vector", calls=_CALLS, xla=_XLA),
    "ale_py:AtariVectorEnv": EnvAdapter("vector", calls=_CALLS, xla=_XLA),
    JaxEnv: _JAX,
    JaxVectorEnv: replace(_JAX, kind="vector"),
    "arrayferry:JaxParallelEnv": replace(_JAX, kind="parallel"),  # needs PettingZoo
    # dm_env
    "dm_env:Environment": EnvAdapter("single", partial(open_with_shimmy, None)),
    "dm_control:Environment": EnvAdapter("single", partial(open_with_shimmy, "DmControlCompatibilityV0")),
    "bsuite:Environment": EnvAdapter("single", partial(open_with_shimmy, "BSuiteCompatibilityV0")),
    # written in JAX
    "gymnax:Environment": EnvAdapter("single", interface=gymnax.interface),
    "gymnax:GymnaxWrapper": EnvAdapter(None, hint=_INSIDE),
    "brax:Env": EnvAdapter("single", interface=brax.interface),
    "mujoco_playground:MjxEnv": EnvAdapter("single", interface=brax.playground),
    "jumanji:Environment": EnvAdapter("single", interface=jumanji.interface),
    "pgx:Env": EnvAdapter("single", interface=pgx.interface),
    "xminigrid:Environment": EnvAdapter("single", interface=xminigrid.interface),
    FuncEnv: EnvAdapter("single", interface=func_env.interface),
    "jaxmarl:MultiAgentEnv": EnvAdapter("parallel", interface=jaxmarl.interface),
    "jaxmarl:JaxMARLWrapper": EnvAdapter(None, hint=_INSIDE),
    # batched simulators; the last two are recognised by what they have, the first by being open already
    "mjlab:ManagerBasedRlEnv": EnvAdapter("vector", partial(families.open_simulator, families.mjlab)),
    "mani_skill:CPUGymWrapper": EnvAdapter("single"),
    "mani_skill:ManiSkillVectorEnv": _MANISKILL,
    "mani_skill:BaseEnv": _MANISKILL,
    "isaaclab:DirectRLEnv": _ISAAC_LAB,
    "isaaclab:ManagerBasedRLEnv": _ISAAC_LAB,
    "isaaclab:DirectMARLEnv": EnvAdapter(None, hint=_MARL),
    "isaaclab_experimental:DirectRLEnvWarp": _ISAAC_LAB,
    "isaaclab_experimental:ManagerBasedRLEnvWarp": _ISAAC_LAB,
    "rsl_rl:VecEnv": _VECTOR_OF_RSL_RL,
    SimulatorVectorEnv: EnvAdapter("vector", framework=lambda envs: envs.array_framework),
    families.is_batched: EnvAdapter("vector", partial(families.open_simulator, families.unknown)),
    families.is_vec_env: _VECTOR_OF_RSL_RL,
    # refused
    "envpool:DMEnvPoolMixin": EnvAdapter(None, hint='make it with envpool.make(id, env_type="gymnasium")'),
    "gym:Env": EnvAdapter(None, hint=_OLD_GYM),
    EnvSpec: EnvAdapter(None, hint="make it first, and pass gymnasium.make(spec)"),
    "stable_baselines3:VecEnv": EnvAdapter(None, hint=_VEC_ENV),
    "torchrl:EnvBase": EnvAdapter(None, hint=_TORCHRL),
}

for of, adapter in _KNOWN.items():
    register_environment(of, adapter)
