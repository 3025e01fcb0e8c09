"""What the single and the vector wrapper share: actions in, results out, and how both are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from gymnasium.utils import RecordConstructorArgs

from arrayferry._core.containers import OBJECT_ARRAY, container_handler
from arrayferry._core.convert import Converter, known_again
from arrayferry._core.dtypes import is_known
from arrayferry._core.framework import Framework, TypeTable, describe, dtype_name, owner_of
from arrayferry._core.tree import walk
from arrayferry._core.warn import warn_agent
from arrayferry.errors import FerryError, KeptWarning, OptionError, UnsupportedError
from arrayferry.spaces import fitter, numpy_converter, seen_from, shortcut

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["RESET", "STEP", "Boundary", "Crossing", "Pair", "one_of", "returned", "with_arrays"]

# What the values that an environment returns are called in messages.
RESET = ("obs", "info")
STEP = ("obs", "reward", "terminated", "truncated", "info")

ArrayT = TypeVar("ArrayT")

# Who gets so many would not read more; and the paths take time.
_MANY_WARNINGS = 100

Namespace = str | ModuleType | Framework


class Boundary:
    """The line between an environment and its agent.

    Args:
        action_space: the environment's; actions arrive as its members.
        env_xp: the environment's framework; None to learn it from what the environment returns.
        target_xp: the agent's framework.
        env_device: where actions go.
        target_device: where all else goes.
        copy: as for `convert`, in both directions.
        dtypes: as for `convert`, for what the environment returns.
        arrays: how many of the values that a step returns leave as arrays, but for the info: all four of
            them, or the observation alone.

    Attributes:
        enter: from an action to a member of the action space, in the environment's framework.
        leave_step: from a list that alone holds what a step returns, to the same in the agent's framework.
        leave: from a list that alone holds what a step returns, but for infos, to the same in the agent's
            framework.
        leave_one: from a list that alone holds an observation, to that in the agent's framework.
        leave_info: from a list that alone holds an info, to that in the agent's framework.
    """

    enter: Callable[[Any], Any]
    leave_step: Callable[[list[Any]], tuple[Any, Any, Any, Any, Any]]
    leave: Callable[[list[Any]], list[Any]]
    leave_one: Callable[[list[Any]], Any]
    leave_info: Callable[[list[Any]], Any]

    def __init__(
        self,
        action_space: spaces.Space[Any],
        env_xp: Namespace | None,
        target_xp: Namespace,
        env_device: Any = None,
        target_device: Any = None,
        copy: bool | None = None,
        dtypes: Mapping[Any, Any] | None = None,
        arrays: Literal[1, 4] = 1,
    ) -> None:
        self._arrays = arrays
        self._outgoing = Converter(target_xp, target_device, copy=copy, dtypes=dtypes)
        self._action_space = action_space
        self._learns = env_xp is None
        self._env_device, self.device = env_device, target_device
        self._enter_by("numpy" if env_xp is None else env_xp, None if env_xp is None else env_device)
        self._warned: set[str] = set()
        self._leave_by()

    def _enter_by(self, env_xp: Namespace, device: Any) -> None:
        copy = self._outgoing.copy
        self._incoming = Converter(env_xp, device, copy=copy)
        self._options = Converter(env_xp, device, copy=copy, _numbers=False)
        self._fit = fitter(self._action_space, self._incoming)
        self._unbox_action = self._incoming.unboxer("action", self._warn)
        self.enter = shortcut(self._action_space, self._incoming, self._fit, self._enter)

    def arguments(self) -> dict[str, Any]:
        """The arguments, frameworks and devices by name, as they are recorded in a spec."""
        return {
            "env_xp": None if self._learns else self._incoming.framework.name,
            "target_xp": self._outgoing.framework.name,
            "env_device": self._env_device if self._learns else self._incoming.device_name,
            "target_device": self._outgoing.device_name,
            "copy": self._outgoing.copy,
            "dtypes": self._outgoing.dtypes or None,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._action_space, self.arguments(), self._arrays)

    def _enter(self, action: Any) -> Any:
        box = [action]
        del action
        return self._fit(self._unbox_action(box))

    def enter_options(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        """The options' arrays in the environment's framework; its numbers are anybody's."""
        found: dict[str, Any] | None = self._options.unbox([options], ("options",))[0]
        return found

    def leave_as(self, name: str, box: list[Any]) -> Any:
        """One value, which only the box holds, in the agent's framework; of that name in messages."""
        self.meet(box)
        return self._outgoing.unbox(box, (name,))[0]

    def _leave_by(self) -> None:
        # Who has leaves without a counterpart in an info is not warned.
        out, warn = self._outgoing, self._warn
        ways = out.unboxer_of_all(STEP, warn), out.unboxer("obs", warn), out.unboxer("info")
        self.leave, self.leave_one, self.leave_info = map(self._learning, ways) if self._learns else ways
        slowly = self._leave_step
        self.leave_step = slowly if self._learns else out.exit(self._arrays, self._number, self._flag, slowly)

    def _leave_step(self, results: list[Any]) -> Any:
        result = results.pop()
        if type(result) is not tuple or len(result) != len(STEP):
            result = returned(result, "step", STEP)
        obs, reward, terminated, truncated, info = result
        box = [obs] if self._arrays == 1 else [obs, reward, terminated, truncated]
        infos = [info] if type(info) is not dict or info else None
        del result, obs, info  # so that the boxes alone hold what they hold
        if self._arrays == 1:
            box = [
                self.leave_one(box),
                reward if type(reward) is float else self._number(reward),
                terminated if type(terminated) is bool else self._flag(terminated, "terminated"),
                truncated if type(truncated) is bool else self._flag(truncated, "truncated"),
            ]
        else:
            del reward, terminated, truncated
            box = self.leave(box)
        return *box, self.leave_info(infos) if infos else {}

    def _number(self, reward: Any) -> float:
        self.meet([reward])
        try:
            # Not float() of an array: torch and NumPy warn about some that have a number to give.
            return float(reward.item() if hasattr(reward, "item") else reward)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            # A vector of rewards, as multi-objective environments give.
            number: float = self.leave_as("reward", [reward])
            return number

    @staticmethod
    def _flag(value: Any, name: str = "") -> bool:
        # Without a name where all is done once more if this raises.
        try:
            return bool(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError, RuntimeError) as error:
            what = f"{name} is {describe(value)}, not one bool"
            raise UnsupportedError(
                what, "a vector environment? Use arrayferry.wrap, which chooses"
            ) from error

    def _learning(self, leave: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        def learn_and_leave(box: list[Any]) -> Any:
            self.meet(box)
            return leave(box)

        return learn_and_leave

    def meet(self, box: list[Any]) -> None:
        """Learn from values of the environment's, if there is still something to learn."""
        if self._learns:
            self._learn(box)

    def _learn(self, box: list[Any]) -> None:
        """The first array tells whose environment it is, and where. One without arrays may speak NumPy."""
        found: list[tuple[Framework, Any]] = []

        def look(cls: type) -> Any:
            owner = owner_of(cls)
            if owner is None or not owner.can_make():
                return container_handler(cls) or (lambda value, references: value)

            def vote(array: Any, references: int) -> Any:
                name = dtype_name(array.dtype)
                if is_known(name):  # strings say nothing: an environment of any framework has those
                    found.append((owner, array))
                return OBJECT_ARRAY if name == "object" else None

            return vote

        with suppress(FerryError):  # the conversion itself will say it
            walk([tuple(box)], TypeTable(look))
        if found:
            framework, array = found[0]
            here = framework.place(array) if self._env_device is None else self._env_device
            self._enter_by(framework, here)  # first, for it may refuse the device
            self._learns = False
            self._leave_by()

    def seen(self, space: spaces.Space[Any], *, of_actions: bool = False) -> spaces.Space[Any]:
        """A space of the environment's as the agent sees it; actions are not cast by `dtypes`."""
        out = self._outgoing
        return seen_from(
            space, Converter(out.framework, out.device, dtypes=None if of_actions else out.dtypes)
        )

    def _warn(self, name: str, path: Callable[[], str], leaf: Any) -> None:
        if name not in ("obs", "action") or len(self._warned) >= _MANY_WARNINGS or path() in self._warned:
            return
        self._warned.add(path())
        target = (self._incoming if name == "action" else self._outgoing).framework.name
        text = f"{path()}: {describe(leaf)} has no counterpart in {target}, and stays as it is"
        warn_agent(text, KeptWarning)


def _rebuild(action_space: spaces.Space[Any], arguments: dict[str, Any], arrays: Literal[1, 4]) -> Boundary:
    for name in (arguments["env_xp"], arguments["target_xp"]):
        if name is not None:
            known_again(name)
    return Boundary(action_space, **arguments, arrays=arrays)


class Crossing(Generic[ArrayT]):
    """What is the same in both wrappers."""

    env: Any
    _boundary: Boundary

    def _record(self, **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)  # type: ignore[arg-type]

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[ArrayT, dict[str, Any]]:
        """Start an episode; options may be of any framework."""
        options = self._boundary.enter_options(options)
        *box, info = returned(self.env.reset(seed=seed, options=options), "reset", RESET)
        infos = [info]
        del info  # so that the boxes alone hold what they hold
        return self._boundary.leave_one(box), self._boundary.leave_info(infos)

    def render(self) -> Any:
        """The frames as NumPy arrays, for people and for video writers."""
        return numpy_converter().unbox([self.env.render()], ("render",))[0]


class Pair:
    """What a named pair adds to the wrapper: it binds the two frameworks, and nothing else.

    A pair is a row: `class NumpyToTorch(Pair, ArrayConversion["torch.Tensor"], pair="numpy torch")`.
    """

    _pair: ClassVar[tuple[str, str]]
    _boundary: Boundary

    def __init_subclass__(cls, pair: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if pair:
            source, target = pair.split()
            cls._pair = source, target

    def __init__(self, env: Any, device: Any = None, **options: Any) -> None:
        """Wrap an environment; `device` is where the agent's arrays go."""
        source, target = self._pair
        super().__init__(env, source, target, None, device, **options)  # type: ignore[call-arg]

    def _record(self, **arguments: Any) -> None:
        bound = "env_xp", "target_xp", "env_device", "target_device"
        options = {name: value for name, value in arguments.items() if name not in bound}
        super()._record(device=arguments["target_device"], **options)  # type: ignore[misc]

    @property
    def device(self) -> Any:
        """Where the agent's arrays go, as it was given; of a copy, by name."""
        return self._boundary.device


def returned(values: Any, call: str, names: Sequence[str]) -> Any:
    """What an environment's method returned, if it is as many values as there are names."""
    if isinstance(values, (tuple, list)) and len(values) == len(names):
        return values
    got = f"{len(values)} values" if isinstance(values, (tuple, list)) else f"a {type(values).__name__}"
    raise UnsupportedError(
        f"the environment's {call}() returned {got}, not ({', '.join(names)})",
        "is it of an older interface? Gymnasium's documentation says how to make it a gymnasium.Env",
    )


def one_of(name: str, value: str, *choices: str) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise OptionError(f"{name}={value!r}", f"it is one of {', '.join(map(repr, choices))}")


def with_arrays(result: Any) -> Any:
    """What a step returned, its Python bools as NumPy scalars, so that they cross as arrays."""
    obs, reward, *flags, info = returned(result, "step", STEP)
    return obs, reward, *(np.bool_(flag) if type(flag) is bool else flag for flag in flags), info
