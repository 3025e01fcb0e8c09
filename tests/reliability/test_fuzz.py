"""What `make stress` fuzzes with atheris, with Hypothesis alone."""

from __future__ import annotations

from collections import deque
from random import Random

import numpy as np
import pytest
from hypothesis import settings

import arrayferry
from helpers.structures import zip_leaves

pytest.importorskip("torch")
pytest.importorskip("jax")

pytestmark = [
    pytest.mark.needs("jax>=0.8"),  # jax.new_ref, which is among the inputs
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::PendingDeprecationWarning", "ignore::UserWarning"
    ),
]


def test_values_of_all_kinds_keep_the_contract():
    from reliability import fuzz

    settings(max_examples=200, derandomize=True)(fuzz.check)()


def test_a_broken_conversion_would_be_found(monkeypatch):
    from reliability import fuzz

    monkeypatch.setattr(arrayferry, "convert", lambda value, *_, **__: np.zeros(7))
    inputs = [Random(number).randbytes(500) for number in range(200)]
    with pytest.raises(AssertionError):
        deque(map(fuzz.check.hypothesis.fuzz_one_input, inputs), maxlen=0)


class Unprintable:
    def __repr__(self):
        raise NotImplementedError("it has no text")


def test_leaves_that_cannot_be_printed_are_compared():
    """Found by fuzzing: the message of a comparison that held was made nevertheless."""
    leaf = Unprintable()
    assert list(zip_leaves([leaf], [leaf])) == [(leaf, leaf)]
