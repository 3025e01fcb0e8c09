"""The sanitizer in your tests: `pytest --arrayferry-sanitize`, and the fixture `check_environment`.

pytest imports this module in every run, so it imports nothing more until one of them is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from arrayferry.sanitizer import Report


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


@pytest.fixture
def check_environment() -> Callable[..., Report]:
    """Return `arrayferry.check`, for which a finding is a failure of the test."""
    import arrayferry

    def check(*arguments: Any, **options: Any) -> Report:
        report = arrayferry.check(*arguments, **options)
        if not report:
            pytest.fail(str(report), pytrace=False)
        return report

    return check
