"""What a script imports is imported once, by the server that forks workers, unless a fork would break it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from arrayferry.scale import process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers start with forkserver here")

SCRIPT = """
import os, sys, json
with open(os.environ["IMPORTS"], "a") as file:
    file.write(f"{{os.getpid()}}\\n")
{top}
import gymnasium as gym, numpy as np
from arrayferry.scale import ProcessVectorEnv
class Env(gym.Wrapper):
    def facts(self):
        import threading
        return os.getpid(), threading.active_count(), float(np.random.rand()), {fact}
def make():
    return Env(gym.make("CartPole-v1"))
if {guard}:
    envs = ProcessVectorEnv([make] * 3, workers=3)
    envs.reset(seed=0)
    os.kill(envs.call("facts")[0][0], 9)
    for _ in range(3):
        envs.step(np.zeros(3, int))
    print(json.dumps(envs.call("facts")))
    envs.close()
"""
MAIN = '__name__ == "__main__"'


def run(
    folder: Path, top: str = "", fact: str = "0", guard: str = MAIN, module: bool = False
) -> tuple[int, Any]:
    """Run a script; return how many processes have imported it, and what the workers say."""
    (folder / "script.py").write_text(SCRIPT.format(top=top, fact=fact, guard=guard))
    imports = folder / "imports"
    command = [sys.executable, *(["-m", "script"] if module else ["script.py"])]
    environment = {"IMPORTS": str(imports), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
    facts = json.loads(done.stdout) if done.returncode == 0 else done.stderr
    return len(set(imports.read_text().split())), facts


@pytest.mark.parametrize("module", [False, True])
def test_a_script_is_imported_once_for_all_workers(tmp_path: Path, module: bool) -> None:
    imports, facts = run(tmp_path, module=module)
    assert imports == 2  # the driver, and the server; also with a successor
    assert len({pid for pid, *_ in facts}) == 3
    assert len({number for _, _, number, _ in facts}) == 3  # each has random numbers of its own


@pytest.mark.parametrize(
    "top",
    [
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        pytest.param("import jax; jax.numpy.ones(1) + 1", marks=pytest.mark.needs("jax")),
    ],
    ids=["thread", "jax"],
)
def test_what_a_fork_would_break_is_imported_by_each_worker(tmp_path: Path, top: str) -> None:
    if "jax" in top:
        pytest.importorskip("jax")
    fact = "float(jax.numpy.ones(3).sum())" if "jax" in top else "3"
    imports, facts = run(tmp_path, top, fact)
    assert imports == 1 + 1 + 3 + 1  # the driver, the server once, the workers, a successor
    assert [fact for *_, fact in facts] == [3] * 3
    if "thread" in top:
        assert {threads for _, threads, _, _ in facts} == {2}


@pytest.mark.parametrize("top", ["if __name__ != '__main__': raise ValueError('not here')", "sys.exit(3)"])
def test_what_a_script_raises_is_raised_as_without_a_server(tmp_path: Path, top: str) -> None:
    top = top if "if" in top else f"if __name__ != '__main__': {top}"
    _, error = run(tmp_path, top)
    assert "a worker did not start: it ended with exit code" in error


def test_a_script_without_a_guard_is_told_what_to_write(tmp_path: Path) -> None:
    _, error = run(tmp_path, guard="True")
    assert 'if __name__ == "__main__":' in error.splitlines()[-1]
    assert "resource_tracker" not in error


def test_what_the_user_lets_the_server_import_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    forkserver = pytest.importorskip("multiprocessing.forkserver")
    monkeypatch.setattr(forkserver._forkserver, "_preload_modules", ["__main__", "json"])
    for _ in range(2):
        process._let_server_import()
    assert forkserver._forkserver._preload_modules == ["__main__", "json", "arrayferry.scale._preload"]
