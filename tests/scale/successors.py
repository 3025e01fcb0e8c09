"""Lose workers before and during every kind of request, and compare their successors with `SyncVectorEnv`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from scale import interrupts
from scale.interrupts import ACTIONS

MASKS = [None, np.array([True, True, False, False]), np.array([False, True, False, True]), np.ones(4, bool)]
SEEDS: list[Any] = [7, [3, 1, 4, 1]]
# When the worker of the first two environments is lost; `twice` also loses its successor.
LOSSES = ["before", "twice", "before set_attr", "in a step"]


def lose(envs: Any, how: str) -> None:
    interrupts.kill(envs)
    if how == "twice":
        with suppress(arrayferry.errors.WorkerError):
            envs.get_attr("count")  # notices it
    if how == "in a step":
        envs.step(ACTIONS)


def set_up(envs: Any) -> None:
    """Set attributes in every way, some of them again."""
    envs.set_attr("level", 3)
    envs.set_attr("other", [1, 2, 3, 4])
    envs.set_attr("level", [5, 6, 7, 8])


def check_reset(mode: AutoresetMode, mask: Any, seed: Any, how: str) -> None:
    """The reset of a lost worker's successor is the reset that was asked for, with what had been set."""
    envs, reference = interrupts.make(mode), SyncVectorEnv(interrupts.env_fns(), autoreset_mode=mode)
    try:
        for vector in (envs, reference):
            vector.reset(seed=0)
            if how != "before set_attr":
                set_up(vector)
        lose(envs, how)
        if how == "before set_attr":
            set_up(reference)
            for name, values in (("level", 3), ("other", [1, 2, 3, 4]), ("level", [5, 6, 7, 8])):
                with suppress(arrayferry.errors.WorkerError):
                    envs.set_attr(name, values)
        options: dict[str, Any] = {"option": 9} if mask is None else {"option": 9, "reset_mask": mask}
        found, expected = (
            envs.reset(seed=seed, options=dict(options)),
            reference.reset(seed=seed, options=options),
        )
        rows = np.ones(4, bool) if mask is None else mask
        assert np.array_equal(found[0][rows], expected[0][rows])
        assert (found[1]["_count"] == expected[1].get("_count", np.zeros(4, bool))).all()
        assert envs.get_attr("level") == reference.get_attr("level")
        assert envs.get_attr("other") == reference.get_attr("other")
        if rows.all():
            interrupts.assert_same(envs.step(ACTIONS), reference.step(ACTIONS))
    finally:
        envs.close()


def autoreset_keeps_attributes(mode: AutoresetMode) -> None:
    """The successor that a step resets has what was set, too."""
    envs = interrupts.make(mode)
    try:
        envs.reset(seed=0)
        set_up(envs)
        interrupts.kill(envs)
        envs.step(ACTIONS)
        assert envs.get_attr("level") == (5, 6, 7, 8)
        assert envs.get_attr("other") == (1, 2, 3, 4)
    finally:
        envs.close()


CASES: list[Callable[[], None]] = [
    *(
        lambda mode=mode, mask=mask, seed=seed, how=how: check_reset(mode, mask, seed, how)
        for mode in AutoresetMode
        for mask in MASKS
        for seed in SEEDS
        for how in LOSSES
        # a reset that leaves out some rows is for those that go on
        if not (how == "in a step" and mode is AutoresetMode.SAME_STEP)
    ),
    *(lambda mode=mode: autoreset_keeps_attributes(mode) for mode in AutoresetMode),
]
