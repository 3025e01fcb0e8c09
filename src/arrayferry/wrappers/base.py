"""What all conversion wrappers share: options, a base class, and what a named pair adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypedDict, TypeVar

import numpy as np
from gymnasium.utils import RecordConstructorArgs

from arrayferry._boundary.answers import RESET, STEP, checked
from arrayferry._boundary.boundary import Boundary
from arrayferry._boundary.detect import layers_of
from arrayferry._boundary.observations import Prepare, cast_observations
from arrayferry._core.convert import Namespace
from arrayferry._core.eager import eager
from arrayferry._core.framework import Framework
from arrayferry._core.holds import release
from arrayferry._core.messages import refuse_choice
from arrayferry._core.registry import find_framework
from arrayferry.envs.adapters import adapter_of, framework_of
from arrayferry.envs.forwarding import actions_first
from arrayferry.envs.hints import describe_argument, hint_for
from arrayferry.errors import OptionError, UnsupportedError
from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers.watch import SanitizeMode, watched

__all__ = [
    "ArrayT",
    "ConversionWrapper",
    "Options",
    "Pair",
    "SingleOptions",
    "VectorOptions",
    "known_framework",
    "module_name_to_namespace",
    "module_namespace",
    "space_property",
]

ArrayT = TypeVar("ArrayT")


class Options(TypedDict, total=False):
    """The options of every wrapper."""

    copy: bool | None
    dtypes: Mapping[Any, Any] | Literal["space"] | None
    reward_dtype: Any
    spaces: Literal["env", "target"]
    sanitize: SanitizeMode | None


class SingleOptions(Options, total=False):
    """The options of the wrapper for single environments."""

    scalars: Literal["python", "target"]


class VectorOptions(Options, total=False):
    """The options of the wrapper for vector environments."""

    dense_final: bool


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
        env_device: Any = None,
        target_device: Any = None,
        *,
        copy: bool | None = None,
        dtypes: Mapping[Any, Any] | Literal["space"] | None = None,
        reward_dtype: Any = None,
        spaces: Literal["env", "target"] = "env",
        sanitize: SanitizeMode | None = None,
    ) -> None:
        self._refuse_other_kinds(env)
        refuse_choice("spaces", spaces, "env", "target")
        if isinstance(dtypes, str) and str(dtypes) != "space":
            hint = 'pass "space", or a mapping such as {"float64": "float32"}'
            raise OptionError(f"dtypes={dtypes!r} is not valid", hint)
        # By name, and by agent: the environment's own space, and the same as the agent sees it.
        self._spaces: dict[Any, tuple[Any, Any]] | None = {} if spaces == "target" else None
        share, by_space = copy is False, isinstance(dtypes, str)
        if env_xp is None and env_device is None:
            env_xp = adapter_of(env).action_framework
        env = watched(env, sanitize, shared=share)
        casts: Any = None if by_space else dtypes
        self._boundary = self._new_boundary(
            *(env, env_xp, target_xp, env_device, target_device, copy, casts, reward_dtype),
            scalars=self._scalars,
            known=known_framework,
            reads_at_once=adapter_of(env).reads_actions_at_once,
        )
        arguments = self._boundary.arguments() | ({"dtypes": dtypes} if by_space else {})
        # Only a refusal is recorded, because a sanitizer records itself.
        recorded = False if sanitize is False else None
        self._record(**arguments, spaces=spaces, sanitize=recorded, **self._own_options)
        super().__init__(env)  # type: ignore[call-arg]  # Gymnasium's or PettingZoo's wrapper
        # Applied to the values of a step or a reset before they are converted. The functions can be pickled.
        self._prepare: list[Prepare] = [partial(self._cast_observations, env, share)] * by_space

    # What reward, terminated and truncated become; and the options that only one of the wrappers has.
    _scalars: Literal["python", "target"] = "python"
    _own_options: Mapping[str, Any] = {}
    _cast_observations = staticmethod(cast_observations)

    # The class of the environments that it wraps, and what they are called; where the wrapper for them is in
    # `arrayferry.wrappers`, and which one is for others.
    _wraps: ClassVar[Any]
    _kind: ClassVar[str]
    _where: ClassVar[str] = ""
    _for_others: ClassVar[str]

    @classmethod
    def _refuse_other_kinds(cls, env: Any) -> None:
        """Raise if it is not an environment of the kind that this class wraps."""
        if not isinstance(env, cls._wraps):
            name = cls.__name__
            what = (
                f"{cls._where}{name} wraps {cls._kind} environments, and {describe_argument(env)} is not one"
            )
            raise UnsupportedError(what, hint_for(env, f"arrayferry.wrappers.{cls._for_others.format(name)}"))

    def _new_boundary(self, env: Any, *arguments: Any, **facts: Any) -> Boundary:
        return Boundary(env, *arguments, **facts)

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

    @eager
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

    def _carry(self, call: Any, takes: str | None, returns: str | None, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that carries arrays; what it takes and returns is as in an `EnvAdapter`."""
        box = [self._sent(call, takes, *args, **kwargs)]
        if returns is None:
            return box.pop()
        return self._converted_step(box) if returns == "step" else self._converted_reset(box)

    def _sent(self, call: Any, takes: str | None, /, *args: Any, **kwargs: Any) -> Any:
        if takes is None:
            return call(*args, **kwargs)
        actions: Any = None
        if takes == "action":
            actions, args, kwargs = actions_first(*args, **kwargs)
        args, kwargs = self._boundary.convert_options((args, kwargs))  # such as `env_id`
        if takes == "options":
            return call(*args, **kwargs)
        try:
            return call(self._boundary.convert_action(actions), *args, **kwargs)
        except Exception as error:
            self._boundary.add_note(error, actions)
            raise

    def _converted_step(self, box: list[Any]) -> Any:
        if self._prepare:
            box = self._prepared(box, "step", STEP)
        return self._boundary.convert_step(box)

    def _prepared(self, box: list[Any], call: str, names: Any) -> list[Any]:
        self._boundary.learn_from(box)
        values = checked(call, names, box.pop())
        for function in self._prepare:
            values = function(values)
        return [values]

    @eager
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
        if self._prepare:
            box = self._prepared(box, "reset", RESET)
        converted: tuple[ArrayT, dict[str, Any]] = self._boundary.convert_reset(box)
        return converted

    def render(self) -> Any:
        """Return the frames as NumPy arrays, for people and for video writers."""
        return to_numpy(self.env.render())

    def close(self, **options: Any) -> Any:
        """Close the environment; what copies on a device still read is waited for, and dropped."""
        try:
            return self.env.close(**options)
        finally:
            release()

    # ---- what subclasses that were written for Gymnasium use ------------------------------------------

    @property
    def _env_xp(self) -> ModuleType:
        """The namespace of the environment's framework, or of the one that is assumed so far."""
        return module_namespace(self._boundary.state.to_env.framework)

    @property
    def _target_xp(self) -> ModuleType:
        return module_namespace(self._boundary.outgoing.framework)

    @property
    def _env_device(self) -> Any:
        """Where actions go, as the framework's own object; None for its default."""
        return self._boundary.state.to_env.device

    @property
    def _target_device(self) -> Any:
        return self._boundary.outgoing.device

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def module_namespace(xp: Namespace) -> ModuleType:
    """Return the array API namespace of a framework, or its module if array-api-compat does not know it.

    >>> module_namespace(np).__name__
    'array_api_compat.numpy'
    """
    return _namespace(find_framework(xp))


@cache
def _namespace(framework: Framework) -> ModuleType:
    from array_api_compat import array_namespace  # slow to import

    module = framework.load()
    try:
        namespace: ModuleType = array_namespace(framework.target(None).take(np.zeros(0, np.float32)))
    except TypeError:
        return module
    return namespace


def module_name_to_namespace(name: str) -> ModuleType:
    """Import a module, and return its array API namespace."""
    return module_namespace(import_module(name))


def known_framework(env: Any) -> tuple[Framework, Any] | None:
    """Return the framework and the device of the arrays that an environment takes; None if unknown.

    An inner conversion wrapper knows it, ours or Gymnasium's; or an `EnvAdapter` does.
    """
    for layer in layers_of(env):
        if isinstance(layer, ConversionWrapper):
            return layer._boundary.outgoing.framework, layer._boundary.outgoing.device
        if (target := vars(layer).get("_target_xp")) is not None:
            return find_framework(target), vars(layer).get("_target_device")
    known = framework_of(env)
    return None if known is None else (find_framework(known[0]), known[1])


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
