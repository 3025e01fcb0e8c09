"""What the host reads at once is what the compiled function gave."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import arrayferry

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from arrayferry.envs import Interface, _packing, as_gymnasium, register_environment  # noqa: E402
from arrayferry.envs._packing import PackedArrays  # noqa: E402
from envs.line_walk import Walk  # noqa: E402

SPLITTERS = [*dict.fromkeys([_packing._from_words, _packing.from_words])]

NUMBERS = np.random.default_rng(0)


def equal(one: Any, two: Any) -> bool:
    assert jax.tree.structure(one) == jax.tree.structure(two)
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two))
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("split", SPLITTERS)
def test_trees_arrive_as_they_were(split: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packing, "from_words", split)
    first = {
        "floats": NUMBERS.normal(size=(3, 2)).astype(np.float32),
        "bits": np.array([np.nan, -0.0, np.inf], np.float32),
        "ints": np.array([-1, 2**31 - 1], np.int32),
        "words": np.array([2**32 - 1], np.uint32),
        "flags": [NUMBERS.integers(2, size=5).astype(bool) for _ in range(40)],
        "flag": np.bool_(True),
        "number": np.float32(2.5),
        "nothing": np.zeros((0, 3), np.float32),
        "half": np.ones(2, np.float16),
        "byte": np.arange(4, dtype=np.uint8),
        "large": np.ones(1 << 15, np.float32),
    }
    second = (np.array([[True], [False]]), np.arange(3, dtype=np.int32), None)
    packed = jax.jit(partial(PackedArrays.of, packed=2))(first, second)
    for index, tree in enumerate((first, second)):
        found = packed.read(index)
        jax.tree.map(np.testing.assert_array_equal, found, tree)
        assert [leaf.dtype for leaf in jax.tree.leaves(found)] == [a.dtype for a in jax.tree.leaves(tree)]
    small = [leaf for leaf in jax.tree.leaves(packed.read(0)) if isinstance(leaf, np.ndarray)]
    assert len(small) == len(jax.tree.leaves(first)) - 3
    for leaf in small:  # the caller's own
        assert leaf.flags.owndata
        leaf[...] = 1
    assert equal(packed.read(1), second)
    np.testing.assert_array_equal(packed.read(0)["floats"], first["floats"])


def test_typed_keys_stay_arrays_of_jax() -> None:
    key = jax.random.key(0)
    found, number = jax.jit(lambda key: PackedArrays.of((key, jnp.int32(3)), packed=1))(key).read(0)
    assert (found == key, number) == (True, 3)


@pytest.mark.skipif(_packing._words is None, reason="there is no C to refuse")
@pytest.mark.parametrize(
    ("words", "place"),
    [
        (np.zeros(4, np.uint32), (0, 5, (5,), np.dtype("int32"))),
        (np.zeros(4, np.uint32), (-1, 1, (2,), np.dtype("int32"))),
        (np.zeros(4, np.uint32), (0, 4, (3,), np.dtype("int32"))),
        (np.zeros(4, np.uint32), (0, 4, (4,), np.dtype("int64"))),
        (np.zeros(4, np.uint32), (3, 1, (-2,), np.dtype("int32"))),
        (np.zeros(4, np.uint32), [0, 4]),
        (np.zeros(4, np.float32), (0, 4, (4,), np.dtype("int32"))),
        (np.zeros(8, np.uint32)[::2], (0, 4, (4,), np.dtype("int32"))),
    ],
)
def test_the_c_reads_no_other_memory(words: Any, place: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        _packing.from_words(words, [place])


@pytest.mark.skipif(_packing._words is None, reason="there is no C to read them")
def test_places_that_go_away_while_they_are_read_are_not_read() -> None:
    class Index:
        def __index__(self) -> int:
            places.clear()
            return 0

    places: list[Any] = [(Index(), 1, (1,), np.dtype("float32"))] * 3
    with suppress(TypeError, ValueError):
        assert len(_packing.from_words(np.zeros(1, np.uint32), places)) == 1


@pytest.mark.parametrize("mode", AutoresetMode)
def test_on_the_host_steps_are_the_same(mode: AutoresetMode) -> None:
    theirs, ours = (as_gymnasium(Walk(), 4, autoreset_mode=mode) for _ in range(2))
    ours.read_on_host()
    assert equal(theirs.reset(seed=3), ours.reset(seed=3))
    ends = 0
    for t, actions in enumerate(NUMBERS.integers(2, size=(40, 4))):
        expected, found = theirs.step(actions), ours.step(actions)
        assert equal(expected, found)
        assert isinstance(found[0]["place"], np.ndarray)
        jax.tree.map(lambda leaf: leaf.fill(7), found[:4])  # they are the caller's
        over = found[4].get("_final_obs", np.asarray(expected[2] | expected[3]))
        ends += int(over.sum())
        if mode is AutoresetMode.DISABLED and over.any():
            options = {"reset_mask": over}
            assert equal(theirs.reset(options=options), ours.reset(options=options))
        if t in (10, 20):  # in the middle of episodes
            ours = copy.deepcopy(ours) if t == 10 else pickle.loads(pickle.dumps(ours))
            options = {"reset_mask": np.array([True, False, False, True])}
            assert equal(theirs.reset(options=options), ours.reset(options=options))
    assert ends > 5


def test_a_refused_step_does_not_change_what_was_shown() -> None:
    theirs, ours = (as_gymnasium(Walk(), 2, autoreset_mode=AutoresetMode.DISABLED) for _ in range(2))
    ours.read_on_host()
    for envs in (theirs, ours):
        envs.reset(seed=3)
        envs.step(np.array([0, 1]))
        with pytest.raises(Exception, match="is not in"):
            envs.step(np.array([0, 2]))
    options = {"reset_mask": np.array([True, False])}
    assert equal(theirs.reset(options=options), ours.reset(options=options))


def test_the_sanitizer_sees_arrays_of_one_framework() -> None:
    envs = arrayferry.wrap(Walk(), "numpy", num_envs=2, sanitize="raise")
    envs.reset(seed=0)
    for _ in range(3):
        envs.step(np.array([0, 1]))


def test_wrap_reads_on_the_host_only_what_it_has_made() -> None:
    pytest.importorskip("torch")
    made = arrayferry.wrap(Walk(), "torch", num_envs=2)
    given = as_gymnasium(Walk(), 2)
    for wrapped, kind in ((made, np.ndarray), (arrayferry.wrap(given, "torch"), jax.Array)):
        wrapped.reset(seed=0)
        assert isinstance(wrapped.env.step(np.array([0, 1]))[1], kind)
    of_jax = arrayferry.wrap(Walk(), "jax", num_envs=2)
    assert isinstance(of_jax.env.reset(seed=0)[0]["place"], jax.Array)


class Echo:
    """Shows and keeps the action."""


def _echo(env: Echo, params: Any) -> Interface:
    box = spaces.Box(-9, 9, (64,))
    begin = jnp.zeros(64)
    return Interface(
        lambda key: (begin, begin, {}), lambda key, state, a: (a, a, 0.0, False, False, {"a": a}), box, box
    )


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_nothing_shares_the_memory_of_an_action(mode: AutoresetMode | None) -> None:
    torch = pytest.importorskip("torch")
    register_environment(Echo, _echo)
    envs = as_gymnasium(Echo(), 4 if mode else None, autoreset_mode=mode)
    wrapped = arrayferry.wrap(envs, "torch")
    wrapped.reset(seed=0)
    action = torch.ones(envs.action_space.shape)  # aligned as JAX wants it, who could take its memory over
    obs, *_, info = wrapped.step(action)
    action.fill_(7)
    assert all(np.all(np.asarray(found) == 1) for found in (obs, info["a"], envs.state))
