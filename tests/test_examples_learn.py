"""Each example learns CartPole, to a return above 150 within a fixed number of frames."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUNS = {
    "ppo_async.py": "torch",
    "ppo_jax.py": "optax",
    "ppo_torch.py": "torch",
    "rllib_ppo.py": "ray",
    "rsl_rl_ppo.py": "rsl_rl",
    "sb3_ppo.py": "stable_baselines3",
    "sb3_ppo.py --sbx": "sbx",
    "skrl_ppo.py": "skrl",
    "skrl_ppo.py --jax": "skrl",
    "tianshou_ppo.py": "tianshou",
    "torchrl_ppo.py": "torchrl",
}


@pytest.mark.learning
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("run", RUNS)
def test_it_learns(run: str, tmp_path: Path) -> None:
    for package in (RUNS[run], "gymnax"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    name, *flags = run.split()
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / name), *flags]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(r"mean return (\d+)", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) > 150
