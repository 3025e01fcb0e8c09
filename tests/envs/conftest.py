"""The toy is known to `wrap` during a test."""

from __future__ import annotations

import pytest

from arrayferry.wrappers import _kinds


@pytest.fixture(autouse=True)
def _walk(monkeypatch: pytest.MonkeyPatch, compiled_quickly: None) -> None:
    from arrayferry.envs import register_environment
    from envs.walk import Walk, interface

    monkeypatch.setattr(_kinds, "_KINDS", dict(_kinds._KINDS))
    register_environment(Walk, interface)
