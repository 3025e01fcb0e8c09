"""Gymnasium environments in the forms that learners want."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from arrayferry._core.messages import with_article
from arrayferry.envs.opening import open_environment
from arrayferry.errors import NotInstalledError, UnsupportedError

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.vector import VectorEnv
    from torchrl.envs import EnvBase
    from typing_extensions import Unpack

    from arrayferry.learners._rsl_rl import TensorDictVecEnv
    from arrayferry.learners._sb3 import GymnasiumVecEnv
    from arrayferry.learners._tensordict import TensorDictEnv, TensorDictVectorEnv
    from arrayferry.wrappers.base import Options

__all__ = ["rsl_rl_vec_env", "sb3_vec_env", "tensordict_env", "torchrl_env"]


def sb3_vec_env(envs: Any, *, action_bound: float | None = None) -> GymnasiumVecEnv:
    """Return a vector environment of any framework, or a batched simulator, as an SB3 `VecEnv`.

    The end of an episode is reported as in Stable-Baselines3: the observation is the next episode's first,
    `info["terminal_observation"]` the last one, and `info["TimeLimit.truncated"]` whether it was cut short.
    Put `VecMonitor` around the result to have returns and lengths of episodes logged.

    Args:
        envs: the vector environment. Its autoreset mode must be SAME_STEP or DISABLED; or NEXT_STEP, if it is
            a `SyncVectorEnv`, an `AsyncVectorEnv`, a `ProcessVectorEnv`, a `RayVectorEnv` or the result of
            `as_gymnasium`, which can reset some of their environments immediately.
        action_bound: the bounds that the learner is told, and clips to, where those of a Box are infinite.

    Raises:
        UnsupportedError: the environment does not declare its autoreset mode, or would put a step without an
            action between two episodes; it has no final observations; or its actions have no bounds.
        NotInstalledError: Stable-Baselines3 is not installed.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.learners import sb3_vec_env
        >>> venv = sb3_vec_env(gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync"))
        >>> _ = venv.seed(0)
        >>> venv.reset().shape
        (4, 4)
    """
    envs = _opened_vector(envs)
    with _installed("stable-baselines3", "pip install stable-baselines3"):
        from arrayferry.learners._sb3 import GymnasiumVecEnv
    return GymnasiumVecEnv(envs, action_bound)


def torchrl_env(env: Any, device: Any = None) -> EnvBase:
    """Return an environment of any framework, single or vector, or a simulator, as a TorchRL environment.

    It is TorchRL's own `GymWrapper`, around a view whose observations and rewards are tensors of the dtypes
    and shapes that TorchRL declares.

    Args:
        env: the environment. A vector's autoreset mode must be SAME_STEP or DISABLED: TorchRL refuses others.
        device: where the tensors go; None for the CPU.

    Raises:
        UnsupportedError: the autoreset mode is SAME_STEP, and there are no final observations, or TorchRL
            would lose them, as it does for a Discrete space and for a Dict in a Dict.
        NotInstalledError: TorchRL is not installed.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.learners import torchrl_env
        >>> env = torchrl_env(gym.make("CartPole-v1"))
        >>> env.rollout(3)["next", "reward"].shape
        torch.Size([3, 1])
    """
    with _installed("torchrl", "pip install torchrl"):
        from arrayferry.learners._torchrl import make_env
    return make_env(open_environment(env), device)


def rsl_rl_vec_env(envs: Any, device: Any = None, *, seed: int | None = None) -> TensorDictVecEnv:
    """Return a vector environment of any framework, or a batched simulator, as an rsl_rl `VecEnv`.

    Observations are TensorDicts on the device; unless the space is a Dict or Tuple, with the one entry
    "observation". `extras` are the infos, with "time_outs" for the episodes that were cut short; an "episode"
    in them covers only the episodes that are over. `max_episode_length` comes from the environment's `spec`;
    if that has none, it is the largest int32, since rsl_rl does not take infinity.

    Args:
        envs: the vector environment. Its autoreset mode must be SAME_STEP, and its action space a Box.
        device: where the tensors go; None for a simulator's own device, or else the CPU.
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
    envs = _opened_vector(envs)
    with _installed("rsl_rl", "pip install rsl-rl-lib"):
        from arrayferry.learners._rsl_rl import TensorDictVecEnv
    return TensorDictVecEnv(envs, device, seed)


def tensordict_env(
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any], device: Any = None, **options: Unpack[Options]
) -> TensorDictEnv | TensorDictVectorEnv:
    """Return an environment of any framework, single or vector, whose observations are TensorDicts.

    An observation of a Dict space is a TensorDict of its entries; of a Tuple space, its keys are "0", "1"...;
    of any other space, it is the entry "observation". So are the final observations of a vector environment,
    as one batch. An action may be a TensorDict: its entry "action" is used, unless its keys are those of the
    action space.

    Args:
        env: the environment.
        device: where the tensors go; None for the CPU.
        **options: those of `arrayferry.wrap`, such as `dtypes`.

    Raises:
        UnsupportedError: the environment is for many agents.
        OptionError: the device is a mesh, whose tensors have the rows of all processes.
        NotInstalledError: tensordict is not installed.

    Example:
        >>> import gymnasium as gym, torch
        >>> from arrayferry.learners import tensordict_env
        >>> env = tensordict_env(gym.make("CartPole-v1"))
        >>> td, info = env.reset(seed=123)
        >>> td, *_ = env.step(td.set("action", torch.tensor(1)))
        >>> td["observation"].shape
        torch.Size([4])
    """
    with _installed("tensordict", "pip install tensordict"):
        from arrayferry.learners._tensordict import make_env
    return make_env(env, device, **options)


@contextmanager
def _installed(package: str, command: str) -> Iterator[None]:
    """Say how to install a package, if it cannot be imported."""
    try:
        yield
    except ImportError as error:
        raise NotInstalledError(f"{package} cannot be imported ({error})", command) from error


def _opened_vector(envs: Any) -> Any:
    envs = open_environment(envs)
    if not (hasattr(envs, "num_envs") and hasattr(envs, "single_action_space")):
        what = f"{with_article(type(envs).__qualname__)} is not a vector environment"
        hint = "make one: gymnasium.make_vec(id, 8); or, with JAX, arrayferry.envs.as_gymnasium(env, 64)"
        raise UnsupportedError(what, hint)
    return envs
