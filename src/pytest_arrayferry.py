"""The sanitizer in your tests: `pytest --arrayferry-sanitize`.

pytest imports this module in every run, so it imports nothing more until the option is used.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--arrayferry-sanitize`."""
    parser.getgroup("arrayferry").addoption(
        "--arrayferry-sanitize",
        action="store_true",
        help="watch every environment that a test wraps, and fail the test if one side writes into memory "
        "that the other holds, or if a value is NaN or outside its space",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch the environments of a test, and those that its fixtures make."""
    if not item.config.getoption("arrayferry_sanitize"):
        return (yield)
    import arrayferry

    with arrayferry.sanitize("raise"):
        return (yield)
