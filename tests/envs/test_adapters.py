"""What is known about each kind of environment, and how it is found."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry.envs import EnvAdapter, register_environment
from arrayferry.envs.adapters import UNKNOWN, adapter_of
from arrayferry.errors import OptionError, UnsupportedError


def of(module: str, name: str, *bases: type, **members: Any) -> Any:
    """An object of a class of another package, which need not be installed."""
    return type(name, bases, {"__module__": module, **members})()


class Simulator:
    """An object of no known class, whose values have a row for each environment."""

    num_envs, dones = 3, np.zeros(3, bool)


def open_simulator(env: Any, params: Any, num_envs: Any, autoreset_mode: Any) -> Any:
    """Open it, as a vector environment of Gymnasium's."""
    if num_envs is not None:
        raise UnsupportedError(f"num_envs={num_envs}", "leave it out")
    mode = autoreset_mode or AutoresetMode.SAME_STEP
    return gym.make_vec("CartPole-v1", env.num_envs, "sync", vector_kwargs={"autoreset_mode": mode})


BY_ATTRIBUTES = EnvAdapter("vector", open_simulator, framework="numpy")


def has_rows(env: Any) -> bool:
    """Recognise it by what it has."""
    return hasattr(env, "dones")


def test_every_environment_has_a_kind() -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents, aec

    vector = gym.make_vec("CartPole-v1", 2)
    kinds = [adapter_of(env).kind for env in (gym.make("CartPole-v1"), vector, ThreeAgents(), aec())]
    assert kinds == ["single", "vector", "parallel", "aec"]
    wrapped = [
        arrayferry.wrap(env, "numpy") for env in (gym.make("CartPole-v1"), vector, ThreeAgents(), aec())
    ]
    assert [adapter_of(env).kind for env in wrapped] == kinds
    assert adapter_of(vector).calls["send"] == ("action", None)
    assert adapter_of(3) is adapter_of(object()) is adapter_of(gym.Env) is UNKNOWN


def test_the_outermost_class_that_is_known_counts() -> None:
    simulator = type("BaseEnv", (gym.Env,), {"__module__": "mani_skill.envs"})
    unbatching = type("CPUGymWrapper", (gym.Wrapper,), {"__module__": "mani_skill.utils"})
    batched, single = EnvAdapter("vector", open_simulator, action_framework="torch"), EnvAdapter("single")
    register_environment("mani_skill:BaseEnv", batched, replace=True)
    register_environment("mani_skill:CPUGymWrapper", single, replace=True)
    assert adapter_of(simulator()) is batched
    inside = adapter_of(gym.wrappers.TimeLimit(simulator(), 9))
    assert (inside.kind, inside.open) == ("vector", open_simulator)
    assert inside.action_framework is None  # a wrapper may compute with actions
    assert adapter_of(gym.wrappers.TimeLimit(unbatching(simulator()), 9)).kind == "single"


def test_attributes_are_asked_only_where_no_class_is_known() -> None:
    register_environment(has_rows, BY_ATTRIBUTES)
    assert adapter_of(Simulator()) is BY_ATTRIBUTES
    unknown = of("lab", "Env", gym.Env, dones=np.zeros(2, bool))
    assert adapter_of(unknown) is BY_ATTRIBUTES  # gymnasium.Env alone says nothing
    assert adapter_of(gym.Wrapper(unknown)).open is open_simulator
    assert adapter_of(of("gymnax.environments", "Environment", dones=1)).interface is not None
    register_environment(Simulator, other := EnvAdapter("single"))
    assert adapter_of(Simulator()) is other


def test_the_last_predicate_is_asked_first() -> None:
    register_environment(has_rows, BY_ATTRIBUTES)
    register_environment(lambda env: hasattr(env, "num_envs"), other := EnvAdapter(None, hint="ask"))
    assert adapter_of(Simulator()) is other
    with pytest.raises(UnsupportedError, match=r"a Simulator is not[\s\S]*ask"):
        arrayferry.wrap(Simulator(), "numpy")


def test_what_an_adapter_opens_is_wrapped_explained_and_checked() -> None:
    register_environment(has_rows, BY_ATTRIBUTES)
    envs = arrayferry.wrap(Simulator(), "numpy", autoreset_mode="Disabled")
    assert envs.num_envs == 3
    assert envs.autoreset_mode is AutoresetMode.DISABLED
    assert arrayferry.envs.as_gymnasium(Simulator()).autoreset_mode is AutoresetMode.SAME_STEP
    assert arrayferry.envs.as_gymnasium(Simulator(), autoreset_mode="NextStep").num_envs == 3
    assert "x 3" in arrayferry.explain(Simulator(), "numpy").title
    assert arrayferry.check(Simulator(), "numpy", steps=20)
    with pytest.raises(UnsupportedError, match="num_envs=4"):
        arrayferry.wrap(Simulator(), "numpy", num_envs=4)
    with pytest.raises(UnsupportedError, match="render_mode=human, but Simulator is made already"):
        arrayferry.envs.as_gymnasium(Simulator(), render_mode="human")


