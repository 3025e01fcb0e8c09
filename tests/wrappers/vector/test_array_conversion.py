"""Vector environments: every autoreset mode, infos with their masks, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

import arrayferry
from arrayferry import wrappers
from helpers.compare import assert_array, assert_crossed, seen
from helpers.envs import Counter

MODES = list(AutoresetMode)


def sync(mode: AutoresetMode = AutoresetMode.NEXT_STEP, **options: Any) -> SyncVectorEnv[Any, Any]:
    """Two environments whose episodes have two and three steps."""
    return SyncVectorEnv([partial(Counter, 2), partial(Counter, 3)], autoreset_mode=mode, **options)


def play(
    envs: VectorEnv[Any, Any, Any],
    target: str,
    steps: int = 6,
    keep: Callable[[Any], Any] = lambda result: result,
) -> list[Any]:
    """An episode or two, resetting by hand where nobody else does; `keep` is done to each result at once."""
    by_hand = envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    results: list[Any] = [keep(envs.reset(seed=3))]
    for number in range(steps):
        results.append(keep(envs.step(arrayferry.convert(np.array([number % 5, 1]), target))))
        done = seen(results[-1][2])
        if by_hand and done.any():
            results.append(keep(envs.reset(options={"reset_mask": arrayferry.convert(done, target)})))
    return results


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("copy", [True, False], ids=["copying", "reusing"])
def test_equal_to_the_bare_environment_in_every_mode(mode: AutoresetMode, copy: bool, target: str) -> None:
    want = play(sync(mode), "numpy")
    got = play(arrayferry.wrap(sync(mode, copy=copy), target), target)
    # Compared only now: an observation that changed after it was given would show.
    assert len(got) == len(want)
    for number, (one, other) in enumerate(zip(got, want)):
        assert_crossed(one, other, target, f"{mode.value}, result {number}")
    assert any(result[2].any() for result in want if len(result) == 5), "no episode ended"


def test_rewards_and_dones_are_the_target_s_arrays(target: str) -> None:
    envs = arrayferry.wrap(sync(), target)
    envs.reset()
    _, reward, terminated, truncated, _ = envs.step(arrayferry.convert(np.array([1, 1]), target))
    assert_array(reward, np.array([0.5, 0.5]), target)
    assert_array(terminated, np.array([False, False]), target)
    assert_array(truncated, np.array([False, False]), target)


def test_strings_of_the_sub_environments_and_their_masks(target: str) -> None:
    envs = arrayferry.wrap(sync(), target)
    envs.reset()
    info = envs.step(arrayferry.convert(np.array([1, 1]), target))[4]
    assert isinstance(info["word"], np.ndarray)
    assert info["word"].tolist() == ["step 1", "step 1"]
    assert_array(info["_word"], np.array([True, True]), target)
    assert_array(info["count"], np.array([1, 1]), target)
    assert_array(info["path"], np.array([[1, 2], [1, 2]]), target)


def test_the_reset_mask_may_be_the_target_s(target: str) -> None:
    envs = arrayferry.wrap(sync(AutoresetMode.DISABLED), target)
    envs.reset()
    envs.step(arrayferry.convert(np.array([1, 1]), target))
    mask = arrayferry.convert(np.array([True, False]), target)
    obs, info = envs.reset(options={"reset_mask": mask})
    assert_array(obs, np.array([[0] * 3, [1] * 3], np.float32), target)
    assert seen(info["_count"]).tolist() == [True, False]


@pytest.mark.parametrize("seed", [5, [7, 9], None], ids=str)
def test_seeds_go_through_as_they_are(seed: Any, target: str) -> None:
    envs = sync()
    arrayferry.wrap(envs, target).reset(seed=seed)
    if seed is not None:
        assert list(envs.np_random_seed) == ([5, 6] if seed == 5 else seed)
    taken: list[Any] = []
    envs.reset = lambda **given: taken.append(given["seed"]) or (np.zeros((2, 3), np.float32), {})  # type: ignore[method-assign]
    arrayferry.wrap(envs, target).reset(seed=seed)
    assert taken[0] is seed


def test_call_get_attr_and_set_attr_convert_nothing(target: str) -> None:
    envs = arrayferry.wrap(sync(), target)
    assert envs.get_attr("length") == (2, 3)
    envs.set_attr("length", [5, np.array(6)])
    assert envs.get_attr("length") == (5, np.array(6))
    value = np.zeros(2)
    envs.set_attr("marker", [value, value])
    assert all(marker is value for marker in envs.get_attr("marker"))
    assert envs.call("render") == (None, None)
    infos = envs.call("_info")
    assert all(type(info["path"]) is np.ndarray and type(info["count"]) is int for info in infos)


def test_what_a_vector_environment_tells_about_itself(target: str) -> None:
    bare = sync(AutoresetMode.SAME_STEP)
    envs = arrayferry.wrap(bare, target)
    assert envs.num_envs == 2
    assert envs.unwrapped is bare
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.single_action_space == bare.single_action_space
    assert envs.observation_space == bare.observation_space
    assert envs.render_mode is None
    assert not envs.closed
    envs.close()
    assert bare.closed


def test_gym_make_vec(target: str) -> None:
    bare, envs = (gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync") for _ in range(2))
    wrapped = arrayferry.wrap(envs, target)
    assert_crossed(wrapped.reset(seed=1), bare.reset(seed=1), target)
    for action in ([0, 1], [1, 1], [1, 0]):
        want = bare.step(np.array(action))
        assert_crossed(wrapped.step(arrayferry.convert(np.array(action), target)), want, target)


def test_a_vector_of_different_spaces(target: str) -> None:
    kinds = [partial(Counter, observation_space=gym.spaces.Box(-high, high, (3,))) for high in (5, 9)]
    envs = arrayferry.wrap(SyncVectorEnv(kinds, observation_mode="different"), target)
    assert_array(envs.reset()[0], np.zeros((2, 3), np.float32), target)


def test_the_named_pairs() -> None:
    torch = pytest.importorskip("torch")
    envs = wrappers.vector.NumpyToTorch(sync())
    obs, _ = envs.reset()
    results = envs.step(torch.tensor([1, 1]))
    assert all(isinstance(item, torch.Tensor) for item in (obs, *results[:4]))
    assert results[2].dtype == torch.bool
    envs = wrappers.vector.NumpyToTorch(sync(), device="cpu")
    assert envs.reset()[0].device.type == "cpu"
