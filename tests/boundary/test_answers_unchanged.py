"""A leaf without counterpart stays as it is; in an observation or action, with a warning that names it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import arrayferry
from helpers.compare import assert_array
from helpers.envs import Recorder, Scripted

DATES = np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")
GOOD = np.zeros(3, np.float32)


def caught(call: Any) -> tuple[Any, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    assert all(issubclass(one.category, arrayferry.errors.KeptWarning) for one in found), found
    return result, found


def test_in_an_observation_it_stays_and_is_named_once(target: str) -> None:
    if target == "numpy":
        pytest.skip("NumPy has its own dates: see below")
    obs = {"x": GOOD, "when": [DATES, DATES]}
    env = arrayferry.wrap(Scripted(*[(obs, 0.0, False, False, {})] * 3, reset=(obs, {})), target)
    (got, _), found = caught(env.reset)
    assert got["when"][0] is DATES
    assert_array(got["x"], GOOD, target)
    assert [str(one.message).split(":")[0] for one in found] == ['obs["when"][0]', 'obs["when"][1]']
    assert all("datetime64" in str(one.message) and target in str(one.message) for one in found)
    for _ in range(3):
        (got, *_), found = caught(lambda: env.step(0))
        assert got["when"][1] is DATES
        assert not found


def test_a_new_leaf_is_named_too(target: str) -> None:
    if target == "numpy":
        pytest.skip("NumPy has its own dates: see below")
    env = arrayferry.wrap(Scripted(({"b": DATES}, 0.0, False, False, {}), reset=({"a": DATES}, {})), target)
    assert len(caught(env.reset)[1]) == 1
    (warning,) = caught(lambda: env.step(0))[1]
    assert str(warning.message).startswith('obs["b"]')
    assert not caught(env.reset)[1]


def test_in_an_info_it_stays_without_a_word(target: str) -> None:
    info = {"when": DATES, "names": np.array(["a", "b"]), "masked": np.ma.masked_array([1, 2], [True, False])}
    env = arrayferry.wrap(Scripted((GOOD, 0.0, False, False, info), reset=(GOOD, info)), target)
    for call in (env.reset, lambda: env.step(0)):
        result, found = caught(call)
        assert not found
        kept = result[-1]
        if target != "numpy":
            assert all(kept[key] is info[key] for key in info)
        assert kept["names"].tolist() == ["a", "b"]
        assert kept["masked"].mask.tolist() == [True, False]


def test_options_and_strings_are_not_worth_a_warning(target: str) -> None:
    base = Recorder()
    env = arrayferry.wrap(base, target)
    _, found = caught(lambda: env.reset(options={"when": DATES, "name": "x"}))
    assert not found
    assert base.resets[0][1]["name"] == "x"
    assert base.resets[0][1]["when"].tolist() == DATES.tolist()
    (got, _), found = caught(
        arrayferry.wrap(Scripted(reset=({"mission": "go left", "n": None}, {})), target).reset
    )
    assert got == {"mission": "go left", "n": None}
    assert not found


class Camera:
    """Not a container that anybody knows."""

    def __init__(self, content: Any) -> None:
        self.content = content


def test_an_object_that_holds_arrays_stays_and_is_named_once(target: str) -> None:
    obs = {"x": GOOD, "camera": Camera({"left": [GOOD]}), "other": Camera(GOOD)}
    info = {"camera": Camera(GOOD)}
    env = arrayferry.wrap(Scripted(*[(obs, 0.0, False, False, info)] * 2, reset=(obs, info)), target)
    (got, _), (warning,) = caught(env.reset)
    assert str(warning.message).startswith('obs["camera"]: ')
    assert "arrayferry.register_container(Camera, " in str(warning.message)
    for _ in range(2):
        assert got["camera"] is obs["camera"]
        assert got["other"] is obs["other"]
        (got, *_), found = caught(lambda: env.step(0))
        assert not found


def test_an_object_without_arrays_is_not_worth_a_warning(target: str) -> None:
    obs = {"x": GOOD, "camera": Camera(["left", 3])}
    (got, _), found = caught(arrayferry.wrap(Scripted(reset=(obs, {"camera": Camera(GOOD)})), target).reset)
    assert got["camera"] is obs["camera"]
    assert not found


def test_in_an_action_it_is_named() -> None:
    jnp = pytest.importorskip("jax.numpy")
    base = Recorder(xp=jnp)
    env = arrayferry.wrap(base, "numpy")
    env.reset()
    for number in range(2):
        _, found = caught(lambda: env.step({"when": DATES, "x": GOOD}))
        assert len(found) == (1 if number == 0 else 0)
        if found:
            assert str(found[0].message).startswith('action["when"]')
            assert "jax" in str(found[0].message)
        assert base.actions[-1]["when"] is DATES


def test_the_warning_points_at_the_caller() -> None:
    pytest.importorskip("torch")
    env = arrayferry.wrap(Scripted(({"b": DATES}, 0.0, False, False, {}), reset=({"a": DATES}, {})), "torch")
    _, found = caught(lambda: env.reset())
    assert [one.filename for one in found] == [__file__]
    _, found = caught(lambda: env.step(0))
    assert [one.filename for one in found] == [__file__]


def test_every_wrapper_warns_for_itself() -> None:
    pytest.importorskip("torch")
    for _ in range(2):
        env = arrayferry.wrap(Scripted(reset=({"a": DATES}, {})), "torch")
        assert len(caught(env.reset)[1]) == 1


def test_dates_in_an_observation_for_numpy_stay_dates() -> None:
    env = arrayferry.wrap(Scripted(reset=({"when": DATES}, {})), "numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", arrayferry.errors.KeptWarning)
        obs, _ = env.reset()
    assert obs["when"].dtype == DATES.dtype
    assert obs["when"].tolist() == DATES.tolist()


def test_a_typed_jax_key_in_an_info_is_left_alone() -> None:
    jax = pytest.importorskip("jax")
    key = jax.random.key(3)
    (_, info), found = caught(arrayferry.wrap(Scripted(reset=(GOOD, {"key": key})), "numpy").reset)
    assert info["key"] is key
    assert not found


def test_as_an_error_the_environment_can_be_reset_again() -> None:
    pytest.importorskip("torch")
    env = arrayferry.wrap(Scripted(reset=({"a": DATES}, {})), "torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(arrayferry.errors.KeptWarning, match=r'obs\["a"\]'):
            env.reset()
    assert env.reset()[0]["a"] is DATES
