"""`explain`: what becomes of each leaf on its way, and why.

| file | the one idea |
|---|---|
| `reasons.py` | the reasons, as codes with texts |
| `leaves.py` | each leaf of a value: what it was, what it became, why, and how long it takes |
| `environment.py` | the leaves of real steps, and how long the boundary takes |
| `explanation.py` | all leaves, with their totals and advice, as text and for rich |
| `render.py` | the tables of `explain` and of the command |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from arrayferry._core.convert import Converter, Namespace
from arrayferry._core.dtypes import dtype_names
from arrayferry._core.messages import refuse_unknown
from arrayferry._explain.environment import explain_environment
from arrayferry._explain.explanation import Explanation, advice_for
from arrayferry._explain.leaves import Leaf, Recorder, fastest
from arrayferry._explain.reasons import REASONS
from arrayferry.envs.hints import means_environment

__all__ = ["REASONS", "Explanation", "Leaf", "explain"]


def explain(
    value: Any,
    to: Namespace,
    device: Any = None,
    *,
    env_xp: Namespace | None = None,
    env_device: Any = None,
    copy: bool | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    steps: int = 20,
    seed: int | None = 0,
    **unknown: NoReturn,
) -> Explanation:
    """Show what becomes of each leaf of a value, or of what an environment takes and returns, and why.

    The result prints as a table; `as_dict()` returns it as plain data.

    Args:
        value: any structure; or an environment that `wrap` takes, which is reset and stepped; or the id of a
            Gymnasium environment, which is made and closed. Any other text is a value.
        to: the target; for an environment, the agent's framework.
        device: where the arrays go.
        env_xp: as for `wrap`; for an environment only, like the next.
        env_device: as for `wrap`.
        copy: as for `convert`.
        dtypes: as for `convert`.
        steps: how many steps of an environment to look at; as many again are taken to measure the time.
        seed: for the environment and for the actions, which are sampled.
        **unknown: refused, naming the option that was probably meant.

    Example:
        >>> import arrayferry, numpy as np
        >>> obs = {"camera": np.zeros((84, 84), np.uint8), "mission": "go left"}
        >>> for leaf in arrayferry.explain(obs, "numpy").leaves:
        ...     print(leaf.path, "-", leaf.verdict)
        value["camera"] - copied: others may hold the container it is in
        value["mission"] - left alone: a str is not an array
    """
    options: Any = {"device": device, "copy": copy, "dtypes": dtype_names(dtypes)}
    own = {"env_xp": env_xp, "env_device": env_device}
    refuse_unknown(unknown, [*options, *own, "steps", "seed"], of="explain")
    if means_environment(value):
        return explain_environment(value, to, steps, seed, **options, **own)
    refuse_unknown([name for name in own if own[name] is not None], options, of="explain of a value")
    box = [value]
    del value  # so that only the box holds it, if the caller no longer does
    converter = Converter(to, **options)
    leaves = tuple(Recorder(converter, "you still hold").record(box, ("value",)))
    refused = any(leaf.memory == "refused" for leaf in leaves)
    seconds = 0.0 if refused else fastest(converter, lambda: box)
    title = f"a value to {converter.framework.name}"
    return Explanation(title, leaves, tuple(advice_for(leaves, converter)), {"out": seconds})
