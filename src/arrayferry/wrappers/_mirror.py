"""The names of Gymnasium's packages of wrappers, under the names that they would have here.

A module of `gymnasium.wrappers` and the one of the same name here are *twins*. The twins of the conversion
modules are ours. All others hold Gymnasium's own objects, or subclasses of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["add_names"]


def add_names(package: str, ours: Iterable[str]) -> None:
    """Give one of our packages the names of its twin, each resolved when used, besides our own.

    They are not resolved all at once, because some of them import a framework.
    """
    own, theirs = vars(sys.modules[package]), import_module(package.replace("arrayferry", "gymnasium", 1))
    public = list(dict.fromkeys([*theirs.__all__, *ours]))

    def find(name: str) -> Any:
        try:
            found = getattr(theirs, name)
        except AttributeError as error:  # it may say what became of an old name
            what = str(error).replace(theirs.__name__, package)
            raise AttributeError(what, name=name, obj=sys.modules[package]) from None
        is_module = isinstance(found, ModuleType)
        home = found.__name__ if is_module else getattr(found, "__module__", "")
        twin = home.replace(theirs.__name__, package, 1)
        is_inside = home.startswith(f"{theirs.__name__}.")
        if not is_inside or find_spec(twin) is None:  # a module that only a newer Gymnasium has
            return found
        # Whatever one of their modules defines, its twin has too, perhaps as a subclass.
        return import_module(twin) if is_module else getattr(import_module(twin), name, found)

    own.update(__all__=public, __getattr__=find, __dir__=lambda: sorted({*own, *public}))
