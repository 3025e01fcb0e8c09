"""Values that are not what was promised: another form, outside of their space, NaN or infinite."""

from __future__ import annotations

import dataclasses
import warnings
from collections import UserDict, deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.sanitizer import SanitizerWarning
from helpers.envs import BOX, Recorder, Scripted
from sanitizer.helpers import NAN, ZERO, found, step_of, worse


def test_a_leaf_changes_its_dtype_shape_or_framework() -> None:
    torch = pytest.importorskip("torch")
    for obs, kind, message in (
        (np.zeros(3), "dtype-changed", "it was float32[3] numpy, and is float64[3] numpy"),
        (np.zeros(4, np.float32), "shape-changed", "it was float32[3] numpy, and is float32[4] numpy"),
        (torch.zeros(3), "framework-changed", "it was float32[3] numpy, and is float32[3] torch"),
        (1.5, "framework-changed", "it was float32[3] numpy, and is float python"),
    ):
        space = spaces.Dict(x=BOX)
        env: Any = Scripted(
            step_of({"x": ZERO}),
            step_of({"x": obs}),
            step_of({"x": obs}),
            reset=({"x": ZERO}, {}),
            observation_space=space,
        )
        env = arrayferry.wrap(env, "numpy", sanitize=True)
        env.reset()
        env.step(1)
        assert found(env) == {}
        with pytest.warns(SanitizerWarning):
            env.step(1)
        env.step(1)
        finding = found(env)[kind, 'obs["x"]']
        assert (finding.message, finding.step, finding.times) == (message, 2, 1)
        assert {key for key in found(env) if key[0].endswith("-changed")} == {(kind, 'obs["x"]')}


def test_an_int_that_becomes_an_int64_is_an_info() -> None:
    steps = [step_of(number) for number in (1, np.int64(1), np.array(1))]
    env = arrayferry.wrap(Scripted(*steps, observation_space=spaces.Discrete(3)), "numpy", sanitize=True)
    env.unwrapped._reset = (1, {})
    env.reset()
    for _ in steps:
        env.step(1)
    assert {key: (one.severity, one.times) for key, one in found(env).items()} == {
        ("framework-changed", "obs"): ("info", 1)
    }


