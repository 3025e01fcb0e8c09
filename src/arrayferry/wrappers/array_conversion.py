"""The wrapper for single environments, in a file named as in Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from arrayferry._core.convert import Namespace
from arrayferry._core.messages import refuse_choice
from arrayferry.errors import UnsupportedError
from arrayferry.wrappers._base import ArrayT, ConversionWrapper, space_property
from arrayferry.wrappers._function import (
    Array,
    Device,
    array_conversion,
    module_name_to_namespace,
    module_namespace,
)
from arrayferry.wrappers._kinds import hint_for
from arrayferry.wrappers._watch import SanitizeMode

__all__ = [
    "ArrayConversion",
    "Array",
    "Device",
    "array_conversion",
    "module_name_to_namespace",
    "module_namespace",
]


class ArrayConversion(ConversionWrapper[ArrayT], gym.Wrapper[ArrayT, Any, Any, Any], RecordConstructorArgs):
    """An environment of one framework, for an agent of another.

    Observations and infos come out in the agent's framework, rewards as `float`, terminated and
    truncated as `bool`. Actions go in as members of the action space, in the environment's framework.
    What the agent receives is its own: nothing the environment does later changes it.

    Args:
        env: the environment to wrap.
        env_xp: its framework, as a module or by name; None to detect it.
        target_xp: the agent's framework, as a module or by name.
        env_device: where actions go.
        target_device: where observations and infos go.
        copy: None for arrays that are yours, True to always copy, False to share memory or raise.
        dtypes: casts to make on the way out, such as `{"float64": "float32"}`; or `"space"` to cast
            observations, with checks, to the dtypes that their space declares.
        reward_dtype: the dtype to cast the reward to, and only the reward.
        spaces: `"env"` for the environment's own spaces; `"target"` for spaces whose `sample` returns, and
            whose `contains` accepts, the agent's arrays.
        scalars: `"python"` for `float` and `bool`; `"target"` to get rewards and dones as arrays too.
        as_tensordict: return observations, final ones too, as TensorDicts, and accept actions as TensorDicts;
            the target must be torch.
        sanitize: True to watch what crosses the boundary and warn of findings, `"raise"` to raise them, False
            not to watch; None for the mode that `arrayferry.sanitize()` has set.

    Example:
        >>> import gymnasium as gym, numpy as np, torch
        >>> env = ArrayConversion(gym.make("CartPole-v1"), env_xp=np, target_xp=torch)
        >>> obs, info = env.reset(seed=123)
        >>> obs
        tensor([ 0.0182, -0.0446, -0.0280, -0.0316])
        >>> obs, reward, terminated, truncated, info = env.step(torch.tensor(1))
        >>> type(obs), reward, terminated, truncated
        (<class 'torch.Tensor'>, 1.0, False, False)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        env_xp: Namespace | None,
        target_xp: Namespace,
        env_device: Any = None,
        target_device: Any = None,
        *,
        copy: bool | None = None,
        dtypes: Mapping[Any, Any] | Literal["space"] | None = None,
        reward_dtype: Any = None,
        spaces: Literal["env", "target"] = "env",
        scalars: Literal["python", "target"] = "python",
        as_tensordict: bool = False,
        sanitize: SanitizeMode | None = None,
    ) -> None:
        if not isinstance(env, gym.Env):
            raise UnsupportedError(
                f"{type(self).__name__} wraps single environments, and {env!r} is not one",
                hint_for(env, f"arrayferry.wrappers.vector.{type(self).__name__}"),
            )
        refuse_choice("scalars", scalars, "python", "target")
        options = copy, dtypes, reward_dtype, spaces, sanitize
        super().__init__(
            *(env, env_xp, target_xp, env_device, target_device, *options),
            scalars=scalars,
            prepare=[],
            own_options={"scalars": scalars, "as_tensordict": as_tensordict},
        )

    if TYPE_CHECKING:

        def step(self, action: Any) -> tuple[ArrayT, float, bool, bool, dict[str, Any]]:
            """Take a step with an action of any framework."""
            ...
    else:
        step = ConversionWrapper._step
        observation_space, action_space = map(space_property, ("observation_space", "action_space"))
