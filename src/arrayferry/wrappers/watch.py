"""The sanitizer's switch: for one environment, for a block, or for a whole program.

The sanitizer itself is imported when the first environment is watched.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeAlias

from arrayferry.errors import OptionError

__all__ = ["SanitizeMode", "sanitize", "watched"]

SanitizeMode: TypeAlias = "bool | Literal['raise']"

_WORDS: dict[str, Any] = {"": False, "0": False, "false": False, "1": True, "true": True, "raise": "raise"}


def _from_environment(variable: str = "ARRAYFERRY_SANITIZE") -> SanitizeMode:
    word = os.environ.get(variable, "")
    if word.lower() not in _WORDS:
        raise OptionError(f"{variable}={word!r} is not valid", "set it to 1, raise or 0")
    mode: SanitizeMode = _WORDS[word.lower()]
    return mode


class _Switch(AbstractContextManager[None]):
    """Whether to watch environments that are wrapped without a mode of their own."""

    mode: SanitizeMode = _from_environment()

    def __init__(self, mode: SanitizeMode) -> None:
        self._before: SanitizeMode = _Switch.mode
        _Switch.mode = _valid(mode)

    def __exit__(self, *_: object) -> None:
        _Switch.mode = self._before


def _valid(mode: Any) -> Any:
    if mode is not True and mode is not False and mode != "raise":
        raise OptionError(f"sanitize={mode!r} is not valid", "pass True, False or 'raise'")
    return mode


def sanitize(mode: SanitizeMode = True) -> AbstractContextManager[None]:
    """Watch every environment that is wrapped from now on; in a `with` statement, until its end.

    The environment variable `ARRAYFERRY_SANITIZE=1` (or `=raise`) does the same for a whole program,
    including worker processes. `wrap(env, to, sanitize=False)` is never watched.

    Args:
        mode: True to warn of findings, `"raise"` to raise them, False to stop watching.

    Example:
        >>> import arrayferry, gymnasium as gym
        >>> with arrayferry.sanitize():
        ...     env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy")
        >>> _ = env.reset(seed=1), env.step(1)
        >>> arrayferry.findings(env).ok
        True
    """
    return _Switch(mode)


def watched(env: Any, mode: SanitizeMode | None, *, shared: bool) -> Any:
    """Return the environment, inside a sanitizer if it is to be watched; a mode of None asks the switch."""
    mode = _Switch.mode if mode is None else _valid(mode)
    if mode is False:
        return env
    from arrayferry.sanitizer.wrapper import watch  # the one import that points upwards

    return watch(env, shared=shared, on_finding="raise" if mode == "raise" else "warn")
