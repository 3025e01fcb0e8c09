"""R4, R10: over the whole table of bad inputs no process dies, and what is refused is refused alike."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

import jax
import numpy as np
import torch

from arrayferry import FerryError
from reliability.goals import Goal
from reliability.inputs import INPUTS, REFUSALS, TARGETS
from reliability.libraries import ARRAYFERRY, Library
from reliability.values import raw, scribble

# The copies last: Gymnasium has no such option, and gets the first third.
WAYS = [(name, target, copy) for copy, name, target in product([None, True, False], INPUTS, TARGETS)]


def survives(number: int, library: Library) -> None:
    """Convert, read all of the result, and write to all of it. An error is fine, death is not."""
    name, target, copy = WAYS[number]
    options = {} if copy is None else {"copy": copy}

    def use(value: Any) -> None:
        with suppress(Exception):
            result = library.convert(value, target, **options)
            if isinstance(result, (np.ndarray, torch.Tensor, jax.Array)):
                raw(result)
                if result is not value:
                    scribble(result)

    with suppress(Exception):  # a transform may not like what `use` does
        INPUTS[name].use(use)


def is_refused_alike(number: int, library: Library) -> None:
    """One kind of error, which says where, what, and what to do."""
    (name, target), copy = REFUSALS[number % len(REFUSALS)], (None, True)[number // len(REFUSALS)]
    seen: list[Exception] = []

    def use(value: Any) -> None:
        try:
            library.convert({"obs": [value]}, target, **({} if copy is None else {"copy": copy}))
        except Exception as error:
            seen.append(error)

    INPUTS[name].use(use)
    assert seen, f"{name} to {target}: not refused"
    error = seen[0]
    assert 'obs"' in str(error), f"{name} to {target}: {type(error).__name__} does not say where"
    if library is ARRAYFERRY:
        assert isinstance(error, FerryError), f"{name} to {target}: {type(error).__name__}"
        assert error.where.startswith('value["obs"]'), f"{name} to {target}: {error.where}"
        assert error.what, f"{name} to {target}: it does not say what"
        assert error.hint, f"{name} to {target}: it does not say what to do"


GOALS = [
    Goal(
        name="R4",
        title="no process dies of a bad input",
        trial=survives,
        unit=f"one of {len(INPUTS)} inputs, to 3 frameworks, with 3 values of copy; read and written",
        full=len(WAYS),
        thin=len(WAYS),
        peer=len(WAYS) // 3,
        sampled=False,
        isolated=True,
    ),
    Goal(
        name="R10",
        title="refusals are of one kind, and say where, what and what to do",
        trial=is_refused_alike,
        unit=f"one of {len(REFUSALS)} refused pairs of input and framework, with copy=None and copy=True",
        full=2 * len(REFUSALS),
        thin=2 * len(REFUSALS),
        peer=len(REFUSALS),
        sampled=False,
        isolated=True,
    ),
]
