"""The boundary of a wrapper: a whole step, taken over where it may be; nothing leaks and nothing is kept."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

import arrayferry
from arrayferry._boundary import actions as _actions
from arrayferry._core import walk
from arrayferry._core.speedups import speedups
from helpers.compare import arrays_in
from helpers.envs import FakeFramework

needs_c = pytest.mark.skipif(speedups is None, reason="the part in C is not built, or switched off")


DATES = np.array(["2020-01-01"], "datetime64[D]")


@pytest.mark.parametrize(
    "make",
    [
        lambda new: (new(), 1.0, False, False, {}),
        lambda new: (new(), np.float64(1), np.bool_(False), np.array(False), {"x": new()}),
        lambda new: (new(), np.float32(1), 0, np.int64(0), {"x": [new(), {"y": new()}], "s": "text", "n": 3}),
        lambda new: (
            {"x": new(), "when": DATES},
            1,
            False,
            False,
            {"when": DATES},
        ),  # dates are kept
        lambda new: [new(), 1.0, False, False, {}],
    ],
)
@pytest.mark.filterwarnings("ignore::arrayferry.errors.KeptWarning")
@pytest.mark.parametrize("mode", ["plain", "inference", "scalars"])
def test_what_a_step_makes_is_taken_over(make, mode):
    torch = pytest.importorskip("torch")
    made = []

    def new():
        array = np.full(2000, len(made), np.float32)  # small ones are copied, because that is faster
        made.append(array.ctypes.data)
        return array

    options = {"scalars": "target"} if mode == "scalars" else {}
    env = arrayferry.wrap(FakeFramework(lambda: make(new)), "torch", **options)
    env.reset()
    for _ in range(5):
        made.clear()
        with torch.inference_mode(mode == "inference"):
            obs, reward, terminated, truncated, info = env.step(torch.tensor(1))
        found = [array for array in arrays_in([obs, info]) if isinstance(array, torch.Tensor)]
        assert {array.data_ptr() for array in found} >= set(made)
        assert not any(array.is_inference() for array in found)
        if mode != "scalars":
            assert (reward, terminated, truncated) == (1.0, False, False)
            assert [type(one) for one in (reward, terminated, truncated)] == [float, bool, bool]


def test_what_the_environment_keeps_is_copied():
    torch = pytest.importorskip("torch")
    obs, info = np.zeros(3, np.float32), {"x": np.zeros(2)}
    result = (obs, 1.0, False, False, info)
    kept = []

    def whole():
        kept[:] = [(np.zeros(3, np.float32), 1.0, False, False, {"x": np.zeros(2)})]
        return kept[0]

    for make in (lambda: result, lambda: (obs, 1.0, False, False, info), whole):
        env = arrayferry.wrap(FakeFramework(make), "torch")
        env.reset()
        first = env.step(torch.tensor(0))
        source = kept[0] if make is whole else result
        source[0][:], source[4]["x"][:] = 7, 7
        assert first[0].tolist() == [0, 0, 0]
        assert first[4]["x"].tolist() == [0, 0]
        source[0][:], source[4]["x"][:] = 0, 0


def test_an_interrupt_of_a_flag_passes():
    pytest.importorskip("torch")

    class Loud:
        def __bool__(self):
            raise KeyboardInterrupt

    env = arrayferry.wrap(FakeFramework(lambda: (np.zeros(3, np.float32), 1.0, Loud(), False, {})), "torch")
    env.reset()
    with pytest.raises(KeyboardInterrupt):
        env.step(1)


def test_a_step_survives_a_flag_that_empties_what_holds_it(run_python):
    code = """
import gc, gymnasium as gym, numpy as np, arrayferry
class Flag:
    def item(self):
        for result in gc.get_referrers(self):
            if type(result) is tuple and len(result) == 5:
                for box in gc.get_referrers(result):
                    if type(box) is list and len(box) == 1 and box[0] is result:
                        box.clear()
                    box = None
            result = None
        return False
class Env(gym.Env):
    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Box(0, 1, (300,))
    def reset(self, *, seed=None, options=None):
        return np.zeros(300), {}
    def step(self, action):
        return np.zeros(300), 1.0, Flag(), {"big": [1, 0, True]}, {"x": np.zeros(300)}
env = arrayferry.wrap(Env(), "numpy")
env.reset()
for _ in range(30):
    assert env.step(0)[4]["x"].tolist() == [0] * 300
print("fine")
"""
    assert run_python(code) == "fine\n"


def test_bools_are_zero_or_one():
    """XLA counts on it."""
    jax = pytest.importorskip("jax")
    odd = np.frombuffer(b"\2\0\3\1", bool)
    env = arrayferry.wrap(FakeFramework(lambda: (odd.copy(), 1.0, False, False, {"x": odd.copy()})), "jax")
    env.reset()
    for _ in range(3):
        obs, *_, info = env.step(1)
        for array in (obs, info["x"], arrayferry.convert(odd.copy(), "jax")):
            assert isinstance(array, jax.Array)
            assert np.asarray(array).view(np.uint8).tolist() == [1, 0, 1, 1]


def test_an_empty_info_is_a_new_one():
    pytest.importorskip("torch")
    info = {}
    env = arrayferry.wrap(FakeFramework(lambda: (np.zeros(3, np.float32), 1.0, False, False, info)), "torch")
    env.reset()
    env.step(1)[4]["mine"] = 1
    assert info == {}


@needs_c
def test_an_interrupt_of_an_action_passes():
    class Loud:
        pass

    def interrupted(value):
        raise KeyboardInterrupt

    boundary = arrayferry.wrap(FakeFramework(tuple), "numpy")._boundary
    _actions._items[Loud] = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            boundary.convert_action(Loud())
    finally:
        del _actions._items[Loud]


def test_wrappers_are_not_kept_alive():
    pytest.importorskip("torch")
    env = arrayferry.wrap(FakeFramework(lambda: (np.zeros(3, np.float32), 1.0, False, False, {})), "torch")
    env.reset()
    env.step(1)
    gone = weakref.ref(env.env), weakref.ref(env._boundary)
    del env
    gc.collect()
    assert [one() for one in gone] == [None, None]


@pytest.mark.filterwarnings("ignore::arrayferry.errors.KeptWarning")
def test_references_are_given_back():
    torch = pytest.importorskip("torch")
    key, text, dates, held = "a key of its own", "some text of its own", DATES.copy(), np.zeros(3, np.float32)
    watched = [key, text, dates, held, walk.KEEP, walk.IN_PROGRESS]

    def make():
        return (
            {"o": held, key: np.zeros(3, np.float32), "d": dates},
            1.0,
            False,
            False,
            {key: [text, (held, 2.5)]},
        )

    def fail():
        return {"o": held, key: np.zeros(2)}, 1.0, np.zeros(2), object(), {key: make()}

    env, broken = arrayferry.wrap(FakeFramework(make), "torch"), arrayferry.wrap(FakeFramework(fail), "torch")
    env.reset()
    broken.reset()

    def work():
        for _ in range(50):
            env.step(torch.tensor(2))
            env.step("no action")
            with pytest.raises(arrayferry.FerryError), torch.inference_mode():
                broken.step(torch.tensor([1.5, 2]))

    work()
    gc.collect()
    before = [sys.getrefcount(one) for one in watched]
    work()
    gc.collect()
    after = [sys.getrefcount(one) for one in watched]
    assert all(abs(new - old) < 10 for new, old in zip(after, before)), (before, after)
