"""What the tests of the sanitizer share: findings by kind and path, and steps to find something in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import arrayferry
from arrayferry.sanitizer import Finding

ACTION = np.ones(2, np.float32)


def found(env: Any) -> dict[tuple[str, str], Finding]:
    """What was found, by kind and path."""
    return {(finding.kind, finding.path): finding for finding in arrayferry.findings(env)}


def worse(env: Any) -> dict[tuple[str, str], Finding]:
    """What was found and is more than an info."""
    return {key: finding for key, finding in found(env).items() if finding.severity != "info"}


FRESH: dict[str, Callable[[Any], Any]] = {
    "copy": lambda state: state.copy(),
    "view_of_copy": lambda state: state.copy()[:],
    "transposed": lambda state: np.stack([state]).T[:, 0],
    "computed": lambda state: state * 2,
}


def step_of(obs: Any, reward: Any = 0.0, info: Any = None) -> tuple[Any, ...]:
    return obs, reward, False, False, {} if info is None else info


ZERO = np.zeros(3, np.float32)
NAN = np.array([0, np.nan, 0], np.float32)
