"""The wrappers that sit between an environment and its conversion, and look at what passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from arrayferry.errors import UnsupportedError
from arrayferry.sanitizer.report import Report
from arrayferry.sanitizer.watching import Watching
from arrayferry.wrappers._boundary import STEP

__all__ = ["Sanitizer", "VectorSanitizer", "findings", "watch"]


if TYPE_CHECKING:
    _VectorWrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:
    _VectorWrapper = VectorWrapper  # which is not generic before Gymnasium 1.4


class Sanitizer(Watching, gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
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
        return self._watch(box, lambda: self.env.step(box[0]), STEP)


class VectorSanitizer(Watching, _VectorWrapper, RecordConstructorArgs):
    """Watches a vector environment; the arguments are those of `Sanitizer`."""

    def step(self, actions: Any) -> Any:
        """Take a step in all environments, watched."""
        box = [actions]
        del actions
        return self._watch(box, lambda: self.env.step(box[0]), STEP)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of each environment, watched."""
        return self._watch([], lambda: self.env.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> Any:
        """Return an attribute of each environment."""
        return self.env.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment."""
        self.env.set_attr(name, values)


def watch(env: Any, *, shared: bool, on_finding: Literal["warn", "raise"]) -> Any:
    """Return the environment inside a sanitizer; one that is in such a sanitizer already, as it is."""
    if isinstance(env, Watching) and env.shared is shared:
        return env
    kind: Any = VectorSanitizer if isinstance(env, VectorEnv) else Sanitizer
    return kind(env, shared=shared, on_finding=on_finding)


def findings(env: Any) -> Report:
    """Return what the sanitizers in a stack of wrappers have found so far, and what that has cost.

    Those in the environments of a `SyncVectorEnv` are included; those in worker processes are not.

    Raises:
        UnsupportedError: no sanitizer watches this environment.
    """
    reports = [one.report for one in _sanitizers(env)]
    if not reports:
        raise UnsupportedError("no sanitizer watches this environment", "wrap(env, to, sanitize=True)")
    return Report(
        findings=tuple(finding for report in reports for finding in report.findings),
        steps=max(report.steps for report in reports),
        seconds=sum(report.seconds for report in reports),
        watched=sum(report.watched for report in reports),
    )


def _sanitizers(env: Any) -> Iterator[Watching]:
    if isinstance(env, Watching):
        yield env
    inner = [env.env] if isinstance(env, (gym.Wrapper, VectorWrapper)) else []
    for one in env.envs if isinstance(env, SyncVectorEnv) else inner:
        yield from _sanitizers(one)
