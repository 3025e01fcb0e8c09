"""`explain`: what it says is what `convert` does."""

from __future__ import annotations

import json
import sys
import weakref

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given

import arrayferry
from arrayferry._core import ownership
from arrayferry._explain.advice import advice_for
from arrayferry._explain.leaves import Leaf, flat
from arrayferry._explain.why import obstacle_to_taking
from arrayferry.testing import LAYOUTS, arrays


def verdicts(explanation):
    return {leaf.path: leaf.verdict for leaf in explanation.leaves}


def only(explanation):
    [leaf] = explanation.leaves
    return leaf


# --- why


@given(array=arrays())
def test_obstacles_are_those_of_the_converter(array):
    assert (obstacle_to_taking(array) == "") == ownership.can_be_taken(array)


def test_every_obstacle_has_its_words():
    held, cut, frozen = np.zeros(4), np.zeros((4, 4)), np.zeros(4)
    keep = weakref.ref(held)
    frozen.flags.writeable = False
    said = [obstacle_to_taking(array) for array in (held, cut[:, 0], frozen, np.zeros(4, ">f8"))]
    assert said == [
        "somebody has a weak reference to it",
        "it is a view of other memory",
        "it is read-only",
        "it is not in native byte order",
    ]
    assert obstacle_to_taking(np.zeros((3, 4), order="F")) == "it is not in C order"
    assert (
        obstacle_to_taking(np.zeros(2).view(np.recarray)) == "a recarray may have more to it than its values"
    )
    assert obstacle_to_taking(np.zeros(2, object)) == "it has objects in it"
    assert keep() is held


def test_what_nobody_holds_is_taken_over(name):
    leaf = only(arrayferry.explain(np.zeros(64, np.float32), name))
    assert leaf.memory in ("taken over", "copied")
    framework = arrayferry.Converter(name).framework
    if framework._fast.from_private(None) is not None and not framework._fast.alignment:  # else it is luck
        # Until Python 3.11, whoever calls a function holds its arguments while it runs.
        held = sys.version_info < (3, 11)
        assert leaf.verdict == ("copied: you still hold it" if held else "taken over: nobody else holds it")


def test_what_somebody_holds_is_copied(name):
    held = np.zeros(4, np.float32)
    assert only(arrayferry.explain(held, name)).verdict == "copied: you still hold it"
    inside = {"x": np.zeros(4, np.float32)}
    assert only(arrayferry.explain(inside, name)).verdict == "copied: you still hold what it is in"


def test_verdict_is_what_convert_does(pair):
    """Copied or not, seen from the memory of what `convert` gives."""
    source, target = pair
    array = arrayferry.convert(np.arange(6, dtype=np.float32), source)
    leaf = only(arrayferry.explain(array, target))
    assert leaf.memory in ("copied", "taken over")
    assert (leaf.route[0], leaf.route[-1]) == pair
    assert (leaf.before, leaf.after, leaf.shape) == ("float32", "float32", (6,))
    assert leaf.memory == "copied" or source == target  # `array` is still held
    assert np.array_equal(np.asarray(arrayferry.convert(array, "numpy")), np.arange(6))


def test_options_are_reasons():
    held = np.zeros(4)
    assert only(arrayferry.explain(held, "numpy", copy=True)).verdict == "copied: copy=True"
    assert only(arrayferry.explain(held, "numpy", copy=False)).verdict == "shared: copy=False"
    cast = only(arrayferry.explain(held, "numpy", dtypes={"float64": "float32"}))
    assert (cast.verdict, cast.before, cast.after) == (
        "cast to float32: dtypes= asks for it",
        "float64",
        "float32",
    )


@pytest.mark.skipif("jax" not in arrayferry.frameworks(), reason="jax is not installed")
def test_what_jax_has_not():
    found = arrayferry.explain({"n": np.array([1, 2]), "big": np.array([2**40])}, "jax")
    assert verdicts(found)['value["n"]'] == "cast to int32: jax has no int64 here"
    assert not found.ok
    assert "does not fit" in verdicts(found)['value["big"]']
    assert any("jax_enable_x64" in text for text in found.advice)


# --- paths and leaves


def test_paths_are_those_of_errors():
    value = {"a": [1, {}, ("x", None)], "b": {"c": np.array([np.zeros(2), None], object)}, 3: 2.5, "e": {}}
    found = arrayferry.explain(value, "numpy")
    assert [leaf.path for leaf in found.leaves] == [
        'value["a"][0]',
        'value["a"][2][0]',
        'value["a"][2][1]',
        'value["b"]["c"][0]',
        'value["b"]["c"][1]',
        "value[3]",
    ]
    assert list(flat(value["a"], "x")) == ["x[0]", "x[2][0]", "x[2][1]"]


def test_what_is_left_alone_says_so():
    found = verdicts(arrayferry.explain({"s": "text", "t": np.array(["text"]), "b": True}, "numpy"))
    assert found == {
        'value["s"]': "left alone: a str is no array",
        'value["t"]': "taken over: nobody else holds it",
        'value["b"]': "left alone: a bool is no array",
    }


