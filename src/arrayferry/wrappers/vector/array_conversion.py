"""The wrapper for vector environments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from arrayferry._boundary.observations import stack_final
from arrayferry._core.convert import Namespace
from arrayferry._core.eager import eager
from arrayferry.envs.forwarding import Forwarding
from arrayferry.wrappers.base import ArrayT, ConversionWrapper, space_property

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from arrayferry.wrappers.base import Options

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
        dense_final: bool = False,
        **options: Unpack[Options],
    ) -> None:
        self._own_options = {"dense_final": dense_final}
        super().__init__(env, env_xp, target_xp, env_device, target_device, **options)
        self._prepare += [partial(stack_final, env)] * dense_final

    _wraps, _kind, _where, _for_others = VectorEnv, "vector", "vector.", "{}"
    _scalars = "target"

    if not TYPE_CHECKING:
        _carry = ConversionWrapper._carry  # which converts; that of `Forwarding` does not
        observation_space, action_space = map(space_property, ("observation_space", "action_space"))
        single_observation_space = space_property("single_observation_space")
        single_action_space = space_property("single_action_space")

    @eager
    def step(self, actions: Any) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT, dict[str, Any]]:
        """Take a step in all environments, with actions of any framework."""
        return self._step(actions)  # type: ignore[no-any-return]

    # Most vector environments have these, with which nothing is converted; their base class does not.
    call: Callable[..., Any]
    get_attr: Callable[[str], Any]
    set_attr: Callable[[str, Any], None]
