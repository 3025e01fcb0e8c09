"""Speed without a clock: calls are counted, compilations are counted, memory is counted.

A count is the same on every machine, busy or not. The limits are wide, because what earlier tests registered
adds a few calls: they are there for the day when a step suddenly goes the long way.
"""

import sys
import tracemalloc

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry._core.speedups import speedups
from helpers.envs import Observed, ZeroVector


def new():
    return np.zeros(4, np.float32)


def dict_of(leaves):
    return lambda: {f"k{i}": new() for i in range(leaves)}


def calls(work):
    """How many functions, of Python and of C, a piece of work calls."""
    found = [0]

    def count(frame, event, argument):
        found[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found[0]


def calls_of_a_step(env, action):
    env.reset()
    for _ in range(20):  # until all is decided
        env.step(action)
    return min(calls(lambda: env.step(action)) for _ in range(5))


FAST_JAX = pytest.mark.needs("jax>=0.8")  # an older one is called by its public function


@pytest.mark.parametrize(
    ("name", "make", "in_c", "in_python"),
    [
        ("torch", lambda: Observed(new), 5, 50),
        ("torch", lambda: Observed(dict_of(8)), 5, 150),
        ("torch", ZeroVector, 5, 130),
        pytest.param("jax", lambda: Observed(new), 14, 50, marks=FAST_JAX),
        pytest.param("jax", lambda: Observed(dict_of(8)), 45, 180, marks=FAST_JAX),
        pytest.param("jax", ZeroVector, 45, 180, marks=FAST_JAX),
        ("numpy", lambda: Observed(new), 9, 45),
    ],
)
def test_a_step_takes_few_calls(name, make, in_c, in_python):
    """What C calls is not counted: that is the framework's own."""
    pytest.importorskip(name)
    env = make()
    action = np.zeros(64, np.int64) if isinstance(env, ZeroVector) else np.int64(1)
    bare = calls_of_a_step(make(), action)
    ours = calls_of_a_step(arrayferry.wrap(env, name), arrayferry.convert(action, name))
    assert ours - bare <= (in_python if speedups is None else in_c)


@pytest.mark.needs("gymnasium>=1.2")  # the first with an ArrayConversion
@pytest.mark.skipif(speedups is None, reason="a call in Python says little about its time")
@pytest.mark.parametrize(("name", "less"), [("torch", 1.5), pytest.param("jax", 2.5, marks=FAST_JAX)])
@pytest.mark.parametrize("make", [lambda: Observed(new), lambda: Observed(dict_of(8)), ZeroVector])
def test_fewer_calls_than_gymnasiums_wrapper(name, less, make):
    module = pytest.importorskip({"torch": "torch", "jax": "jax.numpy"}[name])
    vector = isinstance(make(), ZeroVector)
    action = arrayferry.convert(np.zeros(64, np.int64) if vector else np.int64(1), name)
    theirs = (gym.wrappers.vector if vector else gym.wrappers).ArrayConversion
    env = theirs(make(), env_xp=np, target_xp=module)
    assert calls_of_a_step(arrayferry.wrap(make(), name), action) * less <= calls_of_a_step(env, action)


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