def test_nothing_is_changed_by_looking():
    held = {"x": np.arange(3), "y": [np.ones(2)]}
    explanation = arrayferry.explain(held, "numpy")
    assert np.array_equal(held["x"], [0, 1, 2])
    assert explanation.totals == {"copied": 40}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_explained(layout, name):
    leaf = only(arrayferry.explain(LAYOUTS[layout](np.arange(12, dtype=np.float32).reshape(3, 4)), name))
    assert leaf.memory in ("copied", "taken over")
    assert leaf.why


# --- environments


class Env(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (20_000,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, keeps):
        self.memory = np.zeros(20_000) if keeps else None
        self.seen = []

    def observe(self):
        return np.zeros(20_000) if self.memory is None else self.memory

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        self.seen.append(action)
        return self.observe(), np.float32(1), len(self.seen) % 3 == 0, False, {}


def test_leaves_of_an_environment_come_from_real_steps():
    env = Env(keeps=False)
    found = arrayferry.explain(env, "numpy", steps=6)
    assert verdicts(found)["obs"] == "taken over: nobody else holds it"
    assert verdicts(found)["reward"] == "made: it becomes a float"
    assert verdicts(found)["terminated"] == "left alone: it stays a bool"
    assert len(env.seen) == 12
    assert all(action in env.action_space for action in env.seen)
    assert found.steps == 6
    assert all(leaf.seen == 6 for leaf in found.leaves)
    assert set(found.seconds) == {"step", "action", "out"}


def test_what_an_environment_keeps_is_copied_and_advised():
    found = arrayferry.explain(Env(keeps=True), "numpy", steps=2)
    assert verdicts(found)["obs"] == "copied: the environment still holds it"
    assert "dtypes={'float64': 'float32'} halves it" in found.advice[0]
    assert "copy=False shares it" in found.advice[1]
    again = arrayferry.explain(Env(keeps=True), "numpy", steps=2, dtypes={"float64": "float32"})
    assert again.advice == ()


def test_action_on_its_way_in(name):
    found = verdicts(arrayferry.explain(Env(keeps=False), name, steps=2))
    assert found["action"] == "copied: the agent still holds it"
    found = verdicts(arrayferry.explain(gym.make("CartPole-v1"), name, steps=2))
    assert found["action"] == "made: one number, as the space has"


def test_vector_environment(name):
    envs = gym.make_vec("CartPole-v1", num_envs=3)
    found = {leaf.path: leaf for leaf in arrayferry.explain(envs, name, steps=3).leaves}
    assert list(found) == ["action", "obs", "reward", "terminated", "truncated"]
    assert found["obs"].shape == (3, 4)


def test_vector_environment_that_does_not_reset_itself():
    mode = gym.vector.AutoresetMode.DISABLED
    envs = gym.vector.SyncVectorEnv([lambda: Env(keeps=False)] * 2, autoreset_mode=mode)
    assert arrayferry.explain(envs, "numpy", steps=5).steps == 5


def test_final_observations_are_advised():
    leaf = Leaf(
        'info["final_obs"][0]', (4,), "float32", "float32", ("numpy", "torch"), "copied", "", 16, 1e-6
    )
    assert advice_for([leaf], arrayferry.Converter("numpy"), vector=True) == (
        "final_obs is an array of objects: dense_final=True makes it one batch",
    )


def test_steps_must_be_positive():
    with pytest.raises(arrayferry.errors.OptionError, match="steps=0"):
        arrayferry.explain(Env(keeps=False), "numpy", steps=0)


# --- how it is shown


def test_as_text_html_and_data():
    held = {"<x>": np.zeros(3), "s": "text"}
    found = arrayferry.explain(held, "numpy")
    text = str(found)
    assert text == repr(found)
    assert text.splitlines()[0] == "a value to numpy"
    assert "float64[3]" in text
    html = found._repr_html_()
    assert html.startswith("<table><caption>a value to numpy</caption>")
    assert "&lt;x&gt;" in html
    assert "<x>" not in html
    assert html.count("<tr>") == 3
    assert "<li>float64 in" in html
    data = json.loads(json.dumps(found.as_dict()))
    assert [leaf["memory"] for leaf in data["leaves"]] == ["copied", "left alone"]
    assert data["bytes"]["copied"] == 24


def test_rich_is_not_needed(run_python):
    hidden = "import sys; sys.modules['rich'] = None; import arrayferry, numpy as np; "
    printed = run_python(hidden + "print(arrayferry.explain(np.zeros(3), 'numpy'))")
    assert printed.startswith("a value to numpy\nleaf ")
    assert "float64[3]" in printed


def test_nothing_to_convert():
    assert str(arrayferry.explain({}, "numpy")).startswith("a value to numpy\n")


class SometimesReadOnly(gym.Env):
    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (4,))
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        obs = np.zeros(4, np.float32)
        obs.flags.writeable = self.steps % 10 != 1
        return obs, 1.0, False, False, {}


def test_a_leaf_that_is_refused_once_is_refused():
    pytest.importorskip("torch")
    explanation = arrayferry.explain(SometimesReadOnly(), "torch", copy=False, steps=20)
    assert not explanation.ok
    [obs] = [leaf for leaf in explanation.leaves if leaf.path == "obs"]
    assert (obs.memory, obs.seen) == ("refused", 4)
