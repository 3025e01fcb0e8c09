"""`arrayferry explain`: its options reach the wrapper, and a refused leaf is exit code 1."""

from __future__ import annotations

import json

import pytest

import arrayferry

needs_jax = pytest.mark.skipif("jax" not in arrayferry.frameworks(), reason="jax is not installed")


def leaves(done):
    return {leaf["path"]: leaf["memory"] for leaf in json.loads(done.out)["leaves"]}


def test_table(ferry):
    done = ferry("explain", "helpers.envs:Mixed-v0", "--to", "numpy")
    assert (done.code, done.err) == (0, "")
    lines = [line.rstrip() for line in done.out.splitlines()]
    assert lines[0] == "Mixed-v0 to numpy"
    assert any(line.startswith(' obs["kept"]') and "copied" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_vector(ferry):
    done = ferry(
        "explain", "helpers.envs:Counts-v0", "--to", "numpy", "--vector", "3", "--steps", "5", "--json"
    )
    found = json.loads(done.out)
    assert (done.code, found["title"], found["steps"]) == (0, "Counts-v0 x 3 to numpy", 5)


def test_environment_class(ferry):
    done = ferry("explain", "helpers.envs:Counts", "--to", "numpy", "--json")
    assert (done.code, json.loads(done.out)["title"]) == (0, "Counts to numpy")


@needs_jax
def test_refused_leaf(ferry):
    done = ferry("explain", "helpers.envs:Counts-v0", "--to", "jax", "--steps", "2")
    assert done.code == 1
    assert "refused" in done.out
    assert "advice: " in done.out


@pytest.mark.parametrize(
    ("options", "path", "memory"),
    [
        (["--dtypes", "float64=float32"], 'obs["kept"]', "cast"),
        (["--copy", "always"], 'obs["new"]', "copied"),
        (["--copy", "never"], 'obs["kept"]', "shared"),
    ],
)
def test_options(ferry, options, path, memory):
    done = ferry("explain", "helpers.envs:Mixed-v0", "--to", "numpy", "--json", *options)
    assert leaves(done)[path] == memory
