"""Environments in other processes: shared memory or pipes, copied or not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

import arrayferry
from helpers.compare import assert_crossed
from helpers.envs import Counter
from wrappers.vector.test_array_conversion import play

pytestmark = pytest.mark.needs("gymnasium>=1.4")  # an older one closes the workers with the wrapper

WAYS = list(product(AutoresetMode, (True, False), (True, False)))


def described(way: Any) -> str:
    mode, shared, copied = way
    return f"{mode.value}-{'shared' if shared else 'pipes'}-{'copying' if copied else 'reusing'}"


@pytest.fixture(scope="module", params=WAYS, ids=described)
def workers(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Two workers, started once for all targets. Not forked: JAX and torch are loaded, and may hang."""
    mode, shared, copied = request.param
    envs = AsyncVectorEnv(
        [partial(Counter, 2), partial(Counter, 3)],
        shared_memory=shared,
        copy=copied,
        context="spawn",
        autoreset_mode=mode,
    )
    yield envs
    envs.close(terminate=True)


def test_held_results_are_those_of_the_bare_workers(workers: Any, target: str) -> None:
    want = play(workers, "numpy", keep=copy.deepcopy)
    got = play(arrayferry.wrap(workers, target), target)
    # Compared only now: an observation that changed after it was given would show.
    assert len(got) == len(want)
    for number, (one, other) in enumerate(zip(got, want)):
        assert_crossed(one, other, target, f"result {number}")
    assert any(result[2].any() for result in want if len(result) == 5), "no episode ended"


def test_attributes_of_the_workers(workers: Any) -> None:
    envs = arrayferry.wrap(workers, "numpy")
    assert envs.get_attr("length") == (2, 3)
    envs.set_attr("tag", ["a", "b"])
    assert envs.get_attr("tag") == ("a", "b")
    assert envs.call("_info")[0]["path"].dtype == np.arange(2).dtype
