"""How a simulator is called: in one mode of torch, with what its `reset` takes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from arrayferry._core.messages import warn_caller
from arrayferry.errors import UnsupportedError

__all__ = ["consistent_mode", "reset_all"]


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


def reset_all(env: Any, seed: Any, options: dict[str, Any]) -> Any:
    """Reset an environment whose `reset` may take neither a seed nor options."""
    given = {"seed": seed, "options": options or None}
    given = {name: value for name, value in given.items() if value is not None}
    taken = inspect.signature(env.reset).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    for name in sorted(() if takes_all else given.keys() - taken.keys()):
        what = f"reset() of {type(env).__name__} takes no {name}"
        if name == "options":
            raise UnsupportedError(what, "leave them out, and set them where the simulator is made")
        warn_caller(f"{what}, so that {seed} is ignored: seed it where the simulator is made", UserWarning)
        del given[name]
    return env.reset(**given)
