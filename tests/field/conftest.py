"""What the tests of real packages share: `make test-field` runs them in an environment of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(monkeypatch, tmp_path):
    """VizDoom writes its settings into the current folder."""
    monkeypatch.chdir(tmp_path)
