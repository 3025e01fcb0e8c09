"""What a user writes, for mypy and pyright to read. Never executed.

`test_typing.py` compares what mypy says of a line with what the comment above it promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import arrayferry
from arrayferry import wrappers
from arrayferry.envs import as_gymnasium
from arrayferry.wrappers import RecordVideo, TimeLimit, vector
from arrayferry.wrappers.array_conversion import array_conversion
from arrayferry.wrappers.transform_action import DiscretizeAction
from arrayferry.wrappers.utils import RunningMeanStd, rescale_box
from arrayferry.wrappers.vector.vectorize_reward import ClipReward

if TYPE_CHECKING:
    import gymnasium as gym
    import gymnasium.wrappers as theirs
    import torch
    from gymnasium.experimental.functional import FuncEnv
    from typing_extensions import reveal_type


def single(env: gym.Env[Any, Any], action: torch.Tensor) -> None:
    # tuple[Tensor, float, bool, bool, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "torch").step(action))
    # tuple[Array, float, bool, bool, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "jax").step(action))
    # tuple[ndarray, float, bool, bool, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "numpy").step(action))
    # tuple[Tensor, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "torch", "cuda:0").reset())
    # tuple[Array, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "jax", device="cpu").reset(seed=1))
    # tuple[ndarray, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "numpy", copy=True).reset(options={}))
    # tuple[Any, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "mlx").reset())
    # tuple[Any, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, np).reset())


def many(envs: gym.vector.VectorEnv[Any, Any, Any], actions: torch.Tensor) -> None:
    # tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]
    reveal_type(arrayferry.wrap(envs, "torch").step(actions))
    # tuple[Array, Array, Array, Array, dict[str, Any]]
    reveal_type(arrayferry.wrap(envs, "jax").step(actions))
    # tuple[ndarray, ndarray, ndarray, ndarray, dict[str, Any]]
    reveal_type(arrayferry.wrap(envs, "numpy").step(actions))
    # tuple[Tensor, dict[str, Any]]
    reveal_type(arrayferry.wrap(envs, "torch").reset(seed=[1, 2]))
    # tuple[Array, dict[str, Any]]
    reveal_type(arrayferry.wrap(envs, "jax", dense_final=True).reset())


def written_in_jax(env: FuncEnv[Any, Any, Any, Any, Any, Any, Any], actions: torch.Tensor) -> None:
    # tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]
    reveal_type(arrayferry.wrap(env, "torch", num_envs=8).step(actions))
    # tuple[ndarray, dict[str, Any]]
    reveal_type(arrayferry.wrap((env, None), "numpy", num_envs=8, dense_final=True).reset())
    # JaxVectorEnv
    reveal_type(as_gymnasium(env, 8))


class Simulator:
    """A batch of environments, of a package that knows neither Gymnasium nor arrayferry."""

    num_envs = 4

    def step(self, action: Any) -> Any: ...


class Game:
    """One environment in JAX, of a class that the user has registered."""

    def step(self, action: Any) -> Any: ...


def of_other_packages(simulator: Simulator, game: Game) -> None:
    # tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]
    reveal_type(arrayferry.wrap(simulator, "torch").step(0))
    # tuple[Tensor, dict[str, Any]]
    reveal_type(arrayferry.wrap((game, None), "torch").reset())
    # tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]
    reveal_type(arrayferry.wrap(game, "torch", num_envs=8).step(0))


def made(action: torch.Tensor) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), "torch")
    # tuple[Tensor, float, bool, bool, dict[str, Any]]
    reveal_type(env.step(action))
    envs = arrayferry.wrap(gym.make_vec("CartPole-v1", num_envs=3), "jax")
    # tuple[Array, dict[str, Any]]
    reveal_type(envs.reset())


def pairs(env: gym.Env[Any, Any]) -> None:
    # tuple[Tensor, float, bool, bool, dict[str, Any]]
    reveal_type(wrappers.NumpyToTorch(env).step(0))
    # tuple[Tensor, float, bool, bool, dict[str, Any]]
    reveal_type(wrappers.JaxToTorch(env, device="cpu").step(0))
    # tuple[Array, dict[str, Any]]
    reveal_type(wrappers.NumpyToJax(env).reset())
    # tuple[Array, dict[str, Any]]
    reveal_type(wrappers.TorchToJax(env, copy=True).reset())
    # tuple[ndarray, dict[str, Any]]
    reveal_type(wrappers.JaxToNumpy(env).reset())
    # tuple[ndarray, float, bool, bool, dict[str, Any]]
    reveal_type(wrappers.TorchToNumpy(env).step(0))


def vector_pairs(envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
    # tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]
    reveal_type(vector.NumpyToTorch(envs).step(0))
    # tuple[ndarray, ndarray, ndarray, ndarray, dict[str, Any]]
    reveal_type(vector.JaxToNumpy(envs).step(0))
    # tuple[Array, dict[str, Any]]
    reveal_type(vector.TorchToJax(envs, "cpu").reset())


def told(env: gym.Env[Any, Any]) -> None:
    conversion: wrappers.ArrayConversion[torch.Tensor] = wrappers.ArrayConversion(env, "numpy", "torch")
    # tuple[Tensor, float, bool, bool, dict[str, Any]]
    reveal_type(conversion.step(0))
    # Any
    reveal_type(conversion.render())


def names_of_gymnasium(
    env: gym.Env[Any, Any], envs: gym.vector.VectorEnv[Any, Any, Any], statistics: RunningMeanStd
) -> None:
    # TimeLimit[Any, Any]
    reveal_type(TimeLimit(env, max_episode_steps=10))
    limited: theirs.TimeLimit[Any, Any] = wrappers.TimeLimit(env, 10)
    recorded: theirs.RecordVideo[Any, Any] = RecordVideo(limited, "videos")
    kinds: list[type[theirs.DiscretizeAction[Any, Any]]] = [DiscretizeAction, wrappers.DiscretizeAction]
    # RunningMeanStd
    reveal_type(statistics)
    # tuple[Box[floating[Any] | integer[Any]], def (ndarray) -> ndarray, def (ndarray) -> ndarray]
    reveal_type(rescale_box(gym.spaces.Box(-1, 1), np.float32(0), np.float32(1)))
    # RecordEpisodeStatistics
    reveal_type(vector.RecordEpisodeStatistics(envs))
    clipped: theirs.vector.ClipReward[Any, Any] = ClipReward(envs, 0, 1)
    print(recorded, kinds, clipped)


@array_conversion.register(complex)
def convert_complex(value: complex, xp: Any, device: Any = None) -> Any:
    return xp.asarray([value.real, value.imag], device=device)


def wrong(env: gym.Env[Any, Any]) -> None:
    # error: arg-type
    TimeLimit(env, "ten")
    # error: attr-defined
    print(wrappers.NoSuchWrapper)
    # error: attr-defined
    print(vector.NoSuchWrapper)
    # error: call-overload
    arrayferry.wrap("CartPole-v1", "torch")
    # error: arg-type
    wrappers.ArrayConversion(env, "numpy", "torch", spaces="agent")
    # error: arg-type
    wrappers.ArrayConversion(env, "numpy", "torch", scalars="torch")
    # error: call-arg
    wrappers.ArrayConversion(env, "numpy", "torch", dense_final=True)
    # error: assignment
    reward: str = arrayferry.wrap(env, "torch").step(0)[1]
    print(reward)
