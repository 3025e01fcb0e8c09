"""What the tests of real packages share: `make test-field` runs them in an environment of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _their_own_warnings(recwarn):
    """Whatever other packages warn of is no failure here."""
