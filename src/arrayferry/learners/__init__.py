"""Gymnasium environments as what learners want."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrayferry.errors import NotInstalledError

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from arrayferry.learners._sb3 import GymnasiumVecEnv

__all__ = ["sb3_vec_env"]


def sb3_vec_env(envs: VectorEnv[Any, Any, Any]) -> GymnasiumVecEnv:
    """Return a Gymnasium vector environment of any framework as a `VecEnv` of Stable-Baselines3.

    What ends an episode is told as Stable-Baselines3 has it: the observation is the next episode's first,
    `info["terminal_observation"]` the last one, and `info["TimeLimit.truncated"]` whether it was cut short.

    Args:
        envs: the vector environment. Its autoreset mode is SAME_STEP, or DISABLED; or NEXT_STEP, if it is a
            `SyncVectorEnv` or an `AsyncVectorEnv`, which can reset some of their environments at once.

    Raises:
        UnsupportedError: the environment does not say its autoreset mode, or would put a step without an
            action between two episodes.
        NotInstalledError: Stable-Baselines3 is not installed.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.learners import sb3_vec_env
        >>> venv = sb3_vec_env(gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync"))
        >>> _ = venv.seed(0)
        >>> venv.reset().shape
        (4, 4)
    """
    try:
        from arrayferry.learners._sb3 import GymnasiumVecEnv
    except ImportError as error:
        what = f"stable-baselines3 cannot be imported ({error})"
        raise NotInstalledError(what, "pip install stable-baselines3") from error
    return GymnasiumVecEnv(envs)
