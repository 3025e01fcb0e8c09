"""What environments may return to a worker, and what is said about the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.scale import ProcessVectorEnv

if sys.platform == "win32":
    pytest.skip("workers start with forkserver here", allow_module_level=True)

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


class Returns(gym.Env[Any, Any]):
    """Returns something else in one of the places, if it is the last environment."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, is_odd: bool, **odd: Any) -> None:
        self.odd = odd if is_odd else {}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if "reset" in self.odd:
            return self.odd["reset"]
        return np.zeros(2, np.float32), self.odd.get("first info", {})

    def step(self, action: Any) -> Any:
        if "step" in self.odd:
            return self.odd["step"]
        return (
            self.odd.get("obs", np.ones(2, np.float32)),
            self.odd.get("reward", 1.0),
            self.odd.get("terminated", False),
            self.odd.get("truncated", False),
            self.odd.get("info", {}),
        )


def fns(odd: dict[str, Any]) -> list[Any]:
    return [lambda index=index: Returns(index == 3, **odd) for index in range(4)]


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Any] = []

    def make(odd: dict[str, Any], mode: AutoresetMode = NEXT_STEP) -> ProcessVectorEnv:
        made.append(ProcessVectorEnv(fns(odd), workers=2, autoreset_mode=mode))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        ({"reward": np.array([1.0, 2.0])}, "reward of environment 3"),
        ({"reward": {"a": 1}}, "reward of environment 3"),
        ({"reward": "much"}, "reward of environment 3"),
        ({"terminated": np.array([True, False])}, "terminated of environment 3"),
        ({"truncated": np.array([True, False])}, "truncated of environment 3"),
        ({"step": (np.zeros(2, np.float32), 1.0, False, {})}, "step of environment 3"),
        ({"step": None}, "step of environment 3"),
        ({"reset": np.zeros(2, np.float32)[:1]}, "reset of environment 3"),
        ({"reset": None}, "reset of environment 3"),
        ({"obs": np.zeros(3, np.float32)}, "observation of environment 3"),
        ({"obs": None}, "observation of environment 3"),
        ({"obs": "left"}, "observation of environment 3"),
        ({"info": [1, 2]}, "info of environment 3"),
        ({"first info": "new"}, "info of environment 3"),
    ],
)
def test_an_error_says_where(make: Any, odd: dict[str, Any], where: str) -> None:
    envs = make(odd)
    with pytest.raises(arrayferry.FerryError) as caught:  # noqa: PT012
        envs.reset(seed=0)
        envs.step(np.zeros(4, int))
    assert caught.value.where == where
    assert caught.value.hint
    assert isinstance(caught.value, (TypeError, ValueError))


@pytest.mark.parametrize(
    "odd",
    [
        {"reward": np.array([1.0])},
        {"reward": np.array([[1.0]])},
        {"reward": np.array(1.0)},
        {"reward": True},
        {"reward": np.float16(0.1)},
        {"terminated": np.array([True])},
        {"terminated": np.array(True)},
        {"terminated": 1},
        {"terminated": None},
        {"obs": [0.25, 0.5]},
        {"obs": np.array([0.25, 0.5])},
        {"info": None},
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_sync_takes_is_taken_alike(make: Any, odd: dict[str, Any]) -> None:
    """And what it refuses is refused, with the place."""
    ours, theirs = make(odd), SyncVectorEnv(fns(odd))
    ours.reset(seed=0)
    theirs.reset(seed=0)
    try:
        expected = theirs.step(np.zeros(4, int))
    except (TypeError, ValueError, AttributeError):
        if odd == {"info": None}:  # no info is no info
            assert ours.step(np.zeros(4, int))[4] == {}
            return
        with pytest.raises(arrayferry.FerryError, match="of environment 3"):
            ours.step(np.zeros(4, int))
        return
    for found, array in zip(ours.step(np.zeros(4, int))[:4], expected):
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)


@pytest.mark.parametrize("key", ["fault", "fault_reason", "_fault"])
@pytest.mark.parametrize("place", ["info", "first info"])
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_an_environment_s_own_fault_is_refused(make: Any, mode: AutoresetMode, place: str, key: str) -> None:
    envs = make({place: {"speed": 1, key: True}, "terminated": mode is SAME_STEP}, mode)
    with pytest.raises(arrayferry.errors.UnsupportedError, match="rename it") as caught:  # noqa: PT012
        envs.reset(seed=0)
        envs.step(np.zeros(4, int))
    assert caught.value.where == "info of environment 3"


def test_an_environment_s_own_fault_is_refused_in_a_masked_reset(make: Any) -> None:
    envs = make({}, DISABLED)
    envs.reset(seed=0)
    envs.set_attr("odd", [{}, {}, {}, {"first info": {"fault": "engine"}}])
    envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    with pytest.raises(arrayferry.errors.UnsupportedError, match="rename it"):
        envs.reset(options={"reset_mask": np.array([False, False, False, True])})


def test_a_fault_deeper_in_an_info_is_the_environment_s(make: Any) -> None:
    envs = make({"info": {"engine": {"fault": True}}})
    envs.reset(seed=0)
    infos = envs.step(np.zeros(4, int))[4]
    assert infos["engine"]["fault"].tolist() == [False, False, False, True]
    assert "fault" not in infos
