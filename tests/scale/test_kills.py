"""Workers that are killed at random moments: no row is ever wrong, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scale import kills

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def run(*arguments: Any) -> dict[str, Any]:
    command = [sys.executable, Path(kills.__file__), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1000)
    print(*arguments, done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_fine(found: dict[str, Any], count: int) -> None:
    assert found["kills"] == count
    assert found["faults"] > 0
    assert found["wrong"] == 0
    assert found["shared memory"] <= 0
    assert found["files"] <= 0


def test_a_few_kills() -> None:
    assert_fine(run("forkserver", "NextStep", 5), 5)


@pytest.mark.stress
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("context", ["forkserver", "spawn", "fork"])
def test_a_hundred_kills(context: str, mode: str) -> None:
    """Prints how many of the rows went on within a second; how many do depends on how busy the machine is."""
    assert_fine(run(context, mode, 100), 100)


@pytest.mark.parametrize("spoil", ["last row", "seed"])
def test_the_model_notices_what_is_wrong(spoil: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = kills.Model(kills.AutoresetMode.NEXT_STEP)
    obs = kills.np.array([[[kills.SEED + i] * 1000, [i] * 1000, [0] * 1000] for i in range(kills.NUM_ENVS)])
    nobody = kills.np.zeros(kills.NUM_ENVS, bool)
    model.reset(obs, ~nobody, nobody)
    assert model.wrong == 0
    if spoil == "last row":
        obs[2, 2, 999] = 1
    else:
        obs[2, 0] = 1
    model.reset(obs, nobody, nobody)
    assert model.wrong == 1
    assert "wrong: 2" in capsys.readouterr().err
