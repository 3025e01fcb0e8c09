"""What a vector environment has beyond Gymnasium's interface, seen through its wrappers.

Gymnasium's single wrappers have `get_wrapper_attr` for this; its vector wrappers have no equivalent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorWrapper

from arrayferry._core.convert import convert
from arrayferry.envs.adapters import adapter_of
from arrayferry.errors import UnsupportedError

__all__ = ["Forwarding", "actions_first"]


_OF_JAX = ("get_state", "set_state")


class _AbsentError(UnsupportedError, AttributeError):
    """There is no such attribute, as far as `hasattr` is concerned."""


class Forwarding:
    """Exposes the public attributes of the layers below, such as `autoreset_mode`, outermost first."""

    if not TYPE_CHECKING:  # a type checker still finds misspelt names

        @property
        def episode_length_buf(self) -> Any:
            """A simulator's counter of each episode's steps, which learners set: it is written into."""
            return self.unwrapped.env.episode_length_buf

        @episode_length_buf.setter
        def episode_length_buf(self, steps: Any) -> None:
            import torch

            counter = self.episode_length_buf
            with torch.inference_mode(counter.is_inference()):
                counter.copy_(convert(steps, "torch"))

        def __getattr__(self, name: str) -> Any:
            layer = self.__dict__.get("env")  # missing before `__init__`, and during unpickling
            if layer is None or name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            bypassed = []
            while isinstance(layer, VectorWrapper) and not (
                isinstance(layer, Forwarding) or hasattr(layer, name)
            ):
                bypassed.append(layer)
                layer = layer.env
            if name in _OF_JAX and not hasattr(layer, name):
                what = f"{type(layer).__name__} has no {name}(): only environments written in JAX have it"
                raise _AbsentError(what, "use copy.deepcopy or pickle, if the environment allows it")
            value = getattr(layer, name)
            carried = adapter_of(self.env).calls.get(name)
            if carried is None:
                return value
            for wrapper in map(type, bypassed):
                if wrapper.step is not VectorWrapper.step or wrapper.reset is not VectorWrapper.reset:
                    what = f"{name} would bypass {wrapper.__name__}, which has only step() and reset()"
                    raise _AbsentError(what, "leave that wrapper out, or call step()")
            return partial(self._carry, value, *carried)

    def _carry(self, call: Any, takes: str | None, returns: str | None, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that carries arrays; what it takes and returns is as in an `EnvAdapter`."""
        return call(*args, **kwargs)


def actions_first(*args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the actions among the arguments of a call, by position or by name, and the other arguments."""
    if args:
        return args[0], args[1:], kwargs
    for name in ("actions", "action"):
        if name in kwargs:
            return kwargs.pop(name), args, kwargs
    raise TypeError("missing a required argument: 'actions'")
