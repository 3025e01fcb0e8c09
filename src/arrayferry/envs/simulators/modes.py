"""How a simulator is called: in one mode of torch, with settings that are put back, with what it takes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from arrayferry._core.messages import warn_caller
from arrayferry.errors import UnsupportedError

__all__ = ["consistent_mode", "reset_by_ids", "reset_of", "step_with"]


def consistent_mode(base: Any) -> Callable[[], AbstractContextManager[None]]:
    """Return what makes the context in which a simulator is called, whatever mode the caller is in.

    A tensor that was made in torch's inference mode can be changed in place only there, and what a step makes
    outside of it must not meet gradients: so the mode is the one in which the simulator was made.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return nullcontext
    tensors = [value for value in getattr(base, "__dict__", {}).values() if isinstance(value, torch.Tensor)]
    return partial(_without_gradients, any(tensor.is_inference() for tensor in tensors))


@contextmanager
def _without_gradients(is_inference: bool) -> Iterator[None]:
    import torch

    with torch.inference_mode(is_inference), torch.no_grad():
        yield


def step_with(env: Any, owner: Any, settings: dict[str, Any], actions: Any) -> Any:
    """Step an environment with attributes of an object set, and put them back at the end."""
    own = vars(owner)
    before = {name: own[name] for name in settings if name in own}
    own.update(settings)
    try:
        return env.step(actions)
    finally:
        for name in settings.keys() - before.keys():
            del own[name]
        own.update(before)


def reset_by_ids(env: Any, ids: Any, seed: Any, options: dict[str, Any]) -> Any:
    """Reset the environments with these numbers."""
    return env.reset(seed=seed, env_ids=ids, options=options)


def reset_of(env: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """Return a function that resets an environment whose `reset` may take neither a seed nor options."""
    taken = inspect.signature(env.reset).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    return partial(_reset, env, {name for name in ("seed", "options") if takes_all or name in taken})


def _reset(env: Any, taken: set[str], seed: Any, options: dict[str, Any]) -> Any:
    if options and "options" not in taken:
        what = f"reset() of {type(env).__name__} takes no options"
        raise UnsupportedError(what, "leave them out, and set them where the simulator is made")
    if seed is not None and "seed" not in taken:
        what = f"reset() of {type(env).__name__} takes no seed, so that {seed} is ignored"
        warn_caller(f"{what}: seed it where the simulator is made", UserWarning)
        seed = None
    given = {"seed": seed, "options": options or None}
    return env.reset(**{name: value for name, value in given.items() if value is not None})
