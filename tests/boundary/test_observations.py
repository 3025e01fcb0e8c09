"""The last observations of episodes that a vector environment has reset: as they are, and dense."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.errors import UnsupportedError
from helpers.compare import assert_array, assert_crossed, seen
from helpers.envs import BOX, Counter


def show_dict(count: int) -> Any:
    return {"a": np.full(3, count, np.float32), "n": np.int64(count)}


def show_tuple(count: int) -> Any:
    return np.full(3, count, np.float32), (np.int64(count),)


# What an observation is, its space, and what the batch of final observations is when the first ended with
# the value 2 and the second goes on.
KINDS: dict[str, Any] = {
    "Box": (lambda count: np.full(3, count, np.float32), BOX, np.array([[2] * 3, [0] * 3], np.float32)),
    "Box_image": (
        lambda count: np.full((2, 2), count, np.uint8),
        spaces.Box(0, 255, (2, 2), np.uint8),
        np.array([[[2, 2]] * 2, [[0, 0]] * 2], np.uint8),
    ),
    "Discrete": (np.int64, spaces.Discrete(9), np.array([2, 0])),
    "MultiBinary": (
        lambda count: np.array([count % 2, 1], np.int8),
        spaces.MultiBinary(2),
        np.array([[0, 1], [0, 0]], np.int8),
    ),
    "Dict": (
        show_dict,
        spaces.Dict(a=BOX, n=spaces.Discrete(9)),
        {"a": np.array([[2] * 3, [0] * 3], np.float32), "n": np.array([2, 0])},
    ),
    "Tuple": (
        show_tuple,
        spaces.Tuple((BOX, spaces.Tuple((spaces.Discrete(9),)))),
        (np.array([[2] * 3, [0] * 3], np.float32), (np.array([2, 0]),)),
    ),
}


def ended(kind: str, target: str, steps: int = 2, **options: Any) -> Any:
    """The result of the step in which the first of two environments ended its episode."""
    show, space, _ = KINDS[kind]
    makers = [partial(Counter, length, show, space) for length in (2, 3)]
    envs = arrayferry.wrap(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP), target, **options)
    envs.reset(seed=1)
    for _ in range(steps):
        result = envs.step(arrayferry.convert(np.array([1, 1]), target))
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_final_observations_as_objects(kind: str, target: str) -> None:
    _, _, terminated, _, info = ended(kind, target)
    show, _, _ = KINDS[kind]
    assert seen(terminated).tolist() == [True, False]
    assert type(info["final_obs"]) is np.ndarray
    assert info["final_obs"].dtype == object
    assert_crossed(info["final_obs"][0], show(2), target, "final_obs[0]")
    assert info["final_obs"][1] is None
    assert_array(info["_final_obs"], np.array([True, False]), target)


@pytest.mark.parametrize("kind", KINDS)
def test_final_observations_as_one_batch(kind: str, target: str) -> None:
    info = ended(kind, target, dense_final=True)[4]
    assert_crossed(info["final_obs"], KINDS[kind][2], target, "final_obs")
    assert_array(info["_final_obs"], np.array([True, False]), target)


@pytest.mark.parametrize("dense", [False, True])
def test_final_observations_of_another_framework(dense: bool, target: str) -> None:
    """SyncVectorEnv stacks what JAX environments give in NumPy, but keeps the last as it was."""
    jnp = pytest.importorskip("jax.numpy")
    makers = [partial(Counter, length, lambda count: jnp.full(3, count, jnp.float32)) for length in (2, 3)]
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    wrapped = arrayferry.wrap(envs, target, dense_final=dense)
    wrapped.reset()
    for _ in range(2):
        info = wrapped.step(arrayferry.convert(np.array([1, 1]), target))[4]
    assert_array(
        info["final_obs"] if dense else info["final_obs"][0],
        KINDS["Box"][2][slice(None) if dense else 0],
        target,
    )


def test_final_infos_and_their_masks(target: str) -> None:
    for dense in (False, True):
        final = ended("Box", target, dense_final=dense)[4]["final_info"]
        assert seen(final["count"]).tolist() == [2, 0]
        assert_array(final["_count"], np.array([True, False]), target)
        assert final["word"].tolist() == ["step 2", None]
        assert_array(final["path"], np.array([[2, 3], [0, 0]]), target)


def test_no_episode_ended_no_final_observation(target: str) -> None:
    for dense in (False, True):
        info = ended("Box", target, steps=1, dense_final=dense)[4]
        assert "final_obs" not in info
        assert "_final_obs" not in info


def test_a_dense_batch_is_on_the_device_and_in_the_dtype_asked_for() -> None:
    torch = pytest.importorskip("torch")
    strict = pytest.importorskip("array_api_strict")
    info = ended("Box", "array_api_strict", dense_final=True, device="device1")[4]
    assert info["final_obs"].device == strict.Device("device1")
    info = ended("Box", "torch", dense_final=True, dtypes={"float32": "float64"})[4]
    assert info["final_obs"].dtype == torch.float64


def test_a_dense_batch_of_what_cannot_be_stacked_is_a_tuple(target: str) -> None:
    """As Gymnasium batches it."""
    makers = [partial(Counter, length, "word{}".format, spaces.Text(9)) for length in (2, 3)]
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    wrapped = arrayferry.wrap(envs, target, dense_final=True)
    wrapped.reset()
    for _ in range(2):
        obs, _, _, _, info = wrapped.step(arrayferry.convert(np.array([1, 1]), target))
    assert obs == ("word0", "word2")
    assert type(info["final_obs"]) is tuple
    assert info["final_obs"][0] == "word2"
    assert len(info["final_obs"]) == 2


def test_held_final_observations_do_not_change(target: str) -> None:
    for dense in (False, True):
        show, space, _ = KINDS["Box"]
        makers = [partial(Counter, 2, show, space)] * 2
        envs = SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
        wrapped = arrayferry.wrap(envs, target, dense_final=dense)
        wrapped.reset()
        held = []
        for _ in range(6):
            info = wrapped.step(arrayferry.convert(np.array([1, 1]), target))[4]
            held += [info["final_obs"]] if "final_obs" in info else []
        assert len(held) == 3
        for final in held:
            assert [seen(row).tolist() for row in (final if not dense else seen(final))] == [[2.0] * 3] * 2


@pytest.mark.parametrize("count", [1, 3])
def test_a_dense_batch_has_a_row_for_each_environment(count: int) -> None:
    class Counted(SyncVectorEnv):  # type: ignore[type-arg]  # generic from Gymnasium 1.4 on
        def step(self, actions: Any) -> Any:
            *others, info = super().step(actions)
            return *others, {**info, "final_obs": [np.ones(3, np.float32)] * count}

    show, space, _ = KINDS["Box"]
    wrapped = arrayferry.wrap(Counted([partial(Counter, 2, show, space)] * 2), "numpy", dense_final=True)
    wrapped.reset()
    with pytest.raises(UnsupportedError, match=r'^info\["final_obs"\]: '):
        wrapped.step(np.array([1, 1]))
