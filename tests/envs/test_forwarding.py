"""A vector wrapper shows what the vector environment has, and converts what passes by other methods."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper

import arrayferry
from helpers.compare import assert_crossed
from helpers.envs import Counter, Recorder
from helpers.targets import array_type, pytest_generate_tests

__all__ = ["array_type", "pytest_generate_tests"]  # which run what takes `target` for every framework


def sync() -> SyncVectorEnv[Any, Any]:
    return SyncVectorEnv([partial(Counter, 2)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)


@pytest.mark.parametrize("sanitize", [False, True])
def test_public_attributes_of_any_layer(sanitize: bool, target: str) -> None:
    inner = sync()
    envs: Any = arrayferry.wrap(VectorWrapper(inner), target, sanitize=sanitize)
    assert envs.autoreset_mode is AutoresetMode.SAME_STEP
    assert envs.envs is inner.envs
    around: Any = arrayferry.wrap(envs, "numpy")
    assert around.autoreset_mode is AutoresetMode.SAME_STEP
    assert not hasattr(envs, "no_such_attribute")
    assert not hasattr(envs, "_env_obs"), "what is private stays so"
    with pytest.raises(AttributeError, match="no_such_attribute"):
        _ = envs.no_such_attribute


def test_the_outermost_layer_that_has_it() -> None:
    class Named(VectorWrapper):
        name = "middle"

    inner: Any = sync()
    inner.name = "inner"
    envs: Any = arrayferry.wrap(Named(inner), "numpy")
    assert envs.name == "middle"
    envs.name = "outer"
    assert (envs.name, inner.name) == ("outer", "inner")


@pytest.mark.parametrize("sanitize", [False, True])
def test_halves_of_a_step_do_not_bypass_wrappers(sanitize: bool) -> None:
    class Doubled(VectorWrapper):
        def step(self, actions: Any) -> Any:
            obs, reward, *others = self.env.step(actions)
            return obs, reward * 2, *others

    class Halves(SyncVectorEnv):
        def send(self, actions: Any) -> None:
            self.sent = actions

        def recv(self) -> Any:
            return self.step(self.sent)

    inner = Halves([partial(Counter, 2)] * 2)
    plain: Any = arrayferry.wrap(VectorWrapper(inner), "numpy", sanitize=sanitize)
    plain.reset()
    plain.send(np.zeros(2, int))
    assert plain.recv()[1].shape == (2,)
    envs: Any = arrayferry.wrap(Doubled(inner), "numpy", sanitize=sanitize)
    with pytest.raises(arrayferry.FerryError, match="send would bypass Doubled"):
        envs.send(np.zeros(2, int))
    assert not hasattr(envs, "recv")
    assert envs.num_envs == 2


def test_a_copy_is_whole() -> None:
    envs: Any = arrayferry.wrap(sync(), "numpy")
    for again in (copy.deepcopy(envs), cloudpickle.loads(cloudpickle.dumps(envs))):
        assert again.autoreset_mode is AutoresetMode.SAME_STEP
        assert again.envs is not envs.envs


def test_one_without_its_environment_does_not_look_for_it_for_ever() -> None:
    empty: Any = arrayferry.wrappers.vector.ArrayConversion.__new__(
        arrayferry.wrappers.vector.ArrayConversion
    )
    with pytest.raises(AttributeError, match="autoreset_mode"):
        _ = empty.autoreset_mode


def test_single_wrappers_do_as_gymnasium_s() -> None:
    env: Any = arrayferry.wrap(Counter(length=7), "numpy")
    assert env.get_wrapper_attr("length") == 7
    assert hasattr(env, "length") is hasattr(gym.Wrapper(Counter(length=7)), "length")


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    """Two worker processes, started once for all targets; and the wrappers around them."""
    envs = AsyncVectorEnv([partial(Counter, 2)] * 2, context="spawn")
    yield envs, []  # before 1.4, Gymnasium closes the environment of a wrapper that is gone
    envs.close(terminate=True)


def in_two_calls(envs: Any, target: str) -> list[Any]:
    envs.reset_async(seed=1)
    results = [envs.reset_wait()]
    for _ in range(3):
        envs.step_async(arrayferry.convert(np.array([1, 2]), target))
        results.append(envs.step_wait(timeout=60))
    return results


def test_a_step_in_two_calls(workers: Any, target: str) -> None:
    envs, wrappers = workers
    want = in_two_calls(envs, "numpy")
    wrappers.append(arrayferry.wrap(envs, target))
    for got, one in zip(in_two_calls(wrappers[-1], target), want, strict=True):
        assert_crossed(got, one, target)


class SendsAndReceives(SyncVectorEnv):  # type: ignore[type-arg]  # generic from Gymnasium 1.4 on
    """Takes actions for some of its environments, as EnvPool does; `call_log` has what arrived."""

    def __init__(self) -> None:
        super().__init__([partial(Recorder, gym.spaces.Discrete(5))] * 3)
        self.call_log: list[Any] = []

    def async_reset(self) -> None:
        self.call_log.append("reset")

    def send(self, actions: Any, env_id: Any = None) -> None:
        if env_id is not None and len(env_id) != len(actions):
            raise ValueError("as many as there are actions")
        self.call_log.append((actions, env_id))

    def recv(self) -> Any:
        return self.step(np.zeros(3, np.int64))

    def xla(self) -> Any:
        return "a handle and functions"


def test_send_and_recv(target: str) -> None:
    inner = SendsAndReceives()
    envs: Any = arrayferry.wrap(inner, target, dtypes="space", reward_dtype="float32")
    envs.reset(seed=1)
    envs.async_reset()
    envs.send(arrayferry.convert(np.array([1, 2, 3], np.int32), target))
    envs.send(
        arrayferry.convert(np.array([4, 0]), target), env_id=arrayferry.convert(np.array([2, 0]), target)
    )
    assert inner.call_log[0] == "reset"
    for (actions, env_id), want, ids in zip(inner.call_log[1:], ([1, 2, 3], [4, 0]), (None, [2, 0])):
        assert type(actions) is np.ndarray
        assert actions.tolist() == want
        assert env_id is None or (type(env_id) is np.ndarray and env_id.tolist() == ids)
    assert inner.call_log[1][0].dtype == np.int64
    want = list(inner.recv())
    want[1] = want[1].astype(np.float32)
    assert_crossed(envs.recv(), tuple(want), target)
    assert envs.xla() == "a handle and functions"


def test_a_call_without_actions_is_refused_as_python_refuses_it() -> None:
    envs: Any = arrayferry.wrap(SendsAndReceives(), "numpy")
    for sender in (envs, arrayferry.wrap(SendsAndReceives(), "numpy", sanitize=True)):
        for arguments in ({}, {"env_id": np.arange(2)}):
            with pytest.raises(TypeError, match=r"missing .* 'actions'"):
                sender.send(**arguments)  # type: ignore[attr-defined]


def test_an_error_says_what_was_sent() -> None:
    envs: Any = arrayferry.wrap(SendsAndReceives(), "numpy")
    with pytest.raises(ValueError, match="as many as") as caught:
        envs.send(np.array([0.5, 1.5]), [1])
    assert "one for each of 3 environments" in "".join(
        getattr(caught.value, "__notes__", [str(caught.value)])
    )
