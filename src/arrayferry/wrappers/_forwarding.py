"""What a vector environment has beyond Gymnasium's interface, seen through its wrappers.

Gymnasium's single wrappers have `get_wrapper_attr` for this; its vector wrappers have no equivalent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorWrapper

__all__ = ["CARRYING", "Forwarding", "actions_first", "converted"]


class Forwarding:
    """Exposes the public attributes of the layers below, such as `autoreset_mode`, outermost first."""

    if not TYPE_CHECKING:  # a type checker still finds misspelt names

        def __getattr__(self, name: str) -> Any:
            layer = self.__dict__.get("env")  # missing before `__init__`, and during unpickling
            if layer is None or name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            while isinstance(layer, VectorWrapper) and not hasattr(layer, name):
                layer = layer.env
            return getattr(layer, name)


# ---- methods that carry arrays, with which a step is taken in two calls ----------------------------------


def actions_first(*args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the actions among the arguments of a call, by position or by name, and the other arguments."""
    if args:
        return args[0], args[1:], kwargs
    for name in ("actions", "action"):
        if name in kwargs:
            return kwargs.pop(name), args, kwargs
    raise TypeError("missing a required argument: 'actions'")


def _send(wrapper: Any, call: Any, *args: Any, **kwargs: Any) -> Any:
    boundary = wrapper._boundary
    actions, args, kwargs = actions_first(*args, **kwargs)
    args, kwargs = boundary.convert_options((args, kwargs))  # such as `env_id`
    try:
        return call(boundary.convert_action(actions), *args, **kwargs)
    except Exception as error:
        boundary.add_note(error, actions)
        raise


def _send_reset(wrapper: Any, call: Any, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = wrapper._boundary.convert_options((args, kwargs))
    return call(*args, **kwargs)


def _receive(wrapper: Any, call: Any, *args: Any, **kwargs: Any) -> Any:
    return wrapper._converted_step([call(*args, **kwargs)])


def _receive_reset(wrapper: Any, call: Any, *args: Any, **kwargs: Any) -> Any:
    return wrapper._converted_reset([call(*args, **kwargs)])


# What each of these methods carries, for all who convert or watch it. AsyncVectorEnv has the first four,
# EnvPool and ALE the others. `recv` returns what a step does, even after `async_reset`.
CARRYING = {
    "step_async": "actions",
    "step_wait": "step",
    "reset_async": "options",
    "reset_wait": "reset",
    "send": "actions",
    "recv": "step",
    "async_reset": "options",
}
_CONVERTED = {"actions": _send, "step": _receive, "options": _send_reset, "reset": _receive_reset}


def converted(wrapper: Any, name: str, found: Any) -> Any:
    """Return a forwarded attribute; a method that carries arrays also converts them."""
    return partial(_CONVERTED[CARRYING[name]], wrapper, found) if name in CARRYING else found
