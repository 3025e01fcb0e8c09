"""What is refused, and that the message says what to use instead."""

from __future__ import annotations

import importlib.util
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import arrayferry
from arrayferry import wrappers
from helpers.envs import Counter, Scripted


def vector() -> SyncVectorEnv[Any, Any]:
    return SyncVectorEnv([Counter, Counter])


@pytest.mark.parametrize("name", ["ArrayConversion", "NumpyToTorch", "JaxToNumpy", "TorchToJax"])
def test_the_wrong_kind_of_environment_says_which_wrapper_to_use(name: str) -> None:
    arguments = {"env_xp": "numpy", "target_xp": "torch"} if name == "ArrayConversion" else {}
    with pytest.raises(TypeError) as caught:
        getattr(wrappers, name)(vector(), **arguments)
    assert isinstance(caught.value, arrayferry.FerryError)
    assert f"arrayferry.wrappers.vector.{name}" in str(caught.value)
    assert "SyncVectorEnv" in str(caught.value)
    with pytest.raises(TypeError) as caught:
        getattr(wrappers.vector, name)(Counter(), **arguments)
    assert isinstance(caught.value, arrayferry.FerryError)
    assert f"arrayferry.wrappers.{name}" in str(caught.value)
    assert "Counter" in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("spaces", "torch", "'env' or 'target'"),
        ("spaces", None, "'env' or 'target'"),
        ("scalars", "numpy", "'python' or 'target'"),
        ("copy", "yes", "None, True or False"),
        ("copy", 1, "None, True or False"),
        ("dtypes", {"float65": "float32"}, "float64"),
        ("dtypes", {"float64": "half"}, "float16"),
    ],
)
def test_an_option_s_value_that_it_cannot_have(option: str, value: Any, allowed: str, target: str) -> None:
    with pytest.raises(arrayferry.errors.OptionError) as caught:
        arrayferry.wrap(Counter(), target, **{option: value})
    assert isinstance(caught.value, ValueError)
    assert option in str(caught.value)
    assert allowed in str(caught.value)
    if option != "scalars":
        with pytest.raises(arrayferry.errors.OptionError, match=option):
            arrayferry.wrap(vector(), target, **{option: value})


def test_an_option_that_there_is_not(target: str) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        arrayferry.wrap(Counter(), target, no_such_option=1)
    for name, meant in {"num_env": "num_envs", "n_envs": "num_envs", "target_device": "device"}.items():
        with pytest.raises(TypeError, match=rf"{name} is not an option.*\n.*did you mean {meant}\?"):
            arrayferry.wrap(Counter(), target, **{name: 4})
    with pytest.raises(TypeError, match="dense_final"):
        arrayferry.wrap(Counter(), target, dense_final=True)
    with pytest.raises(TypeError, match="scalars"):
        arrayferry.wrap(vector(), target, scalars="target")
    with pytest.raises(TypeError, match="no_such_option"):
        wrappers.NumpyToTorch(Counter(), no_such_option=1)


@pytest.mark.parametrize("name", ["tensor", "pytorch", "", "os", "collections.abc"])
def test_an_unknown_framework_lists_the_known(name: str) -> None:
    for make in (
        lambda: arrayferry.wrap(Counter(), name),
        lambda: arrayferry.wrap(vector(), name),
        lambda: wrappers.ArrayConversion(Counter(), name, "numpy"),
    ):
        with pytest.raises(arrayferry.errors.UnknownFrameworkError) as caught:
            make()
        assert isinstance(caught.value, ValueError)
        assert repr(name) in str(caught.value)
        for known in ("numpy", "torch", "jax"):
            assert known in caught.value.hint


def test_what_is_no_name_and_no_module() -> None:
    for thing in (None, 3, np.ndarray, importlib):
        with pytest.raises(arrayferry.errors.UnknownFrameworkError):
            arrayferry.wrap(Counter(), thing)  # type: ignore[call-overload]


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="cupy is installed here")
def test_a_framework_that_is_not_installed_is_named_with_the_command() -> None:
    for make in (
        lambda: arrayferry.wrap(Counter(), "cupy"),
        lambda: wrappers.ArrayConversion(Counter(), "numpy", "cupy"),
        lambda: wrappers.ArrayConversion(Counter(), "cupy", "numpy"),
        lambda: wrappers.vector.ArrayConversion(vector(), "numpy", "cupy"),
    ):
        with pytest.raises(arrayferry.errors.NotInstalledError) as caught:
            make()
        assert isinstance(caught.value, ImportError)
        assert "cupy" in caught.value.what
        assert "pip install" in caught.value.hint
        assert "cupy" in caught.value.hint


def test_a_device_that_is_not_there(target: str) -> None:
    for make in (
        lambda: arrayferry.wrap(Counter(), target, "no such device"),
        lambda: arrayferry.wrap(vector(), target, "no such device"),
        lambda: arrayferry.wrap(Counter(), "numpy", env_xp=target, env_device="no such device"),
    ):
        with pytest.raises(arrayferry.errors.DeviceError) as caught:
            make()
        assert isinstance(caught.value, ValueError)
        assert "no such device" in str(caught.value)
        assert "cpu" in caught.value.hint.lower()


def test_sharing_that_cannot_be_names_the_leaf() -> None:
    pytest.importorskip("torch")
    read_only = np.zeros(3, np.float32)
    read_only.flags.writeable = False
    env = arrayferry.wrap(Scripted(reset=({"a": [read_only]}, {})), "torch", copy=False)
    with pytest.raises(arrayferry.errors.SharingError, match=r'obs\["a"\]\[0\]'):
        env.reset()


def test_a_value_that_does_not_fit_names_the_leaf() -> None:
    pytest.importorskip("jax")
    env = arrayferry.wrap(Scripted(reset=(np.zeros(3, np.float32), {"id": {"n": np.array([2**40])}})), "jax")
    with pytest.raises(OverflowError) as caught:
        env.reset()
    text = str(caught.value)
    assert 'info["id"]["n"]' in text
    assert str(2**40) in text
    assert "jax_enable_x64" in text


def test_an_action_that_cannot_cross_names_itself() -> None:
    torch = pytest.importorskip("torch")
    env = arrayferry.wrap(Counter(), "torch")
    env.reset()
    with pytest.raises(arrayferry.errors.UnsupportedError, match=r"^action: .*(sparse|layout)"):
        env.step(torch.zeros(3).to_sparse())
    with pytest.raises(arrayferry.errors.UnsupportedError, match=r'^action\["go"\]\[1\]: .*meta'):
        env.step({"go": [torch.zeros(1), torch.zeros(3, device="meta")]})
    assert int(env.step(torch.tensor(1))[0][0]) == 1


def test_gymnasium_s_own_message_for_a_step_without_reset_is_kept(target: str) -> None:
    with pytest.raises(gym.error.ResetNeeded):
        arrayferry.wrap(gym.make("CartPole-v1"), target).step(arrayferry.convert(np.array(1), target))
