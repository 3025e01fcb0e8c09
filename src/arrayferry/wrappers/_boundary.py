"""The boundary between an environment and its agent: actions go in, what a step returns comes out.

What a step returns, and which parts of it are numbers and flags, is known here and nowhere below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from arrayferry._core.containers import container_of
from arrayferry._core.convert import Converter, Namespace, keeping_numbers
from arrayferry._core.dtypes import dtype_name, is_known
from arrayferry._core.framework import Framework
from arrayferry._core.interruptions import is_from_handler
from arrayferry._core.messages import warn_caller, with_article
from arrayferry._core.registry import (
    can_make_arrays,
    describe,
    find_framework,
    find_unpickled_framework,
    framework_of,
    registered,
)
from arrayferry._core.walk import Slot
from arrayferry.errors import (
    DeviceError,
    FerryError,
    FrameworkWarning,
    KeptWarning,
    SharingError,
    UnsupportedError,
)
from arrayferry.spaces.batched import action_space_of
from arrayferry.spaces.casting import cast_reward, known_dtype
from arrayferry.spaces.members import Caster, member_caster, shape_of, stacked
from arrayferry.spaces.target import convert_space
from arrayferry.wrappers._actions import (
    MakesSpaces,
    live_member_caster,
    note_mismatch,
    owner_of_action_space,
)
from arrayferry.wrappers._detect import arrays_in, known_framework, suggested_framework
from arrayferry.wrappers._numbers import each_flag, each_flag_array, each_number, flag_of, number_of
from arrayferry.wrappers._rows import batch_devices, converted_by, row_reader, split_observation

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["RESET", "STEP", "Boundary", "checked"]

_T = TypeVar("_T")

# What the values that an environment returns are called in messages.
RESET = ("obs", "info")
STEP = ("obs", "reward", "terminated", "truncated", "info")

# Nobody reads more warnings than this, and making the paths takes time.
_MANY_WARNINGS = 100

# If the current process has another id, it was forked after this module was imported.
_IMPORTED_IN = os.getpid()


class Boundary:
    """Converts what goes into an environment and what comes out of it.

    Args:
        env: the environment; actions arrive as members of its action space.
        env_xp: the environment's framework; None to learn it from the environment's class and attributes,
            or from the first array that it returns.
        target_xp: the agent's framework.
        env_device: where actions go.
        target_device: where everything else goes.
        copy: as for `convert`, in both directions.
        dtypes: as for `convert`, for what the environment returns.
        reward_dtype: the dtype that the reward is cast to, whatever `dtypes` says; None for its own.
        scalars: `"python"` if reward, terminated and truncated become `float` and `bool`, `"target"` if
            they become arrays.
        action_name: what an action is called in messages.

    Attributes:
        outgoing: converts what comes out; if a vector environment's rows go to many devices, only the rows.
        local: converts everything else that comes out.
        action_space: the space that actions become members of.
        convert_action: from an action to a member of the action space, in the environment's framework.
        has_answered: whether a reset, or an observation, has come out.
        convert_step: from a list with the only reference to a step's result, to the result for the agent.
        convert_reset: the same for a reset.
    """

    def __init__(
        self,
        env: Any,
        env_xp: Namespace | None,
        target_xp: Namespace,
        env_device: Any = None,
        target_device: Any = None,
        copy: bool | None = None,
        dtypes: Mapping[Any, Any] | None = None,
        reward_dtype: Any = None,
        scalars: Literal["python", "target"] = "python",
        action_name: str = "action",
    ) -> None:
        self._env, self._action_name = env, action_name
        self._scalars: Literal["python", "target"] = scalars
        self._reward_dtype = known_dtype(reward_dtype)
        self._env_device, self.target_device = env_device, target_device
        self._is_learning, self._has_assumed, self.has_answered = env_xp is None, False, False
        self._warned: set[str] = set()
        self._take_action_space(action_space_of(env))
        target = find_framework(target_xp)
        batches, others = batch_devices(target, target_device, env)
        self.outgoing = Converter(target, batches, copy=copy, dtypes=dtypes)
        self._is_split = batches is not others
        self.local = Converter(target, others, copy=copy, dtypes=dtypes) if self._is_split else self.outgoing
        if self._is_learning:
            self.outgoing._on_array = self.local._on_array = self._learn
        self._set_env_framework("numpy" if env_xp is None else env_xp, None if env_xp is None else env_device)
        walker = self.outgoing._walker
        unpack = walker(self._step_slots(), partial(checked, "step", STEP)).unpack
        self.convert_step: Callable[[list[Any]], tuple[Any, Any, Any, Any, Any]] = (
            unpack if scalars == "python" else self._arrays_converter(unpack)
        )
        self.convert_reset: Callable[[list[Any]], tuple[Any, Any]] = walker(
            [self._observation(), self._info()], partial(checked, "reset", RESET)
        ).unpack

    def _set_env_framework(self, env_xp: Namespace, device: Any) -> None:
        """Make actions and options arrive in this framework."""
        copy = self.outgoing.copy
        self.incoming = Converter(env_xp, device, copy=copy)
        convert_options = keeping_numbers(env_xp, device, copy=copy)._walker([Slot("options")]).convert
        self._convert_options = self._reading_rows("options", lambda options: convert_options([options]))
        name = self._action_name
        slot = Slot(name, on_keep=partial(self._warn, self.incoming))
        to_env = self.incoming._walker([slot]).convert
        cast = member_caster(self.action_space, self.incoming)

        def convert_any(action: Any) -> Any:
            try:
                return cast(to_env([action]))
            except FerryError as error:
                raise error.at(name)  # noqa: B904  (it is the same error)

        self._convert_any_action = self._reading_rows(name, convert_any)
        self._convert_known_action = self._reading_rows(name, self._known_action_converter(cast))
        is_first = self._is_learning and not self._has_assumed
        self.convert_action: Callable[[Any], Any] = (
            self._convert_first_action if is_first else self._convert_known_action
        )

    def _reading_rows(self, name: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that converts only this process's rows of what the agent passes."""
        if not self._is_split:
            return convert
        read = row_reader(name, self.outgoing)
        return lambda value: convert(read(value))

    def _known_action_converter(self, cast: Caster) -> Caster:
        return live_member_caster(
            self._space_owner,
            self.incoming,
            cast,
            self._convert_any_action,
            self._convert_after_refresh,
            getattr(type(self._env), "reads_actions_at_once", False),
        )

    def _convert_first_action(self, action: Any) -> Any:
        self._detect()
        self.convert_action = self._convert_known_action
        return self.convert_action(action)

    def _convert_after_refresh(self, action: Any) -> Any:
        self.refresh_action_space()
        return self.convert_action(action)

    def refresh_action_space(self) -> None:
        """Use the action space that the environment has now."""
        made = isinstance(self._space_owner, MakesSpaces)
        space = (self._space_owner if made else self._env).action_space
        if space is not self.action_space:
            self._take_action_space(space)
            self._set_env_framework(self.incoming.framework, self.incoming.device)

    def _take_action_space(self, space: spaces.Space[Any]) -> None:
        self.action_space, self._space_owner = space, owner_of_action_space(self._env, space)

    def _observation(self) -> Slot:
        slot = Slot("obs", on_keep=partial(self._warn, self.outgoing))
        if not self._is_split:
            return slot
        return split_observation(slot, self._env, self.outgoing, self.local)

    def _info(self) -> Slot:
        # The keys of infos differ between processes, so an info stays in the process that made it.
        slot = Slot("info")
        return converted_by(self.local, slot) if self._is_split else slot

    def _step_slots(self) -> list[Slot]:
        if self._scalars == "target":
            flags = [*map(Slot, STEP[2:4])]
        else:
            flags = [Slot(name, scalar=partial(self._flag, name), passes=bool) for name in STEP[2:4]]
        return [self._observation(), self._reward(), *flags, self._info()]

    def _reward(self) -> Slot:
        dtype, is_python = self._reward_dtype, self._scalars == "python"
        if dtype is None:
            slot = Slot("reward", on_keep=self._refuse_kept)
            return slot._replace(scalar=self._number, passes=float) if is_python else slot
        out = self.outgoing
        to_target = Converter(out.framework, out.device, copy=out.copy)  # without `dtypes`
        finish = self._number if is_python else to_target.take

        def cast(reward: Any) -> Any:
            self.learn_from([reward])  # before it is cast
            return finish(cast_reward(dtype, each_number("reward", reward), share=out.copy is False))

        return Slot("reward", scalar=cast)

    def _refuse_if_unusable(self) -> None:
        """Raise if the environment's framework cannot compute here, as JAX cannot in a forked process."""
        if os.getpid() == _IMPORTED_IN:
            return
        env = self._env
        found = (known_framework(env) or suggested_framework(env)) if self._is_learning else None
        framework = self.incoming.framework if found is None else found[0]
        framework.devices.find(None)

    def convert_options(self, options: _T) -> _T:
        """Convert the arrays in a call's options to the environment's framework; numbers stay numbers."""
        self._refuse_if_unusable()
        if options and self._is_learning and next(arrays_in(options), None) is not None:
            self._detect()
        found: _T = self._convert_options(options)
        return found

    def convert_space(
        self, space: spaces.Space[Any], *, of_actions: bool = False, single: bool = False
    ) -> spaces.Space[Any]:
        """Return one of the environment's spaces as the agent sees it; `dtypes` does not cast actions.

        The space of a single one of many environments has no rows to split.
        """
        out = self.local if single else self.outgoing
        dtypes = None if of_actions else out.dtypes
        return convert_space(space, Converter(out.framework, out.device, dtypes=dtypes))

    def add_note(self, error: Exception, action: Any) -> None:
        """Add to an environment's error what arrived and what its action space takes, if they disagree."""
        convert, name = self._convert_any_action, self._action_name
        note_mismatch(error, self._env, self.action_space, action, convert, name)

    # ---- numbers and flags ----------------------------------------------------------------------------

    def _number(self, reward: Any, path: str = "reward") -> Any:
        if self._is_learning and (framework := framework_of(type(reward))) is not None:
            self._learn(framework, reward)
        try:
            return number_of(reward)
        except (TypeError, ValueError, RuntimeError) as error:  # several rewards: one per objective or agent
            if is_from_handler(error):
                raise
            return self._converted(path, each_number(path, reward))
        except FerryError as error:
            raise error.at(path)  # noqa: B904  (it is the same error)

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
            many = "is it a vector environment? arrayferry.wrap chooses the right wrapper"
            raise UnsupportedError(what, many if is_many else "let the environment return a bool") from error

    def _converted(self, name: str, value: Any) -> Any:
        return self.outgoing._walker([Slot(name, on_keep=self._refuse_kept)]).convert([value])

    def _refuse_kept(self, name: str, path: Callable[[], str], leaf: Any) -> None:
        what = f"{describe(leaf)} has no counterpart in {self.outgoing.framework.name}"
        raise UnsupportedError(what, 'cast it, for example by reward_dtype="float64"', path())

    def _arrays_converter(self, unpack: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """Return a function for steps whose reward becomes an array of real numbers, and flags of bools."""
        nothing: Any = None
        kind = number = flag = nothing  # the arrays' type and dtypes that need no check
        checks = each_number, each_flag_array, each_flag_array

        def convert(box: list[Any]) -> Any:
            nonlocal kind, number, flag
            is_plain = False
            match box[0]:
                case (_, reward, terminated, truncated, _) if (
                    type(reward) is type(terminated) is type(truncated) is kind
                ):
                    is_plain = terminated.dtype is truncated.dtype is flag and reward.dtype is number
            reward = terminated = truncated = None  # so that the box alone holds them
            if is_plain:
                return unpack(box)
            self.learn_from(box)
            obs, *values, info = checked("step", STEP, box.pop())
            new = [self._rows(*each) for each in zip(checks, STEP[1:4], values)]
            if all(map(is_, new, values)):
                kind, number, flag = type(new[0]), getattr(new[0], "dtype", None), new[1].dtype
            box = [(obs, *new, info)]
            del obs, values, new, info
            return unpack(box)

        return convert

    def _rows(self, check: Callable[[str, Any], Any], name: str, values: Any) -> Any:
        """Return checked numbers or flags; a list with one for each environment as an array."""
        new = check(name, values)
        old = dtype_name(getattr(values, "dtype", "object"))
        if old == "object" and isinstance(new, (list, tuple, np.ndarray)):
            rows = stacked([*new.flat] if isinstance(new, np.ndarray) else new)
            return rows if shape_of(rows) == (getattr(self._env, "num_envs", None),) else new
        if self.outgoing.copy is False and shape_of(values) and dtype_name(new.dtype) != old:
            raise SharingError(f"{describe(values)} is not {new.dtype}", "copy=None, which casts it", name)
        return new

    # ---- the environment's framework, learned ---------------------------------------------------------

    def _detect(self) -> None:
        """Learn the environment's framework before any array goes in, or assume one.

        An environment that returned no array so far takes none, as far as we know: NumPy is assumed. If it
        returned nothing so far, what it holds decides, until an array comes out.
        """
        if self._has_assumed:
            return
        if (found := known_framework(self._env)) is not None:
            self._is_learning = False
        elif not self.has_answered and (found := suggested_framework(self._env)) is not None:
            name = found[0].name
            what = f"this environment holds {name} arrays, and is given {name} arrays before it returned any"
            warn_caller(f'{what}: pass env_xp="{name}", or the framework that it takes', FrameworkWarning)
        self._has_assumed = self._is_learning
        if found is not None:
            self._set_env_framework(found[0], found[1] if self._env_device is None else self._env_device)

    def learn_from(self, values: Any) -> None:
        """Learn from what the environment returned, before anything is done to it."""
        if self._is_learning:
            any(self._learn(framework, array) for framework, array in arrays_in(values))

    def _learn(self, framework: Framework, array: Any) -> bool:
        """Learn the environment's framework and device from one of its arrays; return whether it is known."""
        # Text reveals nothing: environments of every framework return it.
        if self._is_learning and can_make_arrays(framework) and is_known(getattr(array, "dtype", "")):
            here = framework.devices.of(array) if self._env_device is None else self._env_device
            assumed, self._is_learning = self.incoming.framework.name, False
            try:
                self._set_env_framework(framework, here)
            except FerryError:  # the device does not exist there: learn again next time
                self._is_learning = True
                raise
            if self._has_assumed and framework.name != assumed:
                what = (
                    f"this environment returns {framework.name} arrays, but was first given {assumed} arrays"
                )
                warn_caller(f'{what}: pass env_xp="{framework.name}"', FrameworkWarning)
        return not self._is_learning

    # ---- recorded, pickled, warned --------------------------------------------------------------------

    def arguments(self) -> dict[str, Any]:
        """Return the arguments as a spec records them, with frameworks and devices by name."""
        return {
            "env_xp": None if self._is_learning else self.incoming.framework.name,
            "target_xp": self.outgoing.framework.name,
            "env_device": _name_of_device(self._env_device)
            if self._is_learning
            else self.incoming.device_name,
            "target_device": self.outgoing.device_name,
            "copy": self.outgoing.copy,
            "dtypes": self.outgoing.dtypes or None,
            "reward_dtype": None if self._reward_dtype is None else self._reward_dtype.name,
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> Boundary:
        records: dict[str, Any] = {"target_xp": self.outgoing.framework}  # which need not be registered
        if not self._is_learning:
            records["env_xp"] = self.incoming.framework
        env = deepcopy(self._env, memo)
        copied = type(self)(env, **(self.arguments() | records), scalars=self._scalars)
        copied.has_answered = self.has_answered
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = type(self), self._env, self.arguments(), self._scalars
        return _rebuild, arguments, {"has_answered": self.has_answered}

    def _warn(self, to: Converter, name: str, path: Callable[[], str], leaf: Any) -> None:
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


def _name_of_device(device: Any) -> Any:
    """Return the name of a device of any imported framework."""
    if device is None or isinstance(device, (str, dict)):
        return device
    for framework in registered().values():
        if framework.modules[0] in sys.modules:
            with suppress(FerryError):
                if (found := framework.devices.find(device)) is not None:
                    return framework.devices.name(found)
    what = f"env_device: {with_article(type(device).__name__)} is not a device of any imported framework"
    raise DeviceError(what, "pass its name")


def _rebuild(kind: type[Boundary], env: Any, arguments: dict[str, Any], scalars: Any) -> Boundary:
    for name in (arguments["env_xp"], arguments["target_xp"]):
        if name is not None:
            find_unpickled_framework(name)
    return kind(env, **arguments, scalars=scalars)


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
