"""What an environment returns, on its way to the agent.

What a step returns, and which parts of it are numbers and flags, is known here and nowhere below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from arrayferry._boundary.detect import ArrayWatch
from arrayferry._boundary.numbers import each_flag, each_flag_array, each_number, flag_of, number_of
from arrayferry._core.containers import container_of
from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import dtype_name
from arrayferry._core.interruptions import is_from_handler
from arrayferry._core.messages import warn_caller, with_article
from arrayferry._core.registry import describe, framework_of
from arrayferry._core.walk import Slot
from arrayferry.errors import FerryError, KeptWarning, SharingError, UnsupportedError
from arrayferry.spaces.casting import cast_reward
from arrayferry.spaces.members import shape_of, stacked

__all__ = ["RESET", "STEP", "Answers", "Unpack", "checked"]

# From a list with the only reference to what an environment returned, to the same for the agent.
Unpack: TypeAlias = Callable[[list[Any]], Any]

# What the values that an environment returns are called in messages.
RESET = ("obs", "info")
STEP = ("obs", "reward", "terminated", "truncated", "info")

# Nobody reads more warnings than this, and making the paths takes time.
_MANY_WARNINGS = 100


@dataclass(eq=False)
class Answers:
    """Converts the results of an environment's steps and resets.

    Args:
        env: the environment.
        outgoing: converts them; if a vector environment's rows go to many devices, only the rows.
        local: converts everything else.
        reward_dtype: the dtype that the reward is cast to, or None.
        scalars: as for `Boundary`.
    """

    env: Any
    outgoing: Converter
    local: Converter
    reward_dtype: np.dtype[Any] | None
    scalars: Literal["python", "target"]

    def __post_init__(self) -> None:
        self._without_dtypes = Converter(
            self.outgoing.framework, self.outgoing.device, copy=self.outgoing.copy
        )
        self._warned: set[str] = set()
        self._step_slots = self.step_slots()

    def converters(self, watch: ArrayWatch | None = None) -> tuple[Unpack, Unpack]:
        """Return `convert_step` and `convert_reset`; a `watch` sees the arrays that they convert."""
        slots, reset_slots = self._step_slots, [self._observation(), self._info()]
        step: Callable[[Any], Any] = self._checked_step
        reset: Callable[[Any], Any] = partial(checked, "reset", RESET)
        handlers = None
        if watch is not None:
            slots, reset_slots = [*map(watch.slot, slots)], [*map(watch.slot, reset_slots)]
            step, handlers = watch.before(step), watch.handlers(self.outgoing.decide_handler)
        unpack_step = self.outgoing.walker(slots, step, handlers).unpack
        return unpack_step, self.outgoing.walker(reset_slots, reset, handlers).unpack

    def _observation(self) -> Slot:
        return Slot("obs", on_keep=partial(self.warn_kept, self.outgoing))

    def _info(self) -> Slot:
        # The keys of infos differ between processes, so an info stays in the process that made it.
        slot = Slot("info")
        if self.local is self.outgoing:
            return slot
        convert = self.local.walker([slot]).convert
        return slot._replace(scalar=lambda info: convert([info]))

    def step_slots(self) -> list[Slot]:
        """Return the slots of a step's result."""
        if self.scalars == "python":
            numbers = [Slot(name, scalar=partial(self._flag, name), kept_type=bool) for name in STEP[1:4]]
            numbers[0] = Slot("reward", scalar=partial(self._number, "reward"), kept_type=float)
        else:
            numbers = [Slot(name, self._refuse_kept, expects=[None, None]) for name in STEP[1:4]]
        if self.reward_dtype is not None:
            cast = partial(self._cast_reward, self.reward_dtype)
            numbers[0] = numbers[0]._replace(scalar=cast, kept_type=None)
        return [self._observation(), *numbers, self._info()]

    def _cast_reward(self, dtype: np.dtype[Any], reward: Any) -> Any:
        finish = partial(self._number, "reward") if self.scalars == "python" else self._without_dtypes.take
        return finish(cast_reward(dtype, each_number("reward", reward), share=self.outgoing.copy is False))

    # ---- numbers and flags ----------------------------------------------------------------------------

    def _number(self, name: str, reward: Any) -> Any:
        try:
            return number_of(reward)
        except (TypeError, ValueError, RuntimeError) as error:  # several rewards: one per objective or agent
            if is_from_handler(error):
                raise
            return self._converted(name, each_number(name, reward))
        except FerryError as error:
            raise error.at(name)  # noqa: B904  (it is the same error)

    def _flag(self, name: str, value: Any) -> Any:
        is_objects = isinstance(value, np.ndarray) and value.dtype.hasobject
        if type(value) is not np.bool_ and (is_objects or container_of(type(value)) is not None):
            return self._converted(name, each_flag(name, value))  # one flag per agent
        try:
            return flag_of(value)
        except (TypeError, ValueError, RuntimeError) as error:
            if is_from_handler(error):
                raise
            what = f"{name} is {describe(value)}, not a single bool"
            is_many = bool(getattr(value, "shape", ()))
            many = (
                "is it a vector environment? arrayferry.wrap chooses the right wrapper; or a simulator that "
                "returns batches? arrayferry.envs.as_gymnasium(env, autoreset_mode=...) opens it"
            )
            raise UnsupportedError(what, many if is_many else "let the environment return a bool") from error

    def _converted(self, name: str, value: Any) -> Any:
        return self.outgoing.walker([Slot(name, on_keep=self._refuse_kept)]).convert([value])

    def _refuse_kept(self, name: str, path: Callable[[], str], leaf: Any) -> None:
        what = f"{describe(leaf)} has no counterpart in {self.outgoing.framework.name}"
        raise UnsupportedError(what, 'cast it, for example by reward_dtype="float64"', path())

    def _checked_step(self, result: Any) -> tuple[Any, ...]:
        """Return a step's result; rewards that become arrays are numbers in it, and flags are bools."""
        obs, *values, info = checked("step", STEP, result)
        if self.scalars == "python":
            return obs, *values, info
        checks = each_number, each_flag_array, each_flag_array
        new = [self._rows(*each) for each in zip(checks, STEP[1:4], values)]
        for slot, value, old in zip(self._step_slots[1:4], new, values):
            if value is old and slot.expects is not None and hasattr(value, "dtype"):
                slot.expects[:] = type(value), value.dtype  # its kind needs no check from now on
        return obs, *new, info

    def _rows(self, check: Callable[[str, Any], Any], name: str, values: Any) -> Any:
        """Return checked numbers or flags; a list with one for each environment as an array."""
        new = check(name, values)
        old = dtype_name(getattr(values, "dtype", "object"))
        if old == "object" and isinstance(new, (list, tuple, np.ndarray)):
            rows = stacked([*new.flat] if isinstance(new, np.ndarray) else new)
            return rows if shape_of(rows) == (getattr(self.env, "num_envs", None),) else new
        if self.outgoing.copy is False and shape_of(values) and dtype_name(new.dtype) != old:
            raise SharingError(f"{describe(values)} is not {new.dtype}", "copy=None, which casts it", name)
        return new

    def warn_kept(self, to: Converter, name: str, path: Callable[[], str], leaf: Any) -> None:
        """Warn of a leaf that has no counterpart, once for each path or class."""
        cls = type(leaf)
        if framework_of(cls) is None and not isinstance(leaf, (np.generic, complex)):  # of an unknown class
            known = f"{cls.__module__}.{cls.__qualname__}"
            if to is self.outgoing and known not in self._warned and len(self._warned) < _MANY_WARNINGS:
                self._warned.add(known)
                what = f"{path()}: {with_article(cls.__qualname__)} holds arrays, which stay as they are"
                how = f"arrayferry.register_container({cls.__qualname__}, values=..., build=...)"
                warn_caller(f"{what}; to have them converted, call {how}", KeptWarning)
        elif len(self._warned) < _MANY_WARNINGS and (where := path()) not in self._warned:
            self._warned.add(where)
            what = f"{describe(leaf)} has no counterpart in {to.framework.name}"
            warn_caller(f"{where}: {what}, and stays as it is", KeptWarning)


def checked(call: str, names: Sequence[str], values: Any) -> tuple[Any, ...]:
    """Return the values that an environment's method returned, if there are as many as names."""
    if isinstance(values, (tuple, list)) and len(values) == len(names):
        return tuple(values)
    is_many = isinstance(values, (tuple, list))
    got = f"{len(values)} values" if is_many else with_article(type(values).__name__)
    raise UnsupportedError(
        f"the environment's {call}() returned {got}, not ({', '.join(names)})",
        "does it use an older interface? Gymnasium's documentation says how to turn it into a gymnasium.Env",
    )
