"""Environments of any framework for TorchRL's `GymWrapper`."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from torchrl.envs import EnvBase, GymWrapper, TransformedEnv, VecGymEnvTransform

from arrayferry._boundary.autoreset import autoreset_mode_of, is_mask
from arrayferry.envs.forwarding import Forwarding
from arrayferry.envs.simulators.batches import with_rows
from arrayferry.errors import UnsupportedError
from arrayferry.learners._each import refuse_without_final
from arrayferry.wrappers import wrap


class AsDeclared(Forwarding, VectorWrapper):
    """A vector environment whose rewards and final observations are as TorchRL wants them.

    TorchRL declares rewards as a column, and reshapes NumPy arrays accordingly, but not tensors: a transform
    that sums rewards would then broadcast them to a matrix. It looks for the entries of a final Dict among
    the final infos. It takes only infos that have a row for each environment.
    """

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Reset all environments, or some."""
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, _with_rows(info, self.num_envs)

    def step(self, actions: Any) -> Any:
        """Take a step in all environments."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        info = _with_rows(info, self.num_envs)
        if isinstance(final := info.get("final_obs"), dict):
            info = {**info, "final_info": {**info.get("final_info", {}), **final}}
            del info["final_obs"]
        return obs, reward.unsqueeze(-1), terminated, truncated, info


def _with_rows(info: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the entries of an info that have a row for each environment, and their masks."""
    rows = with_rows(info, count)
    return {key: value for key, value in rows.items() if key[1:] in rows or not is_mask(key, info)}


class FirstObservations(VecGymEnvTransform):  # type: ignore[misc]  # TorchRL has no types
    """TorchRL's transform for vectors that reset themselves, with the right observations after a full reset.

    It keeps what a step that also resets shows, to show it when those environments are reset. TorchRL shows
    it after a reset of all environments too, when they are in another episode.
    """

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        mask, done = tensordict.get("_reset", None), self._memo.get("done")
        if done is not None and (mask is None or mask.all()):
            self._memo["done"] = done & False
        return super()._reset(tensordict, tensordict_reset)


def make_env(env: Any, device: Any) -> EnvBase:
    """See `torchrl_env`."""
    dense: Any = {"dense_final": True} if isinstance(env, VectorEnv) else {}
    view: Any = wrap(env, "torch", device, reward_dtype="float32", **dense)
    if isinstance(view, VectorEnv):
        _refuse_lost(view)
        view = AsDeclared(view)
    made = GymWrapper(view, device=device)
    if isinstance(made, TransformedEnv):  # it resets itself
        made.transform = FirstObservations()
    return made


def _refuse_lost(envs: VectorEnv[Any, Any, Any]) -> None:
    """Refuse final observations that TorchRL does not encode, or does not find."""
    refuse_without_final(envs, "TorchRL")
    if autoreset_mode_of(envs) is not AutoresetMode.SAME_STEP:
        return
    space = envs.single_observation_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
    for name, part in parts.items():
        if isinstance(part, (spaces.Discrete, spaces.Dict)) or name == "state":
            what = f"TorchRL loses the final observations of {name!r}, {part}, in a vector that resets itself"
            raise UnsupportedError(what, "make it with autoreset_mode=AutoresetMode.DISABLED")