def test_calls_are_converted_and_watched_as_the_record_says() -> None:
    torch = pytest.importorskip("torch")

    class Halves(gym.vector.SyncVectorEnv):
        def ask(self, actions: Any) -> None:
            """Take actions."""
            self.asked = actions

        def answer(self) -> Any:
            """Return a step, with what is no number."""
            obs, *rest = super().step(self.asked)
            return (obs * np.float32("nan"), *rest)

    register_environment(
        Halves, EnvAdapter("vector", calls={"ask": ("action", None), "answer": (None, "step")})
    )
    envs = arrayferry.wrap(Halves([lambda: gym.make("CartPole-v1")] * 2), "torch", sanitize="raise")
    envs.reset(seed=1)
    envs.ask(torch.tensor([0, 1]))
    assert isinstance(envs.unwrapped.asked, np.ndarray)
    with pytest.raises(arrayferry.sanitizer.SanitizerError, match="NaN"):
        envs.answer()
    calm = arrayferry.wrap(envs.unwrapped, "torch", sanitize=False)
    calm.ask(torch.tensor([0, 1]))
    assert calm.answer()[0].isnan().all()


def test_a_single_wrapper_around_a_vector_is_refused() -> None:
    class Pool(gym.vector.SyncVectorEnv, gym.Env):  # type: ignore[misc]
        """A native vector environment, which is an instance of both classes."""

    register_environment(Pool, EnvAdapter("vector"))
    pool = Pool([lambda: gym.make("CartPole-v1")])
    assert arrayferry.wrap(pool, "numpy").num_envs == 1
    with pytest.raises(UnsupportedError, match="an OrderEnforcing is for a single environment"):
        arrayferry.wrap(gym.wrappers.OrderEnforcing(pool), "numpy")


def test_parameters_come_with_the_environment() -> None:
    register_environment(has_rows, BY_ATTRIBUTES)
    with pytest.raises(UnsupportedError, match="num_envs=2"):
        arrayferry.wrap((Simulator(), {}), "numpy", num_envs=2)
    with pytest.raises(UnsupportedError, match="max_episode_steps=9, but Simulator is made already"):
        arrayferry.envs.as_gymnasium((Simulator(), {}), max_episode_steps=9)


def test_an_adapter_tells_the_framework_and_the_device() -> None:
    class Lab(gym.vector.VectorEnv):
        """Its arrays are where it says."""

        single_action_space = gym.spaces.Box(-1, 1, (2,))
        num_envs, action_space = 2, gym.spaces.Box(-1, 1, (2, 2))

        def step(self, actions: Any) -> Any:
            """Keep the actions."""
            self.actions = actions
            return np.zeros((2, 1)), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {}

    torch = pytest.importorskip("torch")
    register_environment(Lab, EnvAdapter("vector", framework=lambda env: ("torch", "cpu")))
    inner = Lab()
    wrapped = arrayferry.wrap(gym.vector.VectorWrapper(inner), "numpy")
    wrapped.step(np.ones((2, 2), np.float32))
    assert isinstance(inner.actions, torch.Tensor)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "many"},
        {"kind": None},
        {"open": "package:function"},
        {"interface": 3},
        {"framework": 3},
        {"reads_actions_at_once": 1},
        {"calls": ["send"]},
        {"calls": {"send": "action"}},
        {"calls": {"send": ("actions", None)}},
        {"calls": {"send": ("action", ["step"])}},
        {"xla": None},
        {"hint": 3},
    ],
    ids=str,
)
def test_an_adapter_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        EnvAdapter(**{"kind": "vector", **wrong})


def test_an_adapter_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        BY_ATTRIBUTES.hint = "another"  # type: ignore[misc]


def test_what_is_known_is_replaced_only_if_asked() -> None:
    register_environment(has_rows, BY_ATTRIBUTES)
    for key in has_rows, gym.Env, "pettingzoo:AECEnv", "dm_env:Environment":
        with pytest.raises(OptionError, match="registered already"):
            register_environment(key, BY_ATTRIBUTES)
    register_environment(has_rows, EnvAdapter("single"), replace=True)
    assert adapter_of(Simulator()).kind == "single"


@pytest.mark.parametrize("kind", ["single", "vector", "parallel"])
def test_an_autoreset_mode_of_what_is_made_already_is_refused(kind: str) -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents

    envs = {"single": gym.make("CartPole-v1"), "vector": gym.make_vec("CartPole-v1", 2)}
    with pytest.raises(UnsupportedError, match=r"autoreset_mode=.*, but .* is made already"):
        arrayferry.wrap(envs.get(kind) or ThreeAgents(), "numpy", autoreset_mode="SameStep")
    with pytest.raises(OptionError, match="autoreset_mode='never'"):
        arrayferry.wrap(envs.get(kind) or ThreeAgents(), "numpy", autoreset_mode="never")
