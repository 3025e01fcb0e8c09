"""Each program in examples/ runs with --quick, and the demo's agent and comparison do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# What each needs beside NumPy, and the marker of the tests that have it.
NEEDS = {
    "dm_control_torch": ("dm_control torch", "packages"),
    "double_buffering": ("torch", ""),
    "every_package": ("torch", "packages"),
    "gymnax_torch": ("gymnax torch", "jax_envs"),
    "mjlab_ppo": ("mjlab", "mjlab"),
    "pettingzoo_torch": ("mpe2 torch", "learners"),
    "ppo_async": ("torch", ""),
    "ppo_in_jit": ("mujoco jax", "packages"),
    "ppo_jax": ("optax", ""),
    "ppo_torch": ("torch", ""),
    "rllib_jax": ("ray jax", "ray"),
    "rllib_ppo": ("gymnax ray", "learners"),
    "rsl_rl_ppo": ("gymnax rsl_rl", "learners"),
    "sb3_ppo": ("gymnax stable_baselines3", "learners"),
    "skrl_ppo": ("gymnax skrl", "learners"),
    "tianshou_ppo": ("gymnax tianshou", "learners"),
    "torchrl_ppo": ("gymnax torchrl", "learners"),
}


@pytest.fixture
def example(monkeypatch):
    """Import a program of examples/ by its name."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    return import_module


@pytest.fixture
def torch_threads():
    """Restore the number of threads, which training sets to one."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def marked(file):
    _, marker = NEEDS.get(file.stem, ("", ""))
    return pytest.param(file, id=file.stem, marks=getattr(pytest.mark, marker) if marker else ())


@pytest.mark.timeout(660)
@pytest.mark.parametrize("file", [marked(file) for file in EXAMPLES])
def test_each_example_runs(file, tmp_path):
    packages, marker = NEEDS.get(file.stem, ("", ""))
    if missing := [package for package in packages.split() if find_spec(package) is None]:
        command = f"make test-with NAME={marker.replace('_', '-')}" if marker else "make test"
        pytest.skip(f"{', '.join(missing)} is not installed: {command}")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80"}
    command = [sys.executable, str(file), "--quick"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if file.stem == "demo":
        assert "100 steps beside the bare environment: equal, bit for bit" in done.stdout
        assert "not equal" not in done.stdout
        if find_spec("torch"):  # the failures, with Gymnasium's wrapper and not with ours
            assert "overwritten" in done.stdout
            assert "yours" in done.stdout
            assert "<generator object" in done.stdout


@pytest.mark.jax_envs
def test_the_script_runs_on_a_jax_environment_after_the_change_on_its_page(tmp_path):
    pytest.importorskip("gymnax")
    page = (ROOT / "docs/with_cleanrl.md").read_text(encoding="utf-8")
    section = page.partition("## The same script on a JAX environment")[2].partition("\n## ")[0]
    change = re.search(r"^```diff\n(.*?)```", section, re.MULTILINE | re.DOTALL)[1].splitlines()
    old, new = ("\n".join(line[2:] for line in change if line[0] == side) for side in "-+")
    script = (ROOT / "examples/ppo_torch.py").read_text(encoding="utf-8")
    assert old in script
    file = tmp_path / "ppo_gymnax.py"
    file.write_text(script.replace(old, new).replace("import torch\n", "import gymnax\nimport torch\n", 1))
    command = [sys.executable, str(file), "--quick"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"mean return [1-9]", done.stdout)


@pytest.mark.packages
@pytest.mark.timeout(660)
def test_the_tutorial_runs_as_a_notebook(tmp_path):
    for package in "torch", "ipykernel":
        pytest.importorskip(package)
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(ROOT / "docs/tutorial.ipynb", as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert shown[0].startswith("tensor([ 0.0182")
    assert "True" in shown  # the agent has learned


def test_demo_saves_pictures(example, tmp_path, torch_threads):
    from rich.console import Console

    example("demo").learn(tmp_path / "pictures", True, Console(quiet=True))
    for file in (tmp_path / "pictures").iterdir():
        assert file.read_bytes().startswith(b"\x89PNG")


def test_demo_runs_with_numpy_alone(example, monkeypatch, capsys):
    demo = example("demo")
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name != "numpy" else object())
    monkeypatch.setattr("sys.argv", ["demo.py", "--quick"])
    with pytest.raises(SystemExit) as end:
        demo.main()
    assert not end.value.code
    out = " ".join(capsys.readouterr().out.split())
    assert "equal, bit for bit" in out
    assert "not shown: CartPole-v1 to torch: pip install torch" in out
    assert "an agent that learns CartPole: pip install torch matplotlib" in out


def test_comparison_with_the_bare_environment_can_fail(example):
    demo = example("demo")
    env, bare = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    assert demo.equal_to_bare(env, bare, "numpy", steps=20)
    bare.unwrapped.gravity += 1e-6
    assert not demo.equal_to_bare(env, bare, "numpy", steps=20)


def test_agent_learns(example, torch_threads):
    """Random actions get about 22."""
    assert any(mean_return > 150 for _, mean_return, _ in example("ppo_torch").train(60_000, seed=3))


def test_the_agent_that_waits_for_nobody_learns(example, torch_threads):
    assert any(mean_return > 150 for _, mean_return, _ in example("ppo_async").train(60_000, seed=3))


def test_the_examples_of_learners_are_short():
    ours = {
        "gymnax_torch",
        "ppo_jax",
        "ppo_torch",
        "rllib_jax",
        *(name for name in NEEDS if name.endswith("_ppo")),
    } - {"mjlab_ppo"}
    lines = {file.stem: len(file.read_text().splitlines()) for file in EXAMPLES if file.stem in ours}
    assert lines.keys() == ours
    assert {name: count for name, count in lines.items() if count > 60} == {}
    for whole in "mjlab_ppo", "ppo_async":  # whole scripts, with the learner
        assert len((ROOT / f"examples/{whole}.py").read_text().splitlines()) <= 100
