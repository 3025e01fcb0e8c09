"""Nothing is read before it is there, after it is gone, or once its owner has changed it."""

from __future__ import annotations

import pytest

from late_device.scenarios import SCENARIOS, play

pytestmark = pytest.mark.late


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name):
    play(name)
