"""Under `torch.compile`: a conversion, or a step, is one graph break, and nothing of it is traced."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from arrayferry import Converter, convert, wrap

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.needs("torch>=2.7")

TO_NUMPY = Converter("numpy")
CALLS = {
    "convert": (lambda x: torch.from_numpy(convert(x + 1, "numpy")) * 2, torch.ones(3)),
    "Converter": (lambda x: torch.from_numpy(TO_NUMPY(x + 1)) * 2, torch.ones(3)),
    "take": (lambda x: torch.from_numpy(TO_NUMPY.take(x + 1)) * 2, torch.ones(3)),
}


@pytest.fixture(autouse=True)
def _reset():
    import torch._dynamo

    Converter("torch")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def step_of(env):
    def step(action):
        obs, *_ = env.step(action + 0)
        return obs * 2 + 1

    return step


def graph_breaks():
    return sum(torch._dynamo.utils.counters["graph_break"].values())


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


@pytest.mark.parametrize("name", CALLS)
def test_a_conversion_is_one_graph_break(name):
    function, x = CALLS[name]
    assert torch.equal(compiled(function)(x), function(x))
    assert graph_breaks() == 1
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # before and after


@pytest.mark.parametrize("many", [False, True])
def test_a_step_is_one_graph_break_and_its_environment_is_not_traced(many):
    env = wrap(gym.make_vec("CartPole-v1", 2) if many else gym.make("CartPole-v1"), "torch")
    step, action = compiled(step_of(env)), torch.tensor([1, 0] if many else 1)
    env.reset(seed=0)
    found = [step(action) for _ in range(3)]
    assert graph_breaks() == 1
    env.reset(seed=0)
    assert all(torch.equal(each, step_of(env)(action)) for each in found)


# In a process of its own: after such an error, Dynamo stays between the interpreter and every call.
FULLGRAPH = """
import warnings; warnings.simplefilter("ignore")
import gymnasium as gym, torch
from arrayferry import Converter, convert, wrap
env = wrap(gym.make("CartPole-v1"), "torch")
env.reset(seed=0)
to_numpy = Converter("numpy")
for function in (
    lambda x: convert(x + 1, "numpy"),
    lambda x: to_numpy(x + 1),
    lambda x: to_numpy.take(x + 1),
    lambda x: env.step(x),
    lambda x: env.reset(),
):
    try:
        torch.compile(function, backend="eager", fullgraph=True)(torch.tensor(1))
    except Exception as error:
        assert "compile the code around it: see its page Devices" in str(error), error
    else:
        raise AssertionError("it was compiled")
print("fine")
"""


def test_fullgraph_says_which_page_explains_it(run_python):
    assert run_python(FULLGRAPH).endswith("fine\n")


def test_what_is_around_it_is_still_compiled():
    def around(x):
        return (x + 1).sum()

    assert compiled(around, fullgraph=True)(torch.ones(3)) == 6
    assert convert(np.ones(2), "torch").tolist() == [1, 1]
