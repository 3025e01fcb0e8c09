"""A forked process has its parent's memory and none of its threads: JAX is refused there, torch works."""

from __future__ import annotations

import os
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

# Runs each case in a forked process, and says how that ended.
START = """
import os, signal, sys, warnings
import numpy as np
import arrayferry
from arrayferry import convert, Converter

warnings.simplefilter("ignore")  # JAX warns of every fork
signal.signal(signal.SIGALRM, signal.SIG_DFL)

def forked(name, case):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        signal.alarm(30)  # which ends a process that hangs
        try:
            case()
            print(name, "worked", flush=True)
        except arrayferry.FerryError as error:
            print(name, "refused:", error.hint, flush=True)
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    if ended:
        print(name, "hung" if ended == signal.SIGALRM else f"ended with {ended}", flush=True)
"""

small, big = "np.ones(4, 'f4')", "np.ones((1000, 1000), 'f4')"

JAX = f"""
import jax, jax.numpy as jnp
array, to_jax = jnp.ones((500, 500)), Converter("jax")
to_jax({big})
forked("a new converter", lambda: Converter("jax"))
forked("an old converter", lambda: to_jax({{"x": {small}}}))
forked("a number", lambda: to_jax(1.5))
forked("from JAX", lambda: convert([array], "numpy"))
forked("within JAX", lambda: convert([array], "jax"))
forked("a forked process's own", lambda: forked("grandchild", lambda: to_jax({small})))
forked("without JAX", lambda: convert({small}, "numpy"))
"""


def test_jax_is_refused_once_it_has_started(run_python):
    pytest.importorskip("jax")
    lines = run_python(START + JAX).splitlines()
    names = ["a new converter", "an old converter", "a number", "from JAX", "within JAX", "grandchild"]
    assert [line.partition(" refused: ")[0] for line in lines if " refused: " in line] == names
    assert all('context="forkserver"' in line for line in lines if " refused: " in line)
    assert lines[-2:] == ["a forked process's own worked", "without JAX worked"]


def test_jax_that_was_only_imported_works(run_python):
    pytest.importorskip("jax")
    code = f"import jax.numpy as jnp\nforked('both', lambda: jnp.sum(convert({small}, 'jax')).item())"
    assert run_python(START + code) == "both worked\n"


TORCH = f"""
import torch
torch.set_num_threads(4)
large = torch.ones(1000, 1000)  # from here on it has threads
lazy = torch.ones(1000, 1000, dtype=torch.complex64).conj().imag
brain, to_torch = large.bfloat16(), Converter("torch")
forked("to torch", lambda: to_torch({big}))
forked("within torch", lambda: to_torch(large))
forked("cast", lambda: convert(large, "torch", dtypes={{"float32": "float64"}}))
forked("from torch", lambda: convert([large, lazy], "numpy"))
forked("bfloat16", lambda: convert(brain, "numpy"))
forked("threads", lambda: to_torch(large) is None or torch.get_num_threads() == 4 or 1 / 0)
"""


def test_torch_converts_without_its_threads(run_python):
    pytest.importorskip("torch")
    names = ["to torch", "within torch", "cast", "from torch", "bfloat16", "threads"]
    assert run_python(START + TORCH).splitlines() == [f"{name} worked" for name in names]


@pytest.mark.skipif(sys.platform != "linux", reason="seen on Linux")
def test_both_would_hang_otherwise(run_python):
    """When this fails, the frameworks have learned to fork, and need no refusal any more."""
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    code = START.replace("alarm(30)", "alarm(5)") + (
        "import torch, jax, jax.numpy as jnp\n"
        "large, array = torch.ones(1000, 1000), jnp.ones(4) + 1\n"
        "torch.set_num_threads(4); large.clone()\n"
        "forked('torch', lambda: large.clone())\n"
        "allow = lambda: jax.config.update('jax_transfer_guard_host_to_device', 'allow')\n"
        "forked('jax', lambda: (allow(), (array * 3).block_until_ready()))\n"
    )
    assert run_python(code).splitlines() == ["torch hung", "jax hung"]


def test_jax_still_tells_whether_it_has_started(run_python):
    """Otherwise one that is only imported would be refused, too."""
    pytest.importorskip("jax")
    printed = run_python(
        "from arrayferry._frameworks import _jax_private as ours\n"
        "import jax\n"
        "from jax._src.xla_bridge import backends_are_initialized\n"
        "print(ours.has_started(), jax.numpy.ones(1).sum(), ours.has_started())\n"
    )
    assert printed == "False 1.0 True\n"


