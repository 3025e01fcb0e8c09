"""An environment's error says what arrived and what its action space takes."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry._core.messages import note_on

torch = pytest.importorskip("torch")


def note_of(call: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    notes = getattr(caught.value, "__notes__", None)
    return "\n".join(notes) if notes is not None else str(caught.value)


def test_a_single_environment() -> None:
    env = arrayferry.wrap(gym.make("FrozenLake-v1"), "torch")
    env.reset()
    assert "action: int64[1] torch arrived; Discrete(4) takes int64[]" in note_of(
        lambda: env.step(torch.tensor([1]))
    )


@pytest.mark.needs("gymnasium>=1.3")  # an older one steps as many as there are actions
def test_a_vector_environment_with_their_number() -> None:
    envs = arrayferry.wrap(gym.vector.SyncVectorEnv([partial(gym.make, "CartPole-v1")] * 4), "torch")
    envs.reset()
    note = note_of(lambda: envs.step(torch.tensor([1, 0, 1])))
    assert "action: int64[3] torch arrived" in note
    assert "takes int64[4], one for each of 4 environments" in note


class Failing(gym.Env[Any, Any]):
    observation_space = spaces.Box(-1, 1, (2,))

    def __init__(self, action_space: Any, error: Exception) -> None:
        self.action_space, self.error = action_space, error

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        raise self.error


def test_a_member_gets_no_note() -> None:
    error = RuntimeError("broken")
    env = arrayferry.wrap(Failing(spaces.Discrete(4), error), "torch")
    with pytest.raises(RuntimeError, match=r"^broken$"):
        env.step(torch.tensor(1))
    assert not getattr(error, "__notes__", None)


@pytest.mark.parametrize(
    ("space", "action", "note"),
    [
        (spaces.Discrete(2), 7, "7 arrived, which is not in Discrete(2)"),
        (
            spaces.MultiDiscrete([2, 2, 2]),
            [0, 7, 1],
            "[0 7 1] arrived, which is not in MultiDiscrete([2 2 2])",
        ),
        (
            spaces.Box(-1, 1, (2,)),
            [0.1, 3.0],
            "[0.1 3. ] arrived, which is not in Box(-1.0, 1.0, (2,), float32)",
        ),
        (
            spaces.MultiDiscrete([2] * 500),
            range(500),
            "int64[500] torch from 0 to 499 arrived, which is not in MultiDiscrete([2 2 ... 2 2])",
        ),
    ],
    ids=str,
)
def test_a_value_out_of_range(space: Any, action: Any, note: str) -> None:
    env = arrayferry.wrap(Failing(space, ValueError("broken")), "torch")
    dtype = torch.float32 if isinstance(space, spaces.Box) else torch.int64
    given = torch.tensor(action if isinstance(action, int) else list(action), dtype=dtype)
    assert f"action: {note}" in note_of(lambda: env.step(given))


def test_spaces_of_many_parts() -> None:
    space = spaces.Dict(go=spaces.Discrete(2), how=spaces.Box(-1, 1, (2,)))
    env = arrayferry.wrap(Failing(space, KeyError("go")), "torch")
    assert "takes what its sample() returns" in note_of(lambda: env.step({"how": torch.zeros(2)}))


def test_an_error_that_takes_no_note_stays_the_error() -> None:
    class Stubborn(Exception):
        def add_note(self, note: str) -> None:
            raise OSError("no notes")

    env = arrayferry.wrap(Failing(spaces.Discrete(4), Stubborn()), "torch")
    with pytest.raises(Stubborn):
        env.step(torch.tensor([1]))


def test_before_python_3_11_the_note_is_in_the_message() -> None:
    class Old(ValueError):
        add_note = property()  # type: ignore[assignment]  # as if there were none

    error = Old("bad action")
    note_on(error, "action: ...")
    assert str(error) == "bad action\naction: ..."
    note_on(unchanged := Old("bad", 3), "action: ...")
    assert unchanged.args == ("bad", 3)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has no such signal")
def test_what_a_signal_handler_raises_while_a_note_is_made_passes() -> None:
    class Interrupted(spaces.Discrete):
        def contains(self, x: Any) -> bool:
            signal.raise_signal(signal.SIGUSR1)
            return False

    def handle(number: int, frame: Any) -> None:
        raise TimeoutError("time is up")

    env = arrayferry.wrap(Failing(Interrupted(2), ValueError("no")), "torch")
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(TimeoutError, match="time is up"):
            env.step(torch.tensor(1))
    finally:
        signal.signal(signal.SIGUSR1, before)
