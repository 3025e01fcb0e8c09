"""`explain`: what becomes of each leaf on its way, and why. The work of `convert`, looked at."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from arrayferry._core.convert import Converter
from arrayferry._core.framework import Framework
from arrayferry._explain.explanation import Explanation, of_value

__all__ = ["Explanation", "explain"]


def explain(
    value: Any,
    to: str | ModuleType | Framework,
    device: Any = None,
    *,
    copy: bool | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    steps: int = 20,
    seed: int | None = 0,
) -> Explanation:
    """Show what becomes of each leaf of a value, or of what an environment takes and gives, and why.

    It is printed as a table, shown as one in a notebook, and a dictionary by `as_dict()`.

    Args:
        value: any structure; or a Gymnasium environment, single or vector, which is reset and stepped.
        to: the framework to explain the way to; of an environment, the agent's.
        device: where the arrays go.
        copy: as for `convert`.
        dtypes: as for `convert`.
        steps: how many steps to take with an environment.
        seed: of the environment and of the actions, which are sampled.

    Example:
        >>> import arrayferry, numpy as np
        >>> obs = {"camera": np.zeros((84, 84), np.uint8), "mission": "go left"}
        >>> for leaf in arrayferry.explain(obs, "numpy").leaves:
        ...     print(leaf.path, "-", leaf.verdict)
        value["camera"] - copied: you still hold what it is in
        value["mission"] - left alone: a str is no array
    """
    gymnasium = sys.modules.get("gymnasium")  # who has an environment has imported it
    if gymnasium is not None and isinstance(value, (gymnasium.Env, gymnasium.vector.VectorEnv)):
        from arrayferry._explain.environment import of_environment

        return of_environment(value, to, steps, seed, device=device, copy=copy, dtypes=dtypes)
    box = [value]
    del value  # so that the box alone holds it, if the caller holds it no more
    return of_value(box, Converter(to, device, copy=copy, dtypes=dtypes))
