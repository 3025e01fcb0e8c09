"""What all tests share: the frameworks that are installed, clean registries, and other processes."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from multiprocessing import set_forkserver_preload
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, settings
from packaging.requirements import Requirement

import arrayferry
from arrayferry._core import registry, type_cache
from arrayferry.testing import SEPARATE

try:
    import jax
except ImportError:
    pass
else:
    if not hasattr(jax, "enable_x64"):  # JAX before 0.8 has it elsewhere
        from jax.experimental import enable_x64

        jax.enable_x64 = enable_x64

for new, old in {"Taxi-v4": "Taxi-v3", "CliffWalking-v1": "CliffWalking-v0"}.items():
    if new not in gym.registry:  # an older Gymnasium
        gym.register(new, gym.spec(old).entry_point, max_episode_steps=gym.spec(old).max_episode_steps)

ROOT = Path(__file__).resolve().parent.parent

# Before Ray is imported: it listens on the loopback interface only, and tells nobody that it runs.
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}

# Ray would write one to a file, and reads it only once.
RAY_TOKEN = secrets.token_hex(32)

# Worker processes import the module of the test that starts them, and so what that imports.
if sys.platform != "win32":
    set_forkserver_preload(["__main__", "pytest", "arrayferry.scale._worker"])

# Examples are cheap and the machine may be busy: no deadline, and slowness is no failure.
settings.register_profile(
    "default",
    max_examples=500,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")

# TensorFlow and Paddle are tested in processes of their own: see frameworks/test_tensorflow_and_paddle.py.
NAMES = [name for name in arrayferry.frameworks() if name not in SEPARATE]


def _usable(name: str) -> str:
    if not arrayferry.frameworks()[name].devices:
        pytest.skip(f"{name} has no device here")
    return name


# Tests that run only when their marker is selected, as in `pytest -m stress`.
ON_DEMAND = {
    "gpu": "on a GPU that torch can use: make test-gpu",
    "late": "on the late device, in a process of its own: make test-with NAME=late",
    "learning": "trains for minutes: make test-with NAME=learning",
    "stress": "takes too long for every day: make stress",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests that run on demand, if nobody demands them."""
    for name in ON_DEMAND.keys() - set(re.findall(r"\w+", config.option.markexpr)):
        for item in items:
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=ON_DEMAND[name]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the tests run that need packages which are not installed here."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any("could not import" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(
            "`make test-with` lists the environments that have more packages than this one."
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose `needs` are newer than what is installed: `@pytest.mark.needs("numpy>=2.1")`."""
    for mark in item.iter_markers("needs"):
        needed = Requirement(mark.args[0])
        if find_spec(needed.name) is None or version(needed.name) not in needed.specifier:
            pytest.skip(f"needs {needed}")


@pytest.fixture(params=NAMES)
def name(request):
    """The name of each installed framework."""
    return _usable(request.param)


@pytest.fixture(params=list(product(NAMES, repeat=2)), ids="-to-".join)
def pair(request):
    """The names of each ordered pair of installed frameworks."""
    return tuple(_usable(name) for name in request.param)


@pytest.fixture(autouse=True)
def _clean_registries():
    """What a test registers is gone after it."""
    registries = [registry._registry, type_cache.registrations]
    before = [dict(table) for table in registries]
    yield
    if any(list(a.items()) != list(b.items()) for a, b in zip(registries, before, strict=True)):
        for table, contents in zip(registries, before, strict=True):
            table.clear()
            table.update(contents)
        type_cache.clear_type_caches()


@pytest.fixture(scope="module")
def compiled_quickly():
    """Let XLA compile without optimizing: it takes longer than all that the tests compute."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def ray_settings():
    """Let Ray find nothing that others have started, and leave nothing; let actors import what tests do."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray") as folder:
        patch.setenv("RAY_ADDRESS", "")
        patch.setenv("RAY_AUTH_TOKEN", RAY_TOKEN)
        patch.setenv("RAY_TMPDIR", folder)  # short, because sockets are there
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        yield
        ray.shutdown()


@pytest.fixture
def ray_cluster(ray_settings):
    """Ray on this machine: the same for all tests of a module, unless one of them shuts it down."""
    import ray

    if not ray.is_initialized():
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)


@pytest.fixture(scope="session")
def run_python():
    """Run code in a process of its own, which must not die, and give back what it printed."""

    def run(code: str, *, timeout: float = 120, **env: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        end = "\n".join(done.stderr.splitlines()[-25:])
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{end}"
        return done.stdout

    return run
