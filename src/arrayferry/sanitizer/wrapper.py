"""The wrappers that sit between an environment and its conversion, and look at what passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from arrayferry.errors import OptionError
from arrayferry.sanitizer.inspector import Inspector
from arrayferry.sanitizer.report import Report

__all__ = ["Sanitizer", "VectorSanitizer", "watch"]

_RESET = ("obs", "info")
_STEP = ("obs", "reward", "terminated", "truncated", "info")


class _Watched:
    """What is the same for single and vector environments."""

    env: Any
    shared: bool
    _inspector: Inspector

    def __init__(
        self,
        env: Any,
        shared: bool = False,
        on_finding: Literal["warn", "raise"] = "warn",
        steps: int = 4,
        limit: int = 1 << 28,
    ) -> None:
        if on_finding not in ("warn", "raise"):
            raise OptionError(f"on_finding={on_finding!r}", "it is one of 'warn', 'raise'")
        RecordConstructorArgs.__init__(
            self,  # type: ignore[arg-type]
            shared=shared,
            on_finding=on_finding,
            steps=steps,
            limit=limit,
        )
        self.shared = shared
        self._inspector = Inspector(
            shared=shared,
            on_finding=on_finding,
            single=not isinstance(env, VectorEnv),
            trusted=2 if _has_checker(env) else 0,
            steps=steps,
            limit=limit,
        )
        super().__init__(env)  # type: ignore[call-arg]  # that of the wrapper

    @property
    def report(self) -> Report:
        """What was found so far."""
        return self._inspector.report()

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode, watched."""
        return self._through([], lambda: self.env.reset(seed=seed, options=options), _RESET)

    def render(self) -> Any:
        """The environment's; it may write where it should not, too."""
        return self._through([], self.env.render)

    def _through(self, box: list[Any], call: Callable[[], Any], names: tuple[str, ...] = ()) -> Any:
        self._inspector.entering(box, is_step=bool(box))
        try:
            result = call()
        except BaseException:
            self._inspector.failed()
            raise
        if type(result) is not tuple or len(result) != len(names):
            # Not what was expected: whoever is outside will say so.
            self._inspector.returned([], (), lambda: self.env.observation_space)
            return result
        returned = [*result]
        del result  # so that the list alone holds the values, and it can be told who else does
        self._inspector.returned(returned, names, lambda: self.env.observation_space)
        return tuple(returned)


def _has_checker(env: Any) -> bool:
    """Whether Gymnasium's checker is inside: it keeps the first two observations for a while."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.PassiveEnvChecker):
            return True
        env = env.env
    return False


class Sanitizer(_Watched, gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Watches a single environment. `arrayferry.wrap(env, to, sanitize=True)` puts it in its place.

    Args:
        env: the environment.
        shared: whether the agent sees the environment's memory: `copy=False`.
        on_finding: `"warn"`, or `"raise"` to stop at the first finding that is more than an info.
        steps: for how many steps memory that was handed out is watched.
        limit: how many bytes may be kept for that; beyond, the oldest are watched no more.

    Example:
        >>> import gymnasium as gym
        >>> env = Sanitizer(gym.make("CartPole-v1"))
        >>> obs, info = env.reset(seed=1)
        >>> env.report.ok
        True
    """

    def step(self, action: Any) -> Any:
        """Take a step, watched."""
        box = [action]
        del action  # so that the box alone holds it, if nobody else does
        return self._through(box, lambda: self.env.step(box[0]), _STEP)


class VectorSanitizer(_Watched, VectorWrapper[Any, Any, Any, Any, Any], RecordConstructorArgs):
    """The same for vector environments."""

    def step(self, actions: Any) -> Any:
        """Take a step in all environments, watched."""
        box = [actions]
        del actions
        return self._through(box, lambda: self.env.step(box[0]), _STEP)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of each environment."""
        return self._through([], lambda: self.env.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> Any:
        """An attribute of each environment."""
        return self.env.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment."""
        self.env.set_attr(name, values)


def watch(env: Any, *, shared: bool, on_finding: Literal["warn", "raise"]) -> Any:
    """Return the environment inside a sanitizer; one that has such a sanitizer outermost, as it is."""
    if isinstance(env, _Watched) and env.shared is shared:
        return env
    kind: Any = VectorSanitizer if isinstance(env, VectorEnv) else Sanitizer
    return kind(env, shared=shared, on_finding=on_finding)
