"""What a vector environment has beyond Gymnasium's interface, seen through its wrappers.

Gymnasium's single wrappers have `get_wrapper_attr` for this; its vector wrappers have no equivalent.
"""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorWrapper

__all__ = ["Forwarding", "converted"]


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


def _send(wrapper: Any, call: Any, *args: Any, **kwargs: Any) -> Any:
    boundary = wrapper._boundary
    if not args:  # the actions are passed by name, which differs
        given = signature(call).bind(**kwargs)
        args, kwargs = given.args, given.kwargs
    actions = args[0]
    args, kwargs = boundary.convert_options((args[1:], kwargs))  # such as `env_id`
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


# By name: AsyncVectorEnv has the first four, EnvPool and ALE the others. `recv` returns what a step does,
# even after `async_reset`.
_CONVERTED = {
    "step_async": _send,
    "step_wait": _receive,
    "reset_async": _send_reset,
    "reset_wait": _receive_reset,
    "send": _send,
    "recv": _receive,
    "async_reset": _send_reset,
}


def converted(wrapper: Any, name: str, found: Any) -> Any:
    """Return a forwarded attribute; a method that carries arrays also converts them."""
    return partial(_CONVERTED[name], wrapper, found) if name in _CONVERTED else found
