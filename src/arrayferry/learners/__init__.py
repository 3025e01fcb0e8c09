"""Gymnasium environments in the forms that learners want."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrayferry._core.messages import with_article
from arrayferry.errors import NotInstalledError, UnsupportedError

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.vector import VectorEnv
    from torchrl.envs import EnvBase

    from arrayferry.learners._rsl_rl import TensorDictVecEnv
    from arrayferry.learners._sb3 import GymnasiumVecEnv

__all__ = ["sb3_vec_env", "torchrl_env", "rsl_rl_vec_env"]


def sb3_vec_env(envs: VectorEnv[Any, Any, Any]) -> GymnasiumVecEnv:
    """Return a Gymnasium vector environment of any framework as a Stable-Baselines3 `VecEnv`.

    The end of an episode is reported as in Stable-Baselines3: the observation is the next episode's first,
    `info["terminal_observation"]` the last one, and `info["TimeLimit.truncated"]` whether it was cut short.
    Put `VecMonitor` around the result to have returns and lengths of episodes logged.

    Args:
        envs: the vector environment. Its autoreset mode must be SAME_STEP or DISABLED; or NEXT_STEP, if it is
            a `SyncVectorEnv`, an `AsyncVectorEnv`, a `ProcessVectorEnv`, a `RayVectorEnv` or the result of
            `as_gymnasium`, which can reset some of their environments immediately.

    Raises:
        UnsupportedError: the environment does not declare its autoreset mode, or would put a step without an
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
    _refuse_if_no_vector(envs)
    try:
        from arrayferry.learners._sb3 import GymnasiumVecEnv
    except ImportError as error:
        what = f"stable-baselines3 cannot be imported ({error})"
        raise NotInstalledError(what, "pip install stable-baselines3") from error
    return GymnasiumVecEnv(envs)


def torchrl_env(env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any], device: Any = None) -> EnvBase:
    """Return an environment of any framework, single or vector, as a TorchRL environment.

    It is TorchRL's own `GymWrapper`, around a view whose observations and rewards are tensors of the dtypes
    and shapes that TorchRL declares.

    Args:
        env: the environment. A vector's autoreset mode must be SAME_STEP or DISABLED: TorchRL refuses others.
        device: where the tensors go; None for the CPU.

    Raises:
        UnsupportedError: the autoreset mode is SAME_STEP, and TorchRL would lose the final observations,
            as it does for a Discrete space and for a Dict in a Dict.
        NotInstalledError: TorchRL is not installed.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.learners import torchrl_env
        >>> env = torchrl_env(gym.make("CartPole-v1"))
        >>> env.rollout(3)["next", "reward"].shape
        torch.Size([3, 1])
    """
    try:
        from arrayferry.learners._torchrl import make_env
    except ImportError as error:
        raise NotInstalledError(f"torchrl cannot be imported ({error})", "pip install torchrl") from error
    return make_env(env, device)


def rsl_rl_vec_env(
    envs: VectorEnv[Any, Any, Any], device: Any = None, *, seed: int | None = None
) -> TensorDictVecEnv:
    """Return a Gymnasium vector environment of any framework as an rsl_rl `VecEnv`.

    Observations are TensorDicts on the device; unless the space is a Dict or Tuple, with the one entry
    "observation". `extras` are the infos, with "time_outs" for the episodes that were cut short; an "episode"
    in them covers only the episodes that are over. `max_episode_length` comes from the environment's `spec`;
    if that has none, it is the largest int32, since rsl_rl does not take infinity.

    Args:
        envs: the vector environment. Its autoreset mode must be SAME_STEP, and its action space a Box.
        device: where the tensors go; None for the CPU.
        seed: the seed of the first reset.

    Raises:
        UnsupportedError: the environment has another autoreset mode, or another action space.
        NotInstalledError: rsl_rl is not installed.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.learners import rsl_rl_vec_env
        >>> same = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        >>> envs = gym.make_vec("Pendulum-v1", 4, vectorization_mode="sync", vector_kwargs=same)
        >>> rsl_rl_vec_env(envs).get_observations()["observation"].shape
        torch.Size([4, 3])
    """
    _refuse_if_no_vector(envs)
    try:
        from arrayferry.learners._rsl_rl import TensorDictVecEnv
    except ImportError as error:
        raise NotInstalledError(f"rsl_rl cannot be imported ({error})", "pip install rsl-rl-lib") from error
    return TensorDictVecEnv(envs, device, seed)


def _refuse_if_no_vector(envs: Any) -> None:
    if not (hasattr(envs, "num_envs") and hasattr(envs, "single_action_space")):
        what = f"{with_article(type(envs).__qualname__)} is not a vector environment"
        hint = "make one: gymnasium.make_vec(id, 8); or, with JAX, arrayferry.envs.as_gymnasium(env, 64)"
        raise UnsupportedError(what, hint)
