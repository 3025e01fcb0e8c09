"""A space seen from another framework, and what a member of a space looks like."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import cloudpickle
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

import arrayferry
from arrayferry.spaces import convert_space, member_caster
from helpers import all_spaces
from helpers.compare import SEPARATE, array_type_of, assert_crossed, assert_same_form, seen

TARGETS = [name for name, info in arrayferry.frameworks().items() if name not in SEPARATE and info.devices]

pytestmark = pytest.mark.parametrize("target", TARGETS)
every_space = pytest.mark.parametrize("space_name", all_spaces.NAMES)


def twins(space_name: str, target: str) -> tuple[Any, Any]:
    """A space, and another of the same seed, seen from the target."""
    return all_spaces.make(space_name), convert_space(
        all_spaces.make(space_name), arrayferry.Converter(target)
    )


@every_space
def test_samples_are_the_original_s_converted_and_members_both_ways(space_name: str, target: str) -> None:
    space, view = twins(space_name, target)
    fit = member_caster(space, arrayferry.Converter("numpy"))
    for _ in range(2):
        sample, original = view.sample(), space.sample()
        assert_crossed(sample, original, target, space_name)
        assert view.contains(sample)
        assert sample in view
        assert original in view
        assert space.contains(fit(arrayferry.convert(sample, "numpy")))


@every_space
def test_it_is_of_the_same_kind_and_equal(space_name: str, target: str) -> None:
    space, view = twins(space_name, target)
    assert isinstance(view, type(space))
    assert view == space
    assert space == view
    assert view == twins(space_name, target)[1]
    assert view != spaces.Box(-7, 7, (9,))
    assert spaces.Box(-7, 7, (9,)) != view
    assert (view.shape, view.dtype, view.is_np_flattenable) == (
        space.shape,
        space.dtype,
        space.is_np_flattenable,
    )
    assert type(view).__name__ == type(space).__name__
    assert repr(view) == repr(space)


@every_space
def test_a_seed_repeats_the_samples(space_name: str, target: str) -> None:
    space, view = twins(space_name, target)
    assert view.seed(42) == space.seed(42)
    want = space.sample()
    assert_crossed(view.sample(), want, target)
    view.sample()
    view.seed(42)
    assert_crossed(view.sample(), want, target)


DUPLICATES = [
    lambda space: pickle.loads(pickle.dumps(space)),
    lambda space: cloudpickle.loads(cloudpickle.dumps(space)),
    copy.deepcopy,
]


@every_space
def test_a_copy_goes_on_where_the_original_was(space_name: str, target: str) -> None:
    space, view = twins(space_name, target)
    for duplicate in DUPLICATES:
        twin = duplicate(view)
        assert twin == view
        assert isinstance(twin, type(space))
        want = space.sample()
        assert_crossed(twin.sample(), want, target)
        # The copy has random state of its own: what it drew, the original draws again.
        assert_crossed(view.sample(), want, target)


@every_space
def test_the_inner_spaces_are_seen_from_there_too(space_name: str, target: str) -> None:
    _, view = twins(space_name, target)
    inner: list[Any] = []
    if isinstance(view, spaces.Dict):
        inner = [view[key] for key in view]
    elif isinstance(view, (spaces.Tuple, spaces.OneOf)):
        inner = list(view.spaces)
        assert view[0] is inner[0]
        assert len(view) == len(inner)
    elif isinstance(view, spaces.Sequence):
        inner = [view.feature_space]
    elif isinstance(view, spaces.Graph):
        inner = [one for one in (view.node_space, view.edge_space) if one is not None]
    for one in inner:
        sample = one.sample()
        assert sample in one
        if isinstance(one, (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)):
            assert isinstance(sample, array_type_of(target)), f"{type(one)} gave {type(sample)}"


def test_what_is_not_in_the_space_is_not_in_it_from_there(target: str) -> None:
    def there(value: Any) -> Any:
        return arrayferry.convert(value, target)

    box = convert_space(spaces.Box(-1, 1, (2,), np.float32), arrayferry.Converter(target))
    assert there(np.array([0.5, 0.5], np.float32)) in box
    for no in (
        np.array([0.5, 1.5], np.float32),
        np.zeros(3, np.float32),
        np.array([0.5, np.nan], np.float32),
    ):
        assert there(no) not in box
    discrete = convert_space(spaces.Discrete(3, start=1), arrayferry.Converter(target))
    assert there(np.array(1)) in discrete
    assert 3 in discrete
    for no in (np.array(0), np.array(4), np.array([1]), np.array(1.5, np.float32)):
        assert there(no) not in discrete
    for no in ("word", None, object(), {"a": 1}):
        assert no not in discrete
    pair = convert_space(spaces.Dict(a=spaces.Discrete(2), b=spaces.Text(3)), arrayferry.Converter(target))
    assert {"a": there(np.array(1)), "b": "abc"} in pair
    assert {"a": there(np.array(1))} not in pair
    assert {"a": there(np.array(2)), "b": "abc"} not in pair


def test_a_sample_at_the_bound_is_in_the_space_though_it_was_rounded(target: str) -> None:
    """In a framework without float64, 0.1 is a little more than 0.1."""
    view = convert_space(spaces.Box(0.1, 0.1, (1,), np.float64), arrayferry.Converter(target))
    assert view.sample() in view


def test_masks_may_be_the_target_s_arrays(target: str) -> None:
    def there(value: Any) -> Any:
        return arrayferry.convert(value, target)

    converter = arrayferry.Converter(target)
    discrete = convert_space(spaces.Discrete(4, seed=1), converter)
    mask = there(np.array([0, 0, 1, 0], np.int8))
    assert {int(seen(discrete.sample(mask=mask))) for _ in range(5)} == {2}
    assert {int(seen(discrete.sample(mask))) for _ in range(5)} == {2}
    multi = convert_space(spaces.MultiDiscrete([2, 3], seed=1), converter)
    masks = (there(np.array([0, 1], np.int8)), there(np.array([0, 0, 1], np.int8)))
    assert seen(multi.sample(mask=masks)).tolist() == [1, 2]
    binary = convert_space(spaces.MultiBinary(3, seed=1), converter)
    assert seen(binary.sample(mask=there(np.array([0, 1, 0], np.int8)))).tolist() == [0, 1, 0]
    nested = convert_space(
        spaces.Dict(a=spaces.Discrete(4), b=spaces.Tuple((spaces.Discrete(4),)), seed=1), converter
    )
    sample = nested.sample(mask={"a": mask, "b": (mask,)})
    assert (int(seen(sample["a"])), int(seen(sample["b"][0]))) == (2, 2)


def test_probabilities_may_be_the_target_s_arrays(target: str) -> None:
    """Gymnasium wants them in float64, which not every framework has."""
    discrete = convert_space(spaces.Discrete(3, seed=1), arrayferry.Converter(target))
    odds = arrayferry.convert(np.array([0.0, 1.0, 0.0]), target)
    assert {int(seen(discrete.sample(probability=odds))) for _ in range(3)} == {1}


def test_the_dtype_is_that_of_samples_and_numpy_s(target: str) -> None:
    view: Any = convert_space(spaces.Box(-1, 1, (2,), np.float32), arrayferry.Converter(target))
    assert view.dtype == view.sample().dtype
    assert view.dtype == np.float32
    assert view.dtype == "float32"
    assert view.dtype != "int8"
    assert view.dtype != "nonsense.float32"


def test_the_bounds_stay_numpy_s(target: str) -> None:
    """They are for people and for Gymnasium's own wrappers, which compute with NumPy."""
    view: Any = convert_space(spaces.Box(-1, 1, (2,), np.float32), arrayferry.Converter(target))
    assert isinstance(view.low, np.ndarray)
    assert isinstance(view.high, np.ndarray)
    assert view.is_bounded()


def test_a_view_may_be_batched_and_viewed_again(target: str) -> None:
    view = convert_space(spaces.Box(-1, 1, (2,), np.float32, seed=1), arrayferry.Converter(target))
    assert batch_space(view, 3) == batch_space(spaces.Box(-1, 1, (2,), np.float32), 3)
    again = convert_space(view, arrayferry.Converter("numpy"))
    sample = again.sample()
    assert type(sample) is np.ndarray
    assert sample in again


def test_looking_does_not_change_the_original(target: str) -> None:
    space = all_spaces.make("nested")
    before = copy.deepcopy(space)
    view = convert_space(space, arrayferry.Converter(target))
    assert type(space) is spaces.Dict
    assert all(type(inner).__module__.startswith("gymnasium") for inner in space.spaces.values())
    assert_same_form(space.sample(), before.sample())
    assert view.sample() in view


def test_samples_as_json(target: str) -> None:
    for name in (
        "box",
        "discrete_start",
        "multi_discrete",
        "multi_binary",
        "tuple",
        "sequence",
        "graph",
        "one_of",
    ):
        space, view = twins(name, target)
        sample = arrayferry.convert(view.sample(), "numpy")
        assert view.to_jsonable([sample]) == space.to_jsonable([space.sample()])
