"""The toy is known to `wrap` during a test."""

from __future__ import annotations

import pytest

from arrayferry.envs import adapters


@pytest.fixture(autouse=True)
def _walk(monkeypatch: pytest.MonkeyPatch, compiled_quickly: None) -> None:
    from arrayferry.envs import register_environment
    from envs.line_walk import Walk, interface

    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    register_environment(Walk, interface)
