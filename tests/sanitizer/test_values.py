"""Values that are not what was promised: another form, outside of their space, NaN or infinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.sanitizer import SanitizerWarning
from sanitizer.helpers import NAN, ZERO, found, step_of, worse
from toys import BOX, Recorder, Scripted


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