ENVIRONMENTS = """
import gymnasium as gym, jax, jax.numpy as jnp

class Computes(gym.Env):
    observation_space, action_space = gym.spaces.Box(-9, 9, (2,)), gym.spaces.Discrete(2)

    def __init__(self):
        self.state = jnp.zeros(2)

    def reset(self, *, seed=None, options=None):
        self.state = jax.random.uniform(jax.random.PRNGKey(seed or 0), (2,))
        return self.state, {}

    def step(self, action):
        self.state = self.state + action
        return self.state, 0.0, False, False, {}

def tell(call):
    try:
        call()
        print("worked", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""

IN_A_FORK = """
made = Computes()
made.reset(seed=1)
wrapped = arrayferry.wrap(made, "numpy")
wrapped.reset(seed=1)
forked("made", lambda: tell(Computes))
forked("reset", lambda: tell(lambda: made.reset(seed=2)))
forked("wrapped reset", lambda: tell(lambda: wrapped.reset(seed=2)))
forked("wrapped step", lambda: tell(lambda: wrapped.step(1)))
forked("numpy", lambda: tell(lambda: arrayferry.wrap(gym.make("CartPole-v1"), "numpy").reset(seed=1)))
made.reset(seed=3), made.step(1), wrapped.reset(seed=3)  # in this process all is as it was
print("here", jax.config.jax_transfer_guard_host_to_device)
"""


def test_environments_in_jax_raise_where_they_would_hang(run_python):
    pytest.importorskip("jax")
    lines = run_python(START + ENVIRONMENTS + IN_A_FORK).splitlines()
    names = ["made", "reset", "wrapped reset", "wrapped step", "numpy"]
    assert lines[1:-1:2] == [f"{name} worked" for name in names], "none of them hung or died"
    assert "worked" not in lines[0:8:2], "JAX refused"
    assert lines[8] == "worked"
    assert lines[-1] == "here None"


OF_ITS_OWN_ARRAYS = """
from gymnasium import spaces
from arrayferry.envs import Interface, as_gymnasium, register_environment

class Walk:
    pass

def interface(env, params):
    def reset(key):
        return key, jax.random.uniform(key, (1,)), {}
    def step(key, state, action):
        return state, jnp.float32([0]), 1.0, False, False, {}
    return Interface(reset, step, None, spaces.Discrete(2))

class Goes(Computes):
    def reset(self, *, seed=None, options=None):
        return self.state + self.state, {}

    def step(self, action):
        return self.state + self.state, 0.0, False, False, {}

register_environment(Walk, interface)
action = jnp.int32(1)
one, many, goes, never_reset = as_gymnasium(Walk()), as_gymnasium(Walk(), 2), Goes(), Goes()
for env, first in (one, action), (many, action[None].repeat(2)), (goes, action):
    env.reset(), env.step(first)
wrapped, fresh = arrayferry.wrap(goes, "numpy"), arrayferry.wrap(never_reset, "numpy")
wrapped.reset(), wrapped.step(1)
forked("single step", lambda: one.step(action))
forked("single reset", lambda: one.reset())
forked("vector step", lambda: many.step(None))
forked("vector reset", lambda: many.reset())
forked("state", lambda: one.state)
forked("pickle", one.__getstate__)
forked("made", lambda: as_gymnasium(Walk()))
forked("wrapped reset", lambda: wrapped.reset())
forked("wrapped step", lambda: wrapped.step(1))
forked("wrapped, never reset", lambda: fresh.reset())
one.step(action), many.reset(), wrapped.reset()
"""


def test_environments_that_compute_with_their_own_arrays_are_refused(run_python):
    """JAX's guard does not see them: they take nothing from the host."""
    pytest.importorskip("jax")
    lines = run_python(START + ENVIRONMENTS + OF_ITS_OWN_ARRAYS).splitlines()
    assert len(lines) == 10
    hint = 'refused: start it differently, for example with AsyncVectorEnv(..., context="forkserver")'
    assert all(hint in line for line in lines)


WORKERS = """
import os
from gymnasium.vector import AsyncVectorEnv

jnp.ones(2).block_until_ready()  # JAX starts
signal.alarm(60)
tell(lambda: AsyncVectorEnv([Computes] * 2, context="fork").reset(seed=1))
os._exit(0)
"""


def test_forked_workers_end_instead_of_hanging(run_python):
    pytest.importorskip("jax")
    lines = run_python(START + ENVIRONMENTS + WORKERS).splitlines()
    assert len(lines) == 1
    assert lines != ["worked"]
