"""Gymnasium's own modules, under the names that they would have here.

A module of `gymnasium.wrappers` and the one of the same name here are *twins*. The twins of the conversion
modules are ours. All others hold Gymnasium's own objects, or subclasses of them: each that we know has a
file, which editors and type checkers find; a finder makes those that only a newer Gymnasium has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["add_names", "install_finder"]

_PREFIX = __name__.removesuffix("_mirror")


def _twin(name: str) -> str:
    return name.replace("arrayferry", "gymnasium", 1)


def add_names(package: str, ours: Iterable[str]) -> None:
    """Give one of our packages the names of its twin, each resolved when used, besides our own.

    They are not resolved all at once, because some of them import a framework.
    """
    own, theirs = vars(sys.modules[package]), import_module(_twin(package))
    public = list(dict.fromkeys([*theirs.__all__, *ours]))

    def find(name: str) -> Any:
        try:
            found = getattr(theirs, name)
        except AttributeError as error:  # it may say what became of an old name
            what = str(error).replace(theirs.__name__, package)
            raise AttributeError(what, name=name, obj=sys.modules[package]) from None
        if getattr(found, "__name__", "") == f"{theirs.__name__}.{name}":
            return import_module(f"{package}.{name}")
        # Whatever one of their modules defines, its twin has too, perhaps as a subclass.
        home = getattr(found, "__module__", "")
        if home.startswith(f"{theirs.__name__}."):
            return getattr(import_module(home.replace("gymnasium", "arrayferry", 1)), name)
        return found

    own.update(__all__=public, __getattr__=find, __dir__=lambda: sorted({*own, *public}))


class _Finder(MetaPathFinder, Loader):
    """Makes the twins for which there is no file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX) or (theirs := find_spec(_twin(fullname))) is None:
            return None
        return ModuleSpec(fullname, self, is_package=theirs.submodule_search_locations is not None)

    def exec_module(self, module: ModuleType) -> None:
        theirs = vars(import_module(_twin(module.__name__)))
        vars(module).update({name: value for name, value in theirs.items() if name not in vars(module)})


def install_finder() -> None:
    """Let the import system look for twins, after all other finders; once, however often this is imported."""
    others = [finder for finder in sys.meta_path if type(finder).__module__ != __name__]
    sys.meta_path[:] = [*others, _Finder()]
