"""The boundary between an environment and its agent: actions go in, what a step returns comes out."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from arrayferry._boundary import actions
from arrayferry._boundary.answers import Answers, Unpack
from arrayferry._boundary.detect import ArrayWatch, arrays_in, suggested_framework
from arrayferry._boundary.rows import batch_devices, row_reader
from arrayferry._core.convert import ArrayConverter, Converter, Namespace
from arrayferry._core.framework import Framework
from arrayferry._core.messages import warn_caller, with_article
from arrayferry._core.registry import find_framework, source_of
from arrayferry._core.walk import Slot
from arrayferry.errors import DeviceError, FerryError, FrameworkWarning
from arrayferry.spaces.casting import known_dtype
from arrayferry.spaces.members import Caster, member_caster
from arrayferry.spaces.structure import step_space
from arrayferry.spaces.target import convert_space

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["Boundary", "State", "boundary_of"]

_T = TypeVar("_T")

# If the current process has another id, it was forked after this module was imported.
_IMPORTED_IN = os.getpid()


def _nothing_known(env: Any) -> None:
    """Return None; it can be pickled."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a boundary knows about its environment, and what follows; replaced as a whole, between walks.

    Attributes:
        to_env: converts to the environment's framework.
        is_known: whether that framework is known; otherwise, the environment's next array tells.
        has_assumed: whether arrays went in before it was known.
        action_space: the space that actions become members of.
        space_owner: what has it: see `owner_of_action_space`.
        convert_action: from an action to a member of the action space, in the environment's framework.
        convert_any_action: the same, without a fast path for the most common ones.
        convert_options: from options to the environment's framework.
        convert_step: from a list with the only reference to a step's result, to the result for the agent.
        convert_reset: the same for a reset.
        agents: the boundaries of single agents, which are made when they first act.
    """

    to_env: Converter
    is_known: bool
    has_assumed: bool
    action_space: spaces.Space[Any]
    space_owner: Any
    convert_action: Caster
    convert_any_action: Caster
    convert_options: Caster
    convert_step: Unpack
    convert_reset: Unpack
    agents: dict[Hashable, Boundary]


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
        known: returns the framework and the device of the arrays that an environment takes; None if it is
            not known. Asked before anything goes in, unless there is an `env_xp`.
        reads_at_once: whether the environment is done with an action when its step returns, so that it may
            be given the agent's own memory.

    Attributes:
        outgoing: converts what comes out; if a vector environment's rows go to many devices, only the rows.
        local: converts everything else that comes out.
        state: what is known about the environment. Another thread sees either the old or the new one.
        has_answered: whether a reset, or an observation, has come out.
    """

    _answers_class = Answers

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
        known: Callable[[Any], tuple[Framework, Any] | None] = _nothing_known,
        reads_at_once: bool = False,
    ) -> None:
        self._facts: dict[str, Any] = {"scalars": scalars, "known": known, "reads_at_once": reads_at_once}
        self._env, self._known, self._action_name = env, known, action_name
        self._reward_dtype = known_dtype(reward_dtype)
        self._env_device, self.target_device = env_device, target_device
        self.has_answered = False
        target = find_framework(target_xp)
        batches, others = batch_devices(target, target_device, env)
        self.outgoing = Converter(target, batches, copy=copy, dtypes=dtypes)
        self._is_split = batches is not others
        self.local = Converter(target, others, copy=copy, dtypes=dtypes) if self._is_split else self.outgoing
        self._answers = self._answers_class(env, self.outgoing, self.local, self._reward_dtype, scalars)
        space = step_space(env, "action_space")
        if env_xp is None:
            if env_device is not None and not isinstance(env_device, (str, dict)):
                what = f"env_device: {with_article(type(env_device).__name__)} is not a device of NumPy's"
                raise DeviceError(what, "pass its name, or its framework as env_xp=, too")
            self.state = self._new_state("numpy", None, space, is_known=False)
        else:
            self.state = self._new_state(env_xp, env_device, space)

    def _new_state(
        self,
        env_xp: Namespace,
        device: Any,
        space: spaces.Space[Any],
        *,
        is_known: bool = True,
        has_assumed: bool = False,
    ) -> State:
        """Return the state in which actions arrive in this framework, on this device, in this space."""
        copy, name = self.outgoing.copy, self._action_name
        to_env, owner = Converter(env_xp, device, copy=copy), actions.owner_of_action_space(self._env, space)
        walk_options = ArrayConverter(env_xp, device, copy=copy).walker([Slot("options")]).convert
        walk_action = to_env.walker([Slot(name, on_keep=partial(self._answers.warn_kept, to_env))]).convert
        cast = member_caster(space, to_env)

        def convert_any(action: Any) -> Any:
            try:
                return cast(walk_action([action]))
            except FerryError as error:
                raise error.at(name)  # noqa: B904  (it is the same error)

        convert_any_action = self._reading_rows(name, convert_any)
        reads_at_once = self._facts["reads_at_once"]
        convert_action = actions.live_member_caster(
            owner, to_env, cast, convert_any_action, self._convert_after_refresh, reads_at_once
        )
        is_first = not (is_known or has_assumed)
        step, reset = self._answers.converters(None if is_known else ArrayWatch(self._learn))
        return State(
            to_env=to_env,
            is_known=is_known,
            has_assumed=has_assumed,
            action_space=space,
            space_owner=owner,
            convert_action=self._convert_first if is_first else self._reading_rows(name, convert_action),
            convert_any_action=convert_any_action,
            convert_options=self._reading_rows("options", lambda options: walk_options([options])),
            convert_step=step,
            convert_reset=reset,
            agents={},
        )

    def _reading_rows(self, name: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that converts only this process's rows of what the agent passes."""
        if not self._is_split:
            return convert
        read = row_reader(name, self.outgoing)
        return lambda value: convert(read(value))

    def _convert_first(self, action: Any) -> Any:
        self._detect()
        return self.state.convert_action(action)

    def _convert_after_refresh(self, action: Any) -> Any:
        self.refresh_action_space()
        return self.state.convert_action(action)

    def refresh_action_space(self) -> None:
        """Use the action space that the environment has now."""
        state = self.state
        is_cached = isinstance(state.space_owner, actions.CachedActionSpace)
        space = (state.space_owner if is_cached else self._env).action_space
        if space is not state.action_space:
            known = {"is_known": state.is_known, "has_assumed": state.has_assumed}
            self.state = self._new_state(state.to_env.framework, state.to_env.device, space, **known)

    def convert_action(self, action: Any) -> Any:
        """Convert an action to a member of the action space, in the environment's framework."""
        return self.state.convert_action(action)

    def convert_step(self, box: list[Any]) -> Any:
        """Convert a step's result, of which the list has the only reference, for the agent."""
        return self.state.convert_step(box)

    def convert_reset(self, box: list[Any]) -> Any:
        """Convert a reset's result, of which the list has the only reference, for the agent."""
        return self.state.convert_reset(box)

    def _refuse_if_unusable(self) -> None:
        """Raise if the environment's framework cannot compute here, as JAX cannot in a forked process."""
        if os.getpid() == _IMPORTED_IN:
            return
        env, state = self._env, self.state
        detected = None if state.is_known else self._known(env) or suggested_framework(env)
        framework = state.to_env.framework if detected is None else detected[0]
        framework.find_device(None)

    def convert_options(self, options: _T) -> _T:
        """Convert the arrays in a call's options to the environment's framework; numbers stay numbers."""
        self._refuse_if_unusable()
        if options and not self.state.is_known and next(arrays_in(options), None) is not None:
            self._detect()
        converted: _T = self.state.convert_options(options)
        return converted

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
        state = self.state
        actions.note_mismatch(
            error, self._env, state.action_space, action, state.convert_any_action, self._action_name
        )

    # ---- the environment's framework, learned ---------------------------------------------------------

    def _detect(self) -> None:
        """Learn the environment's framework before any array goes in, or assume one.

        An environment that returned no array so far takes none, as far as we know: NumPy is assumed. If it
        returned nothing so far, what it holds decides, until an array comes out.
        """
        state = self.state
        if state.is_known or state.has_assumed:
            return
        is_known = (detected := self._known(self._env)) is not None
        if not (is_known or self.has_answered) and (detected := suggested_framework(self._env)) is not None:
            name = detected[0].name
            what = f"this environment holds {name} arrays, and is given {name} arrays before it returned any"
            warn_caller(f'{what}: pass env_xp="{name}", or the framework that it takes', FrameworkWarning)
        framework, device = detected or (state.to_env.framework, None)
        if detected is not None and self._env_device is not None:
            device = self._env_device
        known = {"is_known": is_known, "has_assumed": not is_known}
        self.state = self._new_state(framework, device, state.action_space, **known)

    def learn_from(self, values: Any) -> None:
        """Learn the framework and the device from what the environment returned, before it is changed."""
        if not self.state.is_known:
            for found in islice(arrays_in(values), 1):
                self._learn(*found)

    def _learn(self, framework: Framework, array: Any) -> None:
        """Use the framework and the device of the first array that the environment returns."""
        state = self.state
        if state.is_known:
            return
        device = source_of(array).device_of(array) if self._env_device is None else self._env_device
        self.state = self._new_state(framework, device, state.action_space)
        assumed = state.to_env.framework.name
        if state.has_assumed and framework.name != assumed:
            what = f"this environment returns {framework.name} arrays, but was first given {assumed} arrays"
            warn_caller(f'{what}: pass env_xp="{framework.name}"', FrameworkWarning)

    # ---- recorded, pickled, warned --------------------------------------------------------------------

    def arguments(self) -> dict[str, Any]:
        """Return the arguments as a spec records them, with frameworks and devices by name."""
        state = self.state
        to_env, is_known = state.to_env, state.is_known
        return {
            "env_xp": to_env.framework.name if is_known else None,
            "target_xp": self.outgoing.framework.name,
            "env_device": to_env.device_name if is_known else self._env_device,
            "target_device": self.outgoing.device_name,
            "copy": self.outgoing.copy,
            "dtypes": self.outgoing.dtypes or None,
            "reward_dtype": None if self._reward_dtype is None else self._reward_dtype.name,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        to_env = self.state.to_env if self.state.is_known else None
        arguments = type(self), self._env, to_env, self.outgoing, self.arguments() | self._facts
        return _rebuild, arguments, {"has_answered": self.has_answered}


def boundary_of(env: Any) -> Any:
    """Return the boundary of a conversion wrapper; None for anything else."""
    return vars(env).get("_boundary") if hasattr(env, "__dict__") else None


def _rebuild(
    kind: type[Boundary], env: Any, to_env: Converter | None, outgoing: Converter, arguments: dict[str, Any]
) -> Boundary:
    # The frameworks of a copy need not be registered.
    env_xp = None if to_env is None else to_env.framework
    return kind(env, **arguments | {"env_xp": env_xp, "target_xp": outgoing.framework})
