"""An environment, or the id of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import gymnasium as gym

from arrayferry.errors import UnsupportedError
from arrayferry.wrappers._kinds import find_kind, resolve

__all__ = ["opened"]


@contextmanager
def opened(env: Any) -> Iterator[Any]:
    """Yield an environment as Gymnasium's; one given by its id is made here, and closed at the end."""
    if not isinstance(env, str):
        kind = find_kind(env)
        yield env if kind is None or kind.adapt is None else resolve(kind.adapt)(env, None)
        return
    try:
        made = gym.make(env)
    except (gym.error.Error, ModuleNotFoundError) as error:
        hint = "pass the id of a registered environment, or the environment itself"
        raise UnsupportedError(f"{env!r} does not name an environment: {error}", hint) from error
    with closing(made):
        yield made
