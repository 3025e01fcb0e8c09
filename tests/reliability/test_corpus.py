"""What the fuzzer found, and what it knows to reach: replayed."""

from __future__ import annotations

import numpy as np
import pytest

import arrayferry
from reliability import fuzz
from structures import zip_leaves

pytest.importorskip("torch")
pytest.importorskip("jax")


pytestmark = pytest.mark.needs("jax>=0.8")  # jax.new_ref, which is among the inputs


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("data", fuzz.corpus(), ids=lambda data: data.hex())
def test_input_of_the_corpus(data):
    fuzz.check(data)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_broken_conversion_would_be_found(monkeypatch):
    monkeypatch.setattr(arrayferry, "convert", lambda value, *_, **__: np.zeros(7))
    found = 0
    for data in fuzz.corpus():
        try:
            fuzz.check(data)
        except AssertionError:
            found += 1
    assert found > 20


class Unprintable:
    def __repr__(self):
        raise NotImplementedError("it has no text")


def test_leaves_that_cannot_be_printed_are_compared():
    """Found by fuzzing: the message of a comparison that held was made nevertheless."""
    leaf = Unprintable()
    assert list(zip_leaves([leaf], [leaf])) == [(leaf, leaf)]
