"""What all wrappers share, and what a named pair adds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from gymnasium.utils import RecordConstructorArgs

from arrayferry._core.convert import Namespace
from arrayferry._core.messages import refuse_choice
from arrayferry.errors import OptionError
from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers._boundary import Boundary
from arrayferry.wrappers._function import Device, module_namespace
from arrayferry.wrappers._prepare import Prepare, cast_reset, cast_step
from arrayferry.wrappers._tensordict import TensorDictBoundary
from arrayferry.wrappers._watch import recorded, watched

__all__ = ["ArrayT", "ConversionWrapper", "Pair", "space_property"]

ArrayT = TypeVar("ArrayT")


def space_property(name: str) -> Any:
    """Return the property for a space of an environment, which may be replaced at any time."""
    own = f"_{name}"  # where Gymnasium's wrappers keep a space that somebody has set
    kind = {"of_actions": name.endswith("action_space"), "single": name.startswith("single_")}

    def find(wrapper: Any) -> Any:
        space = getattr(wrapper, own)
        return wrapper._space(name, lambda: getattr(wrapper.env, name), **kind) if space is None else space

    return property(find, lambda wrapper, space: setattr(wrapper, own, space), doc=f"The {name}.")


class ConversionWrapper(Generic[ArrayT]):
    """What is the same for environments of all kinds."""

    env: Any

    def __init__(
        self,
        env: Any,
        env_xp: Namespace | None,
        target_xp: Namespace,
        env_device: Any,
        target_device: Any,
        copy: bool | None,
        dtypes: Any,
        reward_dtype: Any,
        spaces: str,
        sanitize: Any,
        *,
        scalars: Literal["python", "target"],
        prepare: list[Prepare],
        own_options: dict[str, Any],
    ) -> None:
        """Take the arguments of all wrappers; `prepare` and `own_options` are what one wrapper adds."""
        refuse_choice("spaces", spaces, "env", "target")
        if isinstance(dtypes, str) and dtypes != "space":
            hint = 'pass "space", or a mapping such as {"float64": "float32"}'
            raise OptionError(f"dtypes={dtypes!r} is not valid", hint)
        # By name, and by agent: the environment's own space, and the same as the agent sees it.
        self._spaces: dict[Any, tuple[Any, Any]] | None = {} if spaces == "target" else None
        share, by_space = copy is False, isinstance(dtypes, str)
        env = watched(env, sanitize, shared=share)
        casts: Any = None if by_space else dtypes
        new_boundary = TensorDictBoundary if own_options.get("as_tensordict") else self._new_boundary
        self._boundary = new_boundary(
            env, env_xp, target_xp, env_device, target_device, copy, casts, reward_dtype, scalars
        )
        arguments = self._boundary.arguments() | ({"dtypes": dtypes} if by_space else {})
        self._record(**arguments, spaces=spaces, sanitize=recorded(sanitize), **own_options)
        super().__init__(env)  # type: ignore[call-arg]  # Gymnasium's or PettingZoo's wrapper
        # Applied to the results of a step or a reset before they are converted. The functions can be pickled.
        self._prepare: list[Prepare] = [partial(self._cast_step, env, share)] * by_space + prepare
        self._prepare_reset: list[Prepare] = [partial(self._cast_reset, env, share)] * by_space

    _cast_step, _cast_reset = staticmethod(cast_step), staticmethod(cast_reset)

    def _new_boundary(self, env: Any, *arguments: Any) -> Boundary:
        return Boundary(env, *arguments)

    def _space(self, key: Any, find: Callable[[], Any], *, of_actions: bool, single: bool = False) -> Any:
        """Return the space that the environment has now as the agent sees it, converted only once."""
        space = find()
        if self._spaces is None:
            return space
        known, converted = self._spaces.get(key, (None, None))
        # One that is made on each request is the same as long as it is equal, so that its seed counts.
        if known is not space and (known != space or find() is space):
            converted = self._boundary.convert_space(space, of_actions=of_actions, single=single)
            self._spaces[key] = space, converted
        return converted

    def _record(self, **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)  # type: ignore[arg-type]

    def _step(self, action: Any) -> Any:
        """Take a step, with an action (or one for each environment) of any framework."""
        boundary = self._boundary
        try:
            # No variable holds the converted action: the sanitizer counts who does.
            box = [self.env.step(boundary.state.convert_action(action))]
        except Exception as error:
            boundary.add_note(error, action)
            raise
        return self._converted_step(box) if self._prepare else boundary.state.convert_step(box)

    def _converted_step(self, box: list[Any]) -> Any:
        if self._prepare:
            box = self._prepared(self._prepare, box)
        return self._boundary.convert_step(box)

    def _prepared(self, prepare: list[Prepare], box: list[Any]) -> list[Any]:
        self._boundary.learn_from(box)
        for one in prepare:
            box = [one(box.pop())]
        return box

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[ArrayT, dict[str, Any]]:
        """Start an episode; arrays in the options may be of any framework."""
        return self._converted_reset(
            [self.env.reset(seed=seed, options=self._boundary.convert_options(options))]
        )

    def _converted_reset(self, box: list[Any]) -> tuple[ArrayT, dict[str, Any]]:
        self._boundary.refresh_action_space()
        self._boundary.has_answered = True
        if self._prepare_reset:
            box = self._prepared(self._prepare_reset, box)
        converted: tuple[ArrayT, dict[str, Any]] = self._boundary.convert_reset(box)
        return converted

    def render(self) -> Any:
        """Return the frames as NumPy arrays, for people and for video writers."""
        return to_numpy(self.env.render())

    # ---- what subclasses that were written for Gymnasium use ------------------------------------------

    @property
    def _env_xp(self) -> ModuleType:
        """The namespace of the environment's framework, or of the one that is assumed so far."""
        return module_namespace(self._boundary.state.to_env.framework)

    @property
    def _target_xp(self) -> ModuleType:
        return module_namespace(self._boundary.outgoing.framework)

    @property
    def _env_device(self) -> Device | None:
        """Where actions go, as the framework's own object; None for its default."""
        return self._boundary.state.to_env.device

    @property
    def _target_device(self) -> Device | None:
        return self._boundary.outgoing.device

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Pair:
    """Binds the two frameworks of a wrapper, and nothing else.

    A pair is one line: `class NumpyToTorch(Pair, ArrayConversion["torch.Tensor"], pair="numpy torch")`.
    """

    _pair: ClassVar[tuple[str, str]]
    _boundary: Boundary

    def __init_subclass__(cls, pair: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if pair:
            source, target = pair.split()
            cls._pair = source, target

    if not TYPE_CHECKING:  # the pairs' own classes declare the options

        def __init__(self, env, device=None, **options):
            """Wrap an environment; `device` is the agent's, and the options are `ArrayConversion`'s."""
            super().__init__(env, *self._pair, None, device, **options)

    def _record(self, **arguments: Any) -> None:
        bound = "env_xp", "target_xp", "env_device", "target_device"
        options = {name: value for name, value in arguments.items() if name not in bound}
        super()._record(device=arguments["target_device"], **options)  # type: ignore[misc]

    @property
    def device(self) -> Any:
        """Where the agent's arrays go, as it was given; in an unpickled copy, by name."""
        return self._boundary.target_device
