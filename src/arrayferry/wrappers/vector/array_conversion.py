"""The wrapper for vector environments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from arrayferry._core.convert import Namespace
from arrayferry.errors import UnsupportedError
from arrayferry.wrappers._autoreset import with_dense_final
from arrayferry.wrappers._base import ArrayT, ConversionWrapper, space_property
from arrayferry.wrappers._forwarding import Forwarding, converted
from arrayferry.wrappers._kinds import hint_for
from arrayferry.wrappers._watch import SanitizeMode

__all__ = ["ArrayConversion"]


if TYPE_CHECKING:

    class _Wrapper(ConversionWrapper[ArrayT], VectorWrapper[ArrayT, Any, Any, Any, ArrayT]):
        """Both base classes."""

else:

    class _Wrapper(ConversionWrapper[ArrayT], VectorWrapper):  # which is not generic before Gymnasium 1.4
        """Both base classes."""


class ArrayConversion(Forwarding, _Wrapper[ArrayT], RecordConstructorArgs):
    """A vector environment of one framework, for an agent of another.

    Observations, rewards, dones and infos come out in the agent's framework; actions go in as members
    of the batched action space. What the agent receives is its own. Everything else that the environment has,
    such as its `autoreset_mode`, is here too; `send` and `recv`, or `step_async` and `step_wait`, convert.

    Args:
        env: the vector environment to wrap.
        env_xp: its framework, as a module or by name; None to detect it.
        target_xp: the agent's framework, as a module or by name.
        env_device: where actions go.
        target_device: where everything else goes; rows may go to many devices, as for `arrayferry.wrap`.
        copy: None for arrays that are yours, True to always copy, False to share memory or raise.
        dtypes: casts to make on the way out, such as `{"float64": "float32"}`; or `"space"` to cast
            observations, with checks, to the dtypes that their space declares.
        reward_dtype: the dtype to cast the reward to, and only the reward.
        spaces: `"env"` for the environment's own spaces; `"target"` for spaces whose `sample` returns, and
            whose `contains` accepts, the agent's arrays.
        dense_final: `final_obs` as one batch, zero where `_final_obs` is False, instead of an object array.
        as_tensordict: return observations, final ones too, as TensorDicts, and accept actions as TensorDicts;
            the target must be torch.
        sanitize: True to watch what crosses the boundary and warn of findings, `"raise"` to raise them, False
            not to watch; None for the mode that `arrayferry.sanitize()` has set.

    Example:
        >>> import gymnasium as gym
        >>> envs = ArrayConversion(gym.make_vec("CartPole-v1", num_envs=3), "numpy", "torch")
        >>> obs, info = envs.reset(seed=123)
        >>> obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        >>> obs.shape, reward, terminated
        (torch.Size([3, 4]), tensor([1., 1., 1.]), tensor([False, False, False]))
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        env_xp: Namespace | None,
        target_xp: Namespace,
        env_device: Any = None,
        target_device: Any = None,
        *,
        copy: bool | None = None,
        dtypes: Mapping[Any, Any] | Literal["space"] | None = None,
        reward_dtype: Any = None,
        spaces: Literal["env", "target"] = "env",
        dense_final: bool = False,
        as_tensordict: bool = False,
        sanitize: SanitizeMode | None = None,
    ) -> None:
        if not isinstance(env, VectorEnv):
            raise UnsupportedError(
                f"vector.{type(self).__name__} wraps vector environments, and {env!r} is not one",
                hint_for(env, f"arrayferry.wrappers.{type(self).__name__}"),
            )
        options = copy, dtypes, reward_dtype, spaces, sanitize
        super().__init__(
            *(env, env_xp, target_xp, env_device, target_device, *options),
            scalars="target",
            prepare=[partial(with_dense_final, env)] if dense_final or as_tensordict else [],
            own_options={"dense_final": dense_final, "as_tensordict": as_tensordict},
        )

    if not TYPE_CHECKING:
        observation_space, action_space = map(space_property, ("observation_space", "action_space"))
        single_observation_space = space_property("single_observation_space")
        single_action_space = space_property("single_action_space")

        def __getattr__(self, name: str) -> Any:
            return converted(self, name, super().__getattr__(name))

    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Take a step in all environments, with actions of any framework."""
        return self._step(actions)  # type: ignore[no-any-return]

    @property
    def _inner(self) -> Any:
        return self.env  # most vector environments have the three methods below; their base class does not

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of each environment; nothing is converted."""
        return self._inner.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> Any:
        """Return an attribute of each environment, as it is."""
        return self._inner.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment, as it is."""
        self._inner.set_attr(name, values)
