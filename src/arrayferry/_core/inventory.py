"""What is installed here."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass

from arrayferry._core.framework import Framework, find_framework, load_plugins, registered

__all__ = ["FrameworkInfo", "frameworks"]


@dataclass(frozen=True)
class FrameworkInfo:
    """One framework, as it is on this machine."""

    name: str
    version: str

    @property
    def devices(self) -> tuple[str, ...]:
        """Its devices. Asking imports the framework."""
        return find_framework(self.name).devices()


def frameworks() -> dict[str, FrameworkInfo]:
    """The frameworks that are installed, by name. None of them is imported to find out.

    >>> frameworks()["numpy"].devices
    ('cpu',)
    """
    load_plugins()
    found = {name: _version(framework) for name, framework in registered().items()}
    return {name: FrameworkInfo(name, version) for name, version in found.items() if version is not None}


def _version(framework: Framework) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    for distribution in framework.distributions or (framework.name,):
        with suppress(PackageNotFoundError):
            return version(distribution)
    module = sys.modules.get(framework.modules[0])  # of no distribution, as the standard library's
    return None if module is None else str(getattr(module, "__version__", ""))
