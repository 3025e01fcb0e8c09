"""Tests that use `way` run with both callbacks."""

from __future__ import annotations

import pytest

from arrayferry import _in_jit


@pytest.fixture(params=["buffers", "io"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "io":
        monkeypatch.setattr(_in_jit, "buffers_work", lambda: False)
    elif not _in_jit.buffers_work():
        pytest.skip("jax has no buffer_callback that works here")
    return str(request.param)
