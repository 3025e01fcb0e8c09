"""Processes with their own environments see one array of all rows; one process has many devices."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from arrayferry.errors import DeviceError, OptionError
from arrayferry.scale import process_seed
from scale.episodes import reference
from scale.global_child import COUNT, ROWS

TESTS = Path(__file__).resolve().parent.parent


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _environment(devices: int) -> dict[str, str]:
    paths = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    flags = f"--xla_force_host_platform_device_count={devices}"
    own = {"PYTHONPATH": paths, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "GLOO_SOCKET_IFNAME": "lo"}
    return os.environ | own


def _run(framework: str, steps: list[int], folder: Path, timeout: float) -> list[list[list[object]]]:
    """Return what the processes have seen, each after its own number of steps; none may hang."""
    port = _free_port()
    files = [folder / f"{index}.pickle" for index in range(COUNT)]
    children = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "scale.global_child",
                framework,
                str(port),
                str(index),
                str(count),
                str(file),
            ],
            env=_environment(2),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index, (count, file) in enumerate(zip(steps, files, strict=True))
    ]
    try:
        for child in children:
            said, _ = child.communicate(timeout=timeout)
            assert child.returncode == 0, said
    finally:
        for child in children:
            with child:
                child.kill()
    return [pickle.loads(file.read_bytes()) for file in files]


# The second process takes fewer steps than the first: nothing in a step waits for the other.
@pytest.mark.parametrize("framework", ["jax", pytest.param("torch", marks=pytest.mark.needs("torch>=2.5"))])
@pytest.mark.parametrize(
    "steps",
    [
        [300, 200],
        pytest.param([10_000, 9_900], marks=[pytest.mark.stress, pytest.mark.timeout(1200)]),
    ],
    ids=["short", "long"],
)
def test_two_processes_see_the_rows_of_one(framework, steps, tmp_path):
    pytest.importorskip(framework)
    seen = _run(framework, steps, tmp_path, timeout=240 if max(steps) < 1000 else 1000)
    wanted = reference(COUNT * ROWS, max(steps))
    for index, records in enumerate(seen):
        assert len(records) == steps[index] + 1
        rows = slice(index * ROWS, (index + 1) * ROWS)
        for step, found in enumerate(records):
            assert found == wanted[step][rows], (index, step)
    keys = [[{key for _, _, info in step for key in info} for step in records] for records in seen]
    assert any("final_obs" in one for one in keys[0])
    assert any(one != other for one, other in zip(*keys)), "the infos of both processes have the same keys"


# ---- one process, many devices


@pytest.fixture(scope="module")
def device_checks():
    """What the checks of a process with eight devices have said."""
    pytest.importorskip("jax")
    program = [sys.executable, "-m", "scale.device_checks"]
    done = subprocess.run(
        program, env=_environment(8), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _names_of_checks() -> list[str]:
    text = (TESTS / "scale" / "device_checks.py").read_text(encoding="utf-8")
    return [line.strip(" ,") for line in text.partition("] = [\n")[2].partition("]")[0].splitlines()]


@pytest.mark.parametrize("name", _names_of_checks())
def test_eight_devices(device_checks, name):
    assert name in device_checks.splitlines(), device_checks


# ---- seeds


def test_seeds_are_those_that_one_process_would_give():
    whole = [*range(7, 7 + 12)]
    for count in 1, 2, 3:
        each = 12 // count
        process = [{"process_index": index, "process_count": count} for index in range(count)]
        starts = [process_seed(7, each, **one) for one in process]
        assert [start + row for start in starts for row in range(each)] == whole
        assert [seed for one in process for seed in process_seed(whole, each, **one)] == whole
        assert all(process_seed(None, each, **one) is None for one in process)
    assert process_seed(7, 4) == 7  # a single process


def test_seeds_for_no_process_and_too_few_seeds_are_refused():
    with pytest.raises(OptionError, match="process_index=2 is not valid with process_count=2"):
        process_seed(7, 4, process_index=2, process_count=2)
    with pytest.raises(OptionError, match="process_index=1 is not valid with process_count=1"):
        process_seed(7, 4, process_index=1)
    with pytest.raises(OptionError, match="3 seeds for 2 processes with 4 environments each"):
        process_seed([1, 2, 3], 4, process_index=0, process_count=2)


def test_frameworks_that_disagree_on_the_process_are_refused(monkeypatch):
    for name, found in {"jax": (0, 2), "torch": (1, 2)}.items():
        monkeypatch.setattr(f"arrayferry._boundary.seeds._process_of_{name}", lambda found=found: found)
    with pytest.raises(OptionError, match="disagree"):
        process_seed(7, 4)


def test_a_torch_without_dtensors_is_refused(monkeypatch):
    tensors = pytest.importorskip("torch.distributed.tensor")
    from arrayferry._boundary.rows.torch import rows_on

    monkeypatch.delattr(tensors, "DTensor", raising=False)
    with pytest.raises(DeviceError, match=r"no public DTensor[\s\S]*2\.5"):
        rows_on((SimpleNamespace(get_coordinate=None), [None]), 4)
