"""Nothing outlives its owner: workers end with their vector, its program, and its driver."""

from __future__ import annotations

import sys

import pytest

from scale import endings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.mark.parametrize("ending", endings.ENDINGS)
def test_workers_end(ending: str) -> None:
    endings.run(ending, "forkserver")


@pytest.mark.parametrize("context", ["spawn", "fork"])
@pytest.mark.parametrize("ending", ["dropped", "is_killed", "is_killed_and_has_a_child"])
def test_workers_end_however_they_were_started(ending: str, context: str) -> None:
    endings.run(ending, context)
