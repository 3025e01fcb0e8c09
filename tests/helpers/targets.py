"""The targets of tests, from the registry; never from a second list. Conftests of folders import this."""

from __future__ import annotations

from functools import cache

import pytest

import arrayferry
from helpers.compare import SEPARATE, array_type_of


@cache
def targets() -> list[str]:
    """The frameworks that are installed, have a device here, and share a process."""
    return [name for name, info in arrayferry.frameworks().items() if name not in SEPARATE and info.devices]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `target` for every one of them."""
    if "target" in metafunc.fixturenames:
        metafunc.parametrize("target", targets())


@pytest.fixture
def array_type(target: str) -> type:
    """The type of the target's arrays."""
    return array_type_of(target)
