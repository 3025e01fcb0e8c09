"""What the caller has set, a successor has: the seed and options of a reset, and every attribute."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pytest

import arrayferry
from arrayferry.scale import ProcessVectorEnv
from scale import interrupts, successors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.mark.parametrize("number", range(0, len(successors.CASES), 6))
def test_a_successor_is_like_the_lost_one(number: int) -> None:
    """Some of the cases; all of them are goal R27."""
    successors.CASES[number]()


@pytest.mark.parametrize("mode", list(interrupts.AutoresetMode))
def test_attributes_of_lost_workers(mode: Any) -> None:
    successors.autoreset_keeps_attributes(mode)


class Picky(interrupts.Witness):
    """Accepts some values only."""

    @property
    def limit(self) -> int:
        return getattr(self, "_limit", 0)

    @limit.setter
    def limit(self, value: int) -> None:
        if value < 0:
            raise ValueError("a limit is positive")
        self._limit = value


def test_an_attribute_that_was_refused_is_not_set_again() -> None:
    envs = ProcessVectorEnv([lambda: Picky(0)] * 2, workers=1)
    try:
        envs.reset(seed=0)
        envs.set_attr("limit", [3, 4])
        with pytest.raises(ValueError, match="positive"):
            envs.set_attr("limit", -1)
        interrupts.kill(envs)
        assert envs.reset(seed=0)[1]["fault"].all()
        assert envs.get_attr("limit") == (3, 4)
    finally:
        envs.close()


class Late(interrupts.Witness):
    """Has a setter that needs an episode, and one that raises in every successor."""

    @property
    def speed(self) -> int:
        return self._speed

    @speed.setter
    def speed(self, value: int) -> None:
        if not self.draw:
            raise RuntimeError("no episode yet")
        self._speed = value

    @property
    def path(self) -> str:
        return self._path

    @path.setter
    def path(self, value: str) -> None:
        with open(value, "x"):  # which was made by the lost worker
            self._path = value


@pytest.mark.parametrize("mode", list(interrupts.AutoresetMode))
def test_an_attribute_that_needs_an_episode_is_set_after_the_reset(mode: Any) -> None:
    envs = ProcessVectorEnv([lambda: Late(0)] * 3, workers=2, autoreset_mode=mode)
    try:
        envs.reset(seed=0)
        envs.set_attr("speed", [3, 4, 5])
        envs.set_attr("level", 7)
        for _ in range(2):
            interrupts.kill(envs, 0)
            envs.step([0] * 3)
            if mode is interrupts.DISABLED:
                envs.reset(options={"reset_mask": np.array([True, True, False])})
            envs.step([0] * 3)
            assert envs.get_attr("speed") == (3, 4, 5)
            assert envs.get_attr("level") == (7, 7, 7)
    finally:
        envs.close()


def test_an_attribute_that_a_successor_refuses_is_told_once(tmp_path: Any) -> None:
    envs = ProcessVectorEnv([lambda: Late(0)], workers=1)
    try:
        envs.reset(seed=0)
        envs.set_attr("path", str(tmp_path / "file"))
        interrupts.kill(envs, 0)
        with pytest.raises(FileExistsError) as caught:
            envs.reset(seed=0)
        assert "set_attr('path', ...)" in "".join(
            getattr(caught.value, "__notes__", ["set_attr('path', ...)"])
        )
        envs.reset(seed=0)
        assert envs.step([0])[1] == [1]
    finally:
        envs.close()


def test_attributes_of_some_environments_are_set_again() -> None:
    envs = interrupts.make()
    try:
        envs.reset(seed=0)
        envs.set_attr_of([0, 3], "level", [1, 4])
        envs.set_attr_of([1], "level", 2)
        envs.set_attr_of([0], "level", 9)
        interrupts.kill(envs)
        envs.reset(seed=0)
        assert envs.get_attr("level") == (9, 2, 0, 4)
    finally:
        envs.close()


def test_a_large_attribute_waits_until_its_worker_has_started() -> None:
    class Slow(interrupts.Witness):
        def __init__(self) -> None:
            super().__init__(0)
            time.sleep(3)  # longer than a step may take

    envs = ProcessVectorEnv([Slow], workers=1, step_timeout=2)
    try:
        envs.set_attr("track", np.zeros(1_000_000))
        interrupts.kill(envs, 0)
        with pytest.raises(arrayferry.errors.WorkerError, match="the worker died"):
            envs.get_attr("track")
        assert envs.reset(seed=0, options={"large": bytes(5_000_000)})[1]["fault"].all()
        assert envs.get_attr("track")[0].shape == (1_000_000,)
    finally:
        envs.close()
