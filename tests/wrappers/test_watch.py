"""`sanitize`: on and off, for an environment, a block or a program; and imported only when it is on."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry.sanitizer import Sanitizer, VectorSanitizer
from helpers.envs import Counter, Scripted


def is_watched(**options: Any) -> Any:
    """How a new environment is watched; None if it is not."""
    inner = arrayferry.wrap(Counter(), "numpy", **options).env
    return inner._saved_kwargs["on_finding"] if isinstance(inner, Sanitizer) else None


def test_sanitize_for_a_block() -> None:
    with arrayferry.sanitize():
        assert is_watched() == "warn"
        assert is_watched(sanitize=False) is None
        with arrayferry.sanitize("raise"):
            assert is_watched() == "raise"
            assert is_watched(sanitize=True) == "warn"
        with arrayferry.sanitize(False):
            assert is_watched() is None
            assert is_watched(sanitize=True) == "warn"
        assert is_watched() == "warn"
    assert is_watched() is None


def test_sanitize_ends_with_its_block_on_exceptions() -> None:
    with pytest.raises(KeyError), arrayferry.sanitize():
        raise KeyError
    assert is_watched() is None


def test_sanitize_for_a_whole_program() -> None:
    try:
        arrayferry.sanitize()
        assert is_watched() == "warn"
        vector = arrayferry.wrap(gym.vector.SyncVectorEnv([Counter]), "numpy")
        assert type(vector.env) is VectorSanitizer
    finally:
        arrayferry.sanitize(False)
    assert is_watched() is None


@pytest.mark.parametrize(
    ("word", "wanted"), [("1", "warn"), ("true", "warn"), ("raise", "raise"), ("0", "None"), ("", "None")]
)
def test_sanitize_by_environment_variable(run_python: Any, word: str, wanted: str) -> None:
    code = """
import arrayferry, gymnasium as gym
inner = arrayferry.wrap(gym.make("CartPole-v1"), "numpy").env
print(inner._saved_kwargs.get("on_finding"))
"""
    assert run_python(code, ARRAYFERRY_SANITIZE=word).strip() == wanted


def test_an_unknown_mode_is_refused(run_python: Any) -> None:
    for call in (lambda: is_watched(sanitize="rais"), lambda: arrayferry.sanitize("yes")):  # type: ignore[arg-type]
        with pytest.raises(arrayferry.errors.OptionError, match="True, False or 'raise'"):
            call()
    assert is_watched() is None
    code = """
import arrayferry
try:
    arrayferry.wrap
except ValueError as error:
    print(error)
"""
    assert "ARRAYFERRY_SANITIZE='on' is not valid\nHint: set it to 1, raise or 0" in run_python(
        code, ARRAYFERRY_SANITIZE="on"
    )
    with pytest.raises(arrayferry.errors.OptionError, match="'warn' or 'raise'"):
        Sanitizer(Counter(), on_finding="shout")  # type: ignore[arg-type]


def test_a_watched_environment_is_not_watched_twice() -> None:
    watched = Sanitizer(Counter())
    assert arrayferry.wrap(watched, "numpy", sanitize=True).env is watched
    assert arrayferry.wrap(watched, "numpy", copy=False, sanitize=True).env is not watched  # by other rules


def test_findings_of_a_whole_stack() -> None:
    pytest.importorskip("torch")
    step = (np.full(3, np.nan, np.float32), 0.0, False, False, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = arrayferry.wrap(Scripted(step), "numpy", sanitize=True)
        outer = arrayferry.wrap(gym.wrappers.TimeLimit(inner, 9), "torch", sanitize=True)
        outer.reset()
        outer.step(1)
        assert [finding.kind for finding in arrayferry.findings(outer)] == ["nan", "nan"]
        assert arrayferry.findings(outer).steps == 1
        watched = lambda: arrayferry.wrap(Scripted(step), "numpy", sanitize=True)  # noqa: E731
        envs = gym.vector.SyncVectorEnv([watched, watched])
        envs.reset()
        envs.step(np.array([1, 1]))
        assert [finding.path for finding in arrayferry.findings(envs)] == ["obs", "obs"]


IMPORTED = """
import sys, gymnasium as gym, numpy as np
import arrayferry.wrappers
env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy"{options})
env.reset(seed=1), env.step(np.int64(1))
print(*sorted(name for name in sys.modules if name.startswith("arrayferry.sanitizer")))
"""


def test_wrappers_import_the_sanitizer_only_when_it_is_on(run_python: Any) -> None:
    assert run_python(IMPORTED.format(options="")).split() == []
    assert run_python(IMPORTED.format(options=", sanitize=False"), ARRAYFERRY_SANITIZE="1").split() == []
    assert "arrayferry.sanitizer.wrapper" in run_python(IMPORTED.format(options=", sanitize=True"))
    assert "arrayferry.sanitizer.wrapper" in run_python(IMPORTED.format(options=""), ARRAYFERRY_SANITIZE="1")
