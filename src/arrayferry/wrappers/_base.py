"""What the single and the vector wrapper share, and what a named pair adds to either."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from gymnasium.utils import RecordConstructorArgs

from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers._boundary import Boundary
from arrayferry.wrappers._function import Device, module_namespace
from arrayferry.wrappers._prepare import Prepare

__all__ = ["ArrayT", "ConversionWrapper", "Pair"]

ArrayT = TypeVar("ArrayT")


class ConversionWrapper(Generic[ArrayT]):
    """What is the same for single and vector environments."""

    env: Any
    _boundary: Boundary

    # What is done to the results of a step and of a reset before they are converted.
    _prepare: Prepare | None = None
    _prepare_reset: Prepare | None = None

    def _record(self, **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)  # type: ignore[arg-type]

    def _record_all(self, dtypes: Any, **options: Any) -> None:
        arguments = self._boundary.arguments()
        arguments["dtypes"] = dtypes if isinstance(dtypes, str) else arguments["dtypes"]
        self._record(**arguments, **options)

    def _step(self, action: Any) -> Any:
        """Take a step, with an action (or one for each environment) of any framework."""
        boundary = self._boundary
        try:
            # Nothing here holds what arrives: the sanitizer counts who does.
            box = [self.env.step(boundary.convert_action(action))]
        except Exception as error:
            boundary.add_note(error, action)
            raise
        if self._prepare is not None:
            boundary.learn_from(box)
            box = [self._prepare(box.pop())]
        return boundary.convert_step(box)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[ArrayT, dict[str, Any]]:
        """Start an episode; options may be of any framework."""
        boundary = self._boundary
        box = [self.env.reset(seed=seed, options=boundary.convert_options(options))]
        boundary.refresh_action_space()
        if self._prepare_reset is not None:
            boundary.learn_from(box)
            box = [self._prepare_reset(box.pop())]
        return boundary.convert_reset(box)

    def render(self) -> Any:
        """Return the frames as NumPy arrays, for people and for video writers."""
        return to_numpy(self.env.render())

    # ---- what subclasses that were written for Gymnasium use ------------------------------------------

    @property
    def _env_xp(self) -> ModuleType:
        """The namespace of the environment's framework, or of the one that is assumed so far."""
        return module_namespace(self._boundary.incoming.framework)

    @property
    def _target_xp(self) -> ModuleType:
        return module_namespace(self._boundary.outgoing.framework)

    @property
    def _env_device(self) -> Device | None:
        """Where actions go, as the framework's own object; None for its default."""
        return self._boundary.incoming.device

    @property
    def _target_device(self) -> Device | None:
        return self._boundary.outgoing.device

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Pair:
    """Binds the two frameworks of a wrapper, and nothing else.

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
        """Wrap an environment; `device` is the agent's, and the options are `ArrayConversion`'s."""
        source, target = self._pair
        super().__init__(env, source, target, None, device, **options)  # type: ignore[call-arg]

    def _record(self, **arguments: Any) -> None:
        bound = "env_xp", "target_xp", "env_device", "target_device"
        options = {name: value for name, value in arguments.items() if name not in bound}
        super()._record(device=arguments["target_device"], **options)  # type: ignore[misc]

    @property
    def device(self) -> Any:
        """Where the agent's arrays go, as it was given; of a copy, by name."""
        return self._boundary.target_device