def test_leaves_that_appear_and_disappear_are_outside_the_space() -> None:
    env: Any = Scripted(
        step_of({"b": ZERO}), reset=({"a": ZERO, "c": ZERO}, {}), observation_space=spaces.Dict(a=BOX, c=BOX)
    )
    env = arrayferry.wrap(env, "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match=r"obs, step 1: it is not in Dict\('a': Box.*: it is .*\['b'\]"):
        env.step(1)
    assert set(found(env)) == {("outside-space", "obs")}


def test_changed_forms_in_infos_are_infos() -> None:
    infos = [{}, {"a": 1}, {"a": 1.5, "b": ZERO}, {"b": np.zeros(2)}, {"c": "text"}, {"c": None}]
    env = arrayferry.wrap(Scripted(*(step_of(ZERO, 0.0, info) for info in infos)), "numpy", sanitize=True)
    env.reset()
    for _ in infos:
        env.step(1)
    assert {key: finding.severity for key, finding in found(env).items()} == {
        ("dtype-changed", 'info["a"]'): "info",
        ("dtype-changed", 'info["b"]'): "info",
    }
    assert found(env)["dtype-changed", 'info["b"]'].message.endswith(
        "float32[3] numpy, and is float64[2] numpy"
    )


def test_changed_forms_of_a_single_reward_are_infos() -> None:
    env = arrayferry.wrap(
        Scripted(*(step_of(ZERO, r) for r in (1, 1.5, np.float32(1)))), "numpy", sanitize=True
    )
    env.reset()
    for _ in range(3):
        env.step(1)
    assert {finding.severity for finding in found(env).values()} == {"info"}


def test_an_observation_outside_its_space() -> None:
    space = spaces.Dict(camera=spaces.Box(0, 1, (2, 2)), inner=spaces.Tuple([spaces.Discrete(3), BOX]))
    good = {"camera": np.zeros((2, 2), np.float32), "inner": (1, ZERO)}
    bad = {"camera": np.float32([[0, 0], [2, 0]]), "inner": (3, ZERO)}
    env = arrayferry.wrap(
        Scripted(step_of(bad), reset=(good, {}), observation_space=space), "numpy", sanitize=True
    )
    env.reset()
    with pytest.warns(SanitizerWarning) as caught:
        env.step(1)
    assert 'obs["camera"], step 1: it is not in Box(' in str(caught[0].message)
    assert len(caught) == 2
    messages = {path: finding.message for (_, path), finding in worse(env).items()}
    assert messages == {
        'obs["camera"]': "it is not in Box(0.0, 1.0, (2, 2), float32): it is float32[2,2] numpy, 0.0 to 2.0",
        'obs["inner"][0]': "it is not in Discrete(3): it is 3",
    }


@pytest.mark.parametrize(
    ("step", "path", "severity"),
    [
        (step_of(NAN), "obs", "error"),
        (step_of(ZERO, float("nan")), "reward", "error"),
        (step_of(ZERO, np.float64("nan")), "reward", "error"),
        (step_of(ZERO, 0.0, {"a": {"b": [NAN]}}), 'info["a"]["b"][0]', "warning"),
        (step_of(ZERO, 0.0, {"a": float("nan")}), 'info["a"]', "warning"),
        (step_of(ZERO, 0.0, {"a": np.array([None, NAN], object)}), 'info["a"][1]', "warning"),
        (step_of(ZERO, 0.0, {"a": NAN.astype(complex)}), 'info["a"]', "warning"),
    ],
)
def test_a_nan_crosses(step: Any, path: str, severity: str) -> None:
    env = arrayferry.wrap(Scripted(step, step), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="NaN"):
        env.step(1)
    env.step(1)
    assert {key: finding.severity for key, finding in found(env).items()} == {("nan", path): severity}
    assert found(env)["nan", path].times == 2


def test_an_action_of_nan_and_an_infinite_reward() -> None:
    env = arrayferry.wrap(Recorder(), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match=r"action, step 1: \[1\] is NaN; look at the policy"):
        env.step(NAN)
    env = arrayferry.wrap(Scripted(step_of(ZERO, -np.inf)), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="reward, step 1: it is infinite"):
        env.step(1)


def test_infinity_in_observations_and_infos() -> None:
    unbounded = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    step = step_of(np.full(3, np.inf, np.float32), 0.0, {"best": -np.inf})
    env = arrayferry.wrap(Scripted(step, observation_space=unbounded), "numpy", sanitize=True)
    env.reset()
    env.step(1)
    assert found(env) == {}
    env = arrayferry.wrap(Scripted(step), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match=r"obs, step 1: it is not in Box\(-10.0, 10.0"):
        env.step(1)


RECORD = np.zeros(2, [("place", np.float32), ("name", "U3"), ("inner", [("speed", np.float64, (2,))])])
OBJECTS = np.zeros(2, [("place", np.float32), ("any", object)])


def _with(array: Any, write: Any) -> Any:
    new = array.copy()
    write(new)
    return new


@dataclasses.dataclass
class Outer:
    """A container that holds anything."""

    inner: Any


class Fields(Mapping[str, Any]):
    """A mapping that is not a dict."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Any:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def _torch(dtype: str) -> Any:
    torch = pytest.importorskip("torch")
    return torch.full((2,), np.nan).to(getattr(torch, dtype))


def _jax(dtype: str) -> Any:
    return pytest.importorskip("jax").numpy.full(2, np.nan, dtype)


def _small(dtype: str) -> Any:
    return np.full(2, np.nan, getattr(pytest.importorskip("ml_dtypes"), dtype))


HIDING_PLACES: dict[str, tuple[Any, str]] = {
    "structured": (
        lambda: _with(RECORD, lambda new: new["place"].__setitem__(1, np.nan)),
        '["place"]',
    ),
    "nested structured": (
        lambda: _with(RECORD, lambda new: new["inner"]["speed"].__setitem__((0, 1), np.nan)),
        '["inner"]["speed"]',
    ),
    "a record": (lambda: _with(RECORD, lambda new: new["place"].__setitem__(1, np.nan))[1], '["place"]'),
    "a structured array with objects": (
        lambda: _with(OBJECTS, lambda new: new["any"].__setitem__(0, np.array([np.nan]))),
        '["any"][0]',
    ),
    "masked": (lambda: np.ma.MaskedArray([1.0, np.nan], [True, False]), ""),
    "masked, structured": (
        lambda: np.ma.MaskedArray(_with(RECORD, lambda new: new["place"].__setitem__(1, np.nan))),
        '["place"]',
    ),
    "objects": (lambda: np.array([None, np.nan], object), "[1]"),
    "objects in objects": (lambda: np.array([None, np.array([np.nan])], object), "[1]"),
    "complex": (lambda: np.array([complex(0, np.nan)]), ""),
    "Python's complex": (lambda: complex(np.nan, 0), ""),
    "half": (lambda: np.float16([np.nan]), ""),
    "longdouble": (lambda: np.longdouble([np.nan]), ""),
    "bfloat16": (lambda: _small("bfloat16"), ""),
    "float8": (lambda: _small("float8_e4m3fn"), ""),
    "torch bfloat16": (lambda: _torch("bfloat16"), ""),
    "torch float8": (lambda: _torch("float8_e5m2"), ""),
    "torch complex": (lambda: _torch("complex64"), ""),
    "torch with gradient": (lambda: _torch("float32").requires_grad_(), ""),
    "jax bfloat16": (lambda: _jax("bfloat16"), ""),
    "jax float8": (lambda: _jax("float8_e4m3fn"), ""),
    "dataclass": (lambda: Outer(Outer(NAN)), ".inner.inner"),
    "mapping": (lambda: Fields(a=NAN), '._fields["a"]'),
    "deque": (lambda: deque([ZERO, NAN]), "[1]"),
    "UserDict": (lambda: UserDict(a=NAN), '.data["a"]'),
}


@pytest.mark.parametrize("place", ["obs", 'info["x"]'])
@pytest.mark.parametrize(("make", "path"), HIDING_PLACES.values(), ids=HIDING_PLACES)
def test_a_nan_is_found_wherever_it_hides(make: Any, path: str, place: str) -> None:
    class Anything(spaces.Space[Any]):
        def contains(self, x: Any) -> bool:
            return True

    value = make()
    step = step_of(value) if place == "obs" else step_of(ZERO, 0.0, {"x": value})
    env = arrayferry.wrap(Scripted(step, observation_space=Anything()), "numpy", sanitize=True)
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", arrayferry.errors.KeptWarning)
        with pytest.warns(SanitizerWarning, match="NaN"):
            env.step(1)
    assert set(worse(env)) == {("nan", place + path)}
    assert not arrayferry.findings(env)


def test_what_is_masked_is_not_there() -> None:
    info = {"a": np.ma.MaskedArray([1.0, np.nan], [False, True])}
    env = arrayferry.wrap(Scripted(step_of(ZERO, 0.0, info)), "numpy", sanitize="raise")
    env.reset()
    env.step(1)
    assert arrayferry.findings(env)


def test_only_vectors_have_masks_beside_their_infos() -> None:
    info = {"a": np.array([np.nan, 1]), "_a": np.array([False, True])}
    env = arrayferry.wrap(Scripted(step_of(ZERO, 0.0, info)), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match=r'info\["a"\], step 1: \[0\] is NaN'):
        env.step(1)


LISTS: dict[str, tuple[spaces.Space[Any], Any]] = {
    "Box": (BOX, [0.0, 0.0, 0.0]),
    "tuple": (BOX, (0.0, 0.0, 0.0)),
    "deque": (BOX, deque([0.0, 0.0, 0.0])),
    "arrays": (spaces.Box(-1, 1, (2, 3), np.float32), [ZERO, ZERO]),
    "MultiBinary": (spaces.MultiBinary(3), [0, 1, 0]),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 2]), [0, 1]),
}


@pytest.mark.parametrize(("space", "value"), LISTS.values(), ids=LISTS)
def test_a_list_is_no_array(space: spaces.Space[Any], value: Any) -> None:
    """Gymnasium's spaces make an array of it; the agent gets a list."""
    for one, obs, path in ((space, value, "obs"), (spaces.Dict(a=space), {"a": value}, 'obs["a"]')):
        env = arrayferry.wrap(
            Scripted(step_of(obs), reset=(one.sample(), {}), observation_space=one), "numpy", sanitize=True
        )
        env.reset()
        with pytest.warns(SanitizerWarning, match="it is not in"):
            env.step(1)
        assert ("outside-space", path) in worse(env)
        assert not arrayferry.findings(env)


def test_a_list_is_not_safe_as_wrapped() -> None:
    env = Scripted(*[step_of([0.0, 0.0, 0.0])] * 20, reset=([0.0, 0.0, 0.0], {}))
    report = arrayferry.check(env, "numpy", steps=5, copy=True)
    assert report.verdict == "not safe as wrapped (1 warning)"
    assert not report


def test_a_number_is_a_member_of_a_box_without_axes() -> None:
    space = spaces.Box(-1, 1, (), np.float32)
    steps = [step_of(np.float32(0.5)), step_of(np.array(0.5, np.float32))]
    env = arrayferry.wrap(
        Scripted(*steps, reset=(np.float32(0), {}), observation_space=space), "numpy", sanitize=True
    )
    env.reset()
    env.step(1)
    assert arrayferry.findings(env)
