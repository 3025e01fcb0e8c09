"""Environments of any framework for TorchRL's `GymWrapper`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from torchrl.envs import GymWrapper

from arrayferry.errors import UnsupportedError
from arrayferry.wrappers import wrap
from arrayferry.wrappers._autoreset import autoreset_mode_of
from arrayferry.wrappers._forwarding import Forwarding

if TYPE_CHECKING:
    from torchrl.envs import EnvBase

__all__ = ["make_env"]


class AsDeclared(Forwarding, VectorWrapper):
    """A vector environment whose rewards and final observations are as TorchRL wants them.

    TorchRL declares rewards as a column, and reshapes NumPy arrays accordingly, but not tensors: a transform
    that sums rewards would then broadcast them to a matrix. It looks for the entries of a final Dict among
    the final infos.
    """

    def step(self, actions: Any) -> Any:
        """Take a step in all environments."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        if isinstance(final := info.get("final_obs"), dict):
            info = {**info, "final_info": {**info.get("final_info", {}), **final}}
            del info["final_obs"]
        return obs, reward.unsqueeze(-1), terminated, truncated, info


def make_env(env: Any, device: Any) -> EnvBase:
    """See `torchrl_env`."""
    dense: Any = {"dense_final": True} if isinstance(env, VectorEnv) else {}
    view: Any = wrap(env, "torch", device, reward_dtype="float32", **dense)
    if isinstance(view, VectorEnv):
        _refuse_lost(view)
        view = AsDeclared(view)
    return GymWrapper(view, device=device)


def _refuse_lost(envs: VectorEnv[Any, Any, Any]) -> None:
    """Refuse final observations that TorchRL does not encode, or does not find."""
    if autoreset_mode_of(envs) is not AutoresetMode.SAME_STEP:
        return
    space = envs.single_observation_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
    for name, part in parts.items():
        if isinstance(part, (spaces.Discrete, spaces.Dict)) or name == "state":
            what = f"TorchRL loses the final observations of {name!r}, {part}, in a vector that resets itself"
            raise UnsupportedError(what, "make it with autoreset_mode=AutoresetMode.DISABLED")
