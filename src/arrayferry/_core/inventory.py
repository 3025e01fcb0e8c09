"""What is installed here."""

from __future__ import annotations

from dataclasses import dataclass

from arrayferry._core.framework import find_framework, registered

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
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    found = {}
    for name, framework in registered().items():
        for distribution in framework.distributions or (name,):
            try:
                found[name] = FrameworkInfo(name, version(distribution))
                break
            except PackageNotFoundError:
                continue
    return found
