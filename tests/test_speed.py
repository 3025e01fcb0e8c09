"""Speed without a clock: calls are counted, compilations are counted, memory is counted.

A count is the same on every machine, busy or not. Steps are counted in a process of their own: what other
tests have imported and registered, and the garbage that they left, would add calls.
"""

import json
import tracemalloc
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import arrayferry
from arrayferry._core.speedups import speedups
from helpers.calls import calls, dict_of
from helpers.envs import Observed

FAST_JAX = pytest.mark.needs("jax>=0.8")  # an older one is called by its public function


@pytest.fixture(scope="module")
def counts(run_python):
    """Return a function that counts the calls of steps to a framework, in a process of its own."""
    tests = str(Path(__file__).parent)
    code = f"import sys; sys.path.append({tests!r}); import json; from helpers import calls; "

    @cache
    def count(name):
        return json.loads(run_python(f"{code}print(json.dumps(calls.count_steps({name!r})))"))

    return count


@pytest.mark.parametrize(
    ("name", "env", "in_c", "in_python"),
    [
        ("torch", "Box(4)", 5, 50),
        ("torch", "Dict of 8", 5, 150),
        ("torch", "vector 64", 5, 130),
        pytest.param("jax", "Box(4)", 14, 50, marks=FAST_JAX),
        pytest.param("jax", "Dict of 8", 45, 170, marks=FAST_JAX),
        pytest.param("jax", "vector 64", 45, 170, marks=FAST_JAX),
        ("numpy", "Box(4)", 9, 45),
    ],
)
def test_a_step_takes_few_calls(counts, name, env, in_c, in_python):
    """What C calls is not counted: that is the framework's own."""
    pytest.importorskip(name)
    of = counts(name)[env]
    assert of["arrayferry"] - of["bare"] <= (in_python if speedups is None else in_c)


@pytest.mark.needs("gymnasium>=1.2")  # the first with an ArrayConversion
@pytest.mark.skipif(speedups is None, reason="a call in Python says little about its time")
@pytest.mark.parametrize(("name", "less"), [("torch", 1.5), pytest.param("jax", 2.5, marks=FAST_JAX)])
@pytest.mark.parametrize("env", ["Box(4)", "Dict of 8", "vector 64"])
def test_fewer_calls_than_gymnasiums_wrapper(counts, name, less, env):
    pytest.importorskip(name)
    of = counts(name)[env]
    assert of["arrayferry"] * less <= of["Gymnasium"]


@pytest.mark.parametrize("name", ["torch", "jax", "numpy"])
def test_cost_is_linear_in_leaves_and_free_of_depth(name):
    pytest.importorskip(name)
    converter = arrayferry.Converter(name)

    def cost(make):
        for _ in range(40):
            converter(make())
        return min(calls(lambda: converter(make())) - calls(make) for _ in range(3))

    def under(depth):
        value = dict_of(100)()
        for _ in range(depth):
            value = {"in": value}
        return value

    hundred = cost(dict_of(100))
    assert cost(dict_of(1000)) <= 10.5 * hundred
    # A few calls for each dict and leaf below the C walk; two of them ask about weak references.
    assert cost(lambda: under(100)) - hundred <= 100 * 24


@pytest.mark.parametrize("name", ["torch", "jax", "numpy"])
def test_a_copy_takes_the_memory_of_one_copy(name):
    pytest.importorskip(name)
    size = 1 << 24
    value = {"a": np.zeros(size // 4, np.float32)}
    arrayferry.convert(value, name)
    tracemalloc.start()
    try:
        kept = arrayferry.convert(value, name)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept["a"].shape == (size // 4,)
    assert peak <= size * 1.01


def test_thousands_of_steps_leave_nothing_behind():
    pytest.importorskip("torch")
    env = arrayferry.wrap(Observed(dict_of(8), lambda: {"speed": 1.5, "text": "go"}), "torch")
    env.reset()

    def steps(count):
        for _ in range(count):
            env.step(1)

    steps(500)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        steps(5000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 5000


def test_nothing_is_compiled(run_python):
    pytest.importorskip("jax")
    code = """
import jax, numpy as np
import arrayferry
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
)
converter = arrayferry.Converter("jax")
for step in range(700):
    converter({"again": np.zeros(4, "f4"), "ragged": np.zeros(step + 1, "f4"), "n": 1.5, "f8": np.ones(3)})
assert not compiled, compiled
jax.jit(lambda x: x + 1)(1.0)
print(len(compiled))
"""
    assert run_python(code) == "1\n"  # which shows that they are counted
