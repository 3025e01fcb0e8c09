"""On and off: for one environment, for a block, or for a whole program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from arrayferry.errors import OptionError, UnsupportedError
from arrayferry.sanitizer.report import Report
from arrayferry.sanitizer.wrapper import Sanitizer, VectorSanitizer, _Watched

__all__ = ["Mode", "findings", "sanitize", "unwatched", "watched"]

Mode = bool | Literal["raise"]

_WORDS: dict[str, Mode] = {"": False, "0": False, "false": False, "1": True, "true": True, "raise": "raise"}


def _from_environment(variable: str = "ARRAYFERRY_SANITIZE") -> Mode:
    word = os.environ.get(variable, "")
    if word.lower() not in _WORDS:
        raise OptionError(f"{variable}={word!r}", "it is 1, raise, or 0")
    return _WORDS[word.lower()]


class _Switch(AbstractContextManager[None]):
    """Whether environments are watched that do not say it themselves."""

    mode: Mode = _from_environment()

    def __init__(self, mode: Mode) -> None:
        self._before: Mode = _Switch.mode
        _Switch.mode = _valid(mode)

    def __exit__(self, *_: object) -> None:
        _Switch.mode = self._before


def _valid(mode: Any) -> Mode:
    if mode is not True and mode is not False and mode != "raise":
        raise OptionError(f"sanitize={mode!r}", "it is True, False or 'raise'")
    found: Mode = mode
    return found


def sanitize(mode: Mode = True) -> AbstractContextManager[None]:
    """Watch every environment that is wrapped from now on; in a `with` statement, until its end.

    The environment variable `ARRAYFERRY_SANITIZE=1` (or `=raise`) does the same for a whole program,
    worker processes too. `wrap(env, to, sanitize=False)` is not watched in any case.

    Args:
        mode: True to warn of findings, `"raise"` to raise them, False to watch no more.

    Example:
        >>> import arrayferry, gymnasium as gym
        >>> with arrayferry.sanitize():
        ...     env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy")
        >>> _ = env.reset(seed=1), env.step(1)
        >>> arrayferry.findings(env).ok
        True
    """
    return _Switch(mode)


def watched(env: Any, mode: Mode | None, *, shared: bool) -> Any:
    """The environment, watched if it shall be; None asks the switch."""
    mode = _Switch.mode if mode is None else _valid(mode)
    if mode is False or (isinstance(env, _Watched) and env.shared is shared):
        return env  # another one would see the same twice
    kind: Any = VectorSanitizer if isinstance(env, VectorEnv) else Sanitizer
    return kind(env, shared=shared, on_finding="raise" if mode == "raise" else "warn")


def unwatched(mode: Mode | None) -> Literal[False] | None:
    """What a spec says of it: that it shall not be. The sanitizer that watches is in the spec itself."""
    return False if mode is False else None


def findings(env: Any) -> Report:
    """What the sanitizers in a stack of wrappers have found so far, and what that has cost.

    Those in the environments of a `SyncVectorEnv` are asked too; those in worker processes are not.

    Raises:
        UnsupportedError: nobody watches this environment.
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


def _sanitizers(env: Any) -> Iterator[_Watched]:
    while env is not None:
        if isinstance(env, _Watched):
            yield env
        for one in getattr(env, "envs", ()) if isinstance(env, SyncVectorEnv) else ():
            yield from _sanitizers(one)
        env = env.env if isinstance(env, (gym.Wrapper, VectorWrapper)) else None
