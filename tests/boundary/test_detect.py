"""What goes into an environment before it has returned anything."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import UserDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry._boundary import detect
from arrayferry.errors import FrameworkWarning
from arrayferry.wrappers import base

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy


@dataclass
class State:
    position: Any
    steps: int = 0


class Holder(gym.Env[Any, Any]):
    """Keeps what it is given; returns what it holds."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))

    def __init__(self, held: Any = None, observation: Any = None) -> None:
        self.held = held
        self.observation = np.zeros(2, np.float32) if observation is None else observation
        self.given: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.given.append((options or {}).get("start"))
        return self.observation, {}

    def step(self, action: Any) -> Any:
        self.given.append(action)
        return self.observation, 1.0, False, False, {}


HELD = {
    "an attribute": lambda array: array,
    "a dict": lambda array: {"now": [array]},
    "a dataclass": State,
    "among text and numbers": lambda array: [1, "text", None, (array,)],
}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("make", [torch.zeros, jnp.zeros], ids=["torch", "jax"])
def test_an_environment_gets_what_it_holds_in_the_first_reset_and_step_with_a_warning(
    make: Any, held: str
) -> None:
    array = np.ones(2, np.float32)
    for name, arguments in (("reset", {"options": {"start": array}}), ("step", {"action": array})):
        env = Holder(HELD[held](make(2)), observation=make(2))
        wrapped = arrayferry.wrap(env, "numpy")
        with pytest.warns(FrameworkWarning, match="holds .* arrays.*env_xp=") as caught:
            getattr(wrapped, name)(**arguments)
        assert len(caught) == 1
        wrapped.step(np.ones(2, np.float32))
        assert isinstance(env.given[0], type(make(2)))


def test_what_an_inner_wrapper_holds_is_asked_too() -> None:
    env = Holder(observation=jnp.zeros(2))
    outer = gym.wrappers.TimeLimit(env, 5)
    outer.memory = [jnp.zeros(2)]
    wrapped = arrayferry.wrap(outer, "torch")
    with pytest.warns(FrameworkWarning, match='env_xp="jax"'):
        wrapped.reset(options={"start": torch.ones(2)})
    assert isinstance(env.given[0], jax.Array)


def test_an_inner_conversion_is_asked() -> None:
    env = Holder(torch.zeros(2))
    inner = arrayferry.wrappers.ArrayConversion(env, "torch", "jax")
    arrayferry.wrap(inner, "numpy").step(np.ones(2, np.float32))
    assert isinstance(env.given[0], torch.Tensor)


@pytest.mark.needs("gymnasium>=1.2")  # the first with an ArrayConversion
def test_an_inner_conversion_of_gymnasiums_is_asked() -> None:
    theirs = gym.wrappers.ArrayConversion(Holder(torch.zeros(2)), env_xp=torch, target_xp=jnp)
    boundary = arrayferry.wrap(theirs, "numpy")._boundary
    boundary.convert_action(np.ones(2, np.float32))
    assert boundary.state.to_env.framework.name == "jax"


def test_gymnasiums_jax_environments_are_known_by_their_class() -> None:
    pytest.importorskip("flax")
    env = gym.make("phys2d/CartPole-v1", disable_env_checker=True)
    boundary = arrayferry.wrap(env, "torch")._boundary
    assert isinstance(boundary.convert_action(torch.tensor(1)), jax.Array)


def test_scalars_and_text_tell_nothing() -> None:
    env = Holder([np.float32(1), "text", np.array(["a"])], observation=jnp.zeros(2))
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], jax.Array)


def test_a_numpy_scalar_does_not_decide() -> None:
    class Mixed(Holder):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return np.float32(1), {"x": jnp.zeros(2)}

    env = Mixed()
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], jax.Array)


def test_a_wrong_assumption_is_told_with_the_option_to_pass() -> None:
    env = Holder(observation=jnp.zeros(2))
    env.observation = None
    wrapped = arrayferry.wrap(env, "numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped.step(np.ones(2, np.float32))
    assert type(env.given[-1]) is np.ndarray
    env.observation = jnp.zeros(2)
    with pytest.warns(FrameworkWarning, match='env_xp="jax"'):
        wrapped.step(np.ones(2, np.float32))
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], jax.Array)


def test_nothing_is_said_where_nothing_went_in() -> None:
    env = Holder(observation=jnp.zeros(2))
    wrapped = arrayferry.wrap(env, "numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped.reset()
        wrapped.step(np.ones(2, np.float32))


def test_nothing_is_reset_or_stepped_to_find_out() -> None:
    class Counting(Holder):
        calls = 0

        def __getattribute__(self, name: str) -> Any:
            if name in ("reset", "step"):
                type(self).calls += 1
            return super().__getattribute__(name)

    boundary = arrayferry.wrap(Counting(torch.zeros(2)), "numpy")._boundary
    with pytest.warns(FrameworkWarning):
        boundary.convert_action(np.ones(2, np.float32))
    boundary.convert_options({"x": np.ones(2)})
    assert Counting.calls == 0


def test_an_environment_that_holds_itself_can_be_asked() -> None:
    env = Holder()
    env.held = [env, {"again": [env]}]
    env.held.append(env.held)
    arrayferry.wrap(env, "torch").step(torch.ones(2))
    assert type(env.given[0]) is np.ndarray


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_that_was_made_before_the_first_call_asks_as_well(twin: Any) -> None:
    wrapped = twin(arrayferry.wrap(Holder(torch.zeros(2), torch.zeros(2)), "numpy"))
    with pytest.warns(FrameworkWarning, match='env_xp="torch"'):
        wrapped.step(np.ones(2, np.float32))
    assert isinstance(wrapped.unwrapped.given[0], torch.Tensor)


# ---- what an environment holds is only a hint


class Tabular(gym.Env[Any, Any]):
    """A NumPy environment without arrays, whose actions are keys, and which holds a tensor."""

    observation_space, action_space = spaces.Discrete(3), spaces.Discrete(3)

    def __init__(self, held: Any) -> None:
        self.reward_model, self.moves = held, {0: 1, 1: 2, 2: 0}
        self.options: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.options = options
        return 0, {}

    def step(self, action: Any) -> Any:
        return self.moves[action], 1.0, False, False, {}


@pytest.mark.parametrize(
    "held", [torch.zeros(2), jnp.zeros(2), [torch.zeros(2)] * 9], ids=["torch", "jax", "list"]
)
def test_a_numpy_environment_that_holds_a_tensor_and_returns_numbers_gets_numpy(held: Any) -> None:
    env = arrayferry.wrap(gym.wrappers.TimeLimit(Tabular(held), 50), "torch")
    env.reset(seed=1)
    for _ in range(4):
        assert env.step(torch.tensor(1))[0] == 2
    env.reset(options={"start": torch.zeros(2)})
    assert type(env.unwrapped.options["start"]) is np.ndarray


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_that_was_made_after_the_reset_gets_numpy_too(twin: Any) -> None:
    env = arrayferry.wrap(Tabular(torch.zeros(2)), "torch")
    env.reset(seed=1)
    assert twin(env).step(torch.tensor(1))[0] == 2


def test_a_numpy_environment_that_holds_a_tensor_is_believed_when_it_returns_arrays() -> None:
    env = Holder(held=[torch.zeros(2)] * 9)
    wrapped = arrayferry.wrap(env, "torch")
    wrapped.reset()
    wrapped.step(torch.ones(2))
    assert type(env.given[-1]) is np.ndarray
    # Before the first reset it is asked, and said: then what it returns decides.
    env = Holder(held=[torch.zeros(2)] * 9)
    wrapped = arrayferry.wrap(env, "torch")
    with pytest.warns(FrameworkWarning) as caught:
        wrapped.reset(options={"start": torch.ones(2)})
    assert ['env_xp="torch"' in str(caught[0].message), 'env_xp="numpy"' in str(caught[1].message)] == [
        True
    ] * 2
    wrapped.step(torch.ones(2))
    assert type(env.given[-1]) is np.ndarray


@pytest.mark.parametrize("make", [torch.zeros, jnp.zeros], ids=["torch", "jax"])
def test_an_environment_of_another_framework_that_is_reset_first_gets_its_arrays_without_a_warning(
    make: Any,
) -> None:
    env = Holder(held=make(2), observation=make(2))
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset(seed=1, options={"level": 3, "names": ["a"]})
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], type(make(2)))


def test_env_xp_settles_it_without_a_warning() -> None:
    for name, kind in (("numpy", np.ndarray), ("torch", torch.Tensor)):
        env = Holder(held=torch.zeros(2))
        arrayferry.wrap(env, "jax", env_xp=name).step(jnp.ones(2))
        assert isinstance(env.given[0], kind)


def test_a_vector_environment_that_holds_tensors_is_asked_in_the_same_way() -> None:
    class Vector(gym.vector.VectorEnv[Any, Any, Any]):
        num_envs = 2
        single_observation_space = single_action_space = spaces.Discrete(3)
        observation_space = action_space = spaces.MultiDiscrete([3, 3])

        def __init__(self, xp: Any) -> None:
            self.model, self.xp, self.given = torch.zeros(2), xp, None

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return self.xp.zeros(2), {}

        def step(self, actions: Any) -> Any:
            self.given = actions
            zeros = self.xp.zeros(2)
            return zeros, zeros, zeros > 0, zeros > 0, {}

    for xp, kind in ((np, np.ndarray), (torch, torch.Tensor)):
        envs = arrayferry.wrap(env := Vector(xp), "jax")
        envs.reset()
        envs.step(jnp.zeros(2, int))
        assert type(env.given) is kind
    with pytest.warns(FrameworkWarning, match='env_xp="torch"'):
        arrayferry.wrap(Vector(torch), "jax").step(jnp.zeros(2, int))


def test_agents_of_an_environment_that_holds_a_tensor() -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents, aec

    for make in (ThreeAgents, aec):
        base = make()
        base.unwrapped.model = torch.zeros(2)
        env = arrayferry.wrap(base, "torch")
        env.reset(seed=1)
        if make is ThreeAgents:
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        else:
            env.last()
            env.step(env.action_space(env.agent_selection).sample())


def test_an_attribute_called_boundary_need_not_be_ours() -> None:
    env = Holder()
    env._boundary = np.zeros((2, 2))  # type: ignore[attr-defined]
    arrayferry.wrap(env, "torch").step(torch.ones(2))
    assert type(env.given[0]) is np.ndarray


# ---- the action space of now


class Shrinking(Holder):
    """Has another action space in each episode."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.action_space = spaces.Discrete(3)
        return super().reset(seed=seed, options=options)


def test_an_action_space_that_a_reset_replaces_is_used() -> None:
    env = Shrinking()
    wrapped = arrayferry.wrap(gym.wrappers.TimeLimit(env, 9), "torch")
    wrapped.reset()
    wrapped.step(torch.tensor(2))
    assert type(env.given[-1]) is np.int64


def test_an_action_space_that_a_step_replaces_is_used() -> None:
    env = Holder()
    wrapped = arrayferry.wrap(env, "torch")
    wrapped.reset()
    wrapped.step(torch.ones(2, dtype=torch.float64))
    assert env.given[-1].dtype == np.float32
    env.action_space = spaces.Box(-1, 1, (2,), np.float64)
    wrapped.step(torch.ones(2, dtype=torch.float64))
    assert env.given[-1].dtype == np.float64


def test_an_action_space_that_is_made_anew_whenever_it_is_asked_for() -> None:
    class Anew(Holder):
        count = 3
        action_space = property(lambda self: spaces.Discrete(self.count))  # type: ignore[assignment]

    env = Anew()
    wrapped = arrayferry.wrap(env, "torch")
    wrapped.reset()
    wrapped.step(torch.tensor(1))
    known = wrapped._boundary.state.action_space
    wrapped.step(torch.tensor(2))
    assert type(env.given[-1]) is np.int64
    assert wrapped._boundary.state.action_space is known  # an equal one is the same
    env.count = 5
    wrapped.step(torch.tensor(4))
    assert (type(env.given[-1]), wrapped._boundary.state.action_space.n) == (np.int64, 5)


def test_the_action_space_of_a_wrapper_that_computes_it() -> None:
    class Computing(gym.Wrapper[Any, Any, Any, Any]):
        dtype = np.float32
        action_space = property(lambda self: spaces.Box(-1, 1, (2,), self.dtype))  # type: ignore[assignment]

    env = Holder()
    wrapped = arrayferry.wrap(gym.wrappers.TimeLimit(computing := Computing(env), 99), "torch")
    wrapped.reset()
    for dtype in (np.float32, np.float64, np.float16):
        computing.dtype = dtype
        wrapped.step(torch.ones(2))
        assert env.given[-1].dtype == dtype


def test_the_first_step_of_an_environment_that_holds_much_takes_few_looks() -> None:
    from arrayferry._boundary import detect as _detect

    env = Holder({(i, i): 0.0 for i in range(200_000)})
    env.table = [np.zeros(1)] * 200_000
    assert len(list(_detect.arrays_in(vars(env)))) <= 1000
    arrayferry.wrap(env, "torch").step(torch.ones(2))


@pytest.mark.parametrize("attribute", ["maze", 5, {}, [1], np.zeros(2)], ids=str)
def test_an_attribute_called_env_need_not_be_one(attribute: Any) -> None:
    env = Holder()
    env.env = attribute
    arrayferry.wrap(env, "torch").step(torch.ones(2))
    assert type(env.given[0]) is np.ndarray


@pytest.mark.parametrize("options", [{"dtypes": "space"}, {"reward_dtype": "float32"}])
def test_what_an_option_casts_does_not_tell_the_framework(options: Any) -> None:
    env = Holder(observation=torch.zeros(2, dtype=torch.float64))
    wrapped = arrayferry.wrap(env, "numpy", **options)
    wrapped.reset()
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], torch.Tensor)


# ---- learning ends


def test_an_environment_without_arrays_costs_no_question_in_each_step(monkeypatch: Any) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(base, "known_framework", lambda env: asked.append(env))
    wrapped = arrayferry.wrap(gym.make("FrozenLake-v1"), "torch")
    wrapped.reset(seed=1)
    for _ in range(20):
        _, _, terminated, truncated, _ = wrapped.step(torch.tensor(0))
        if terminated or truncated:
            wrapped.reset()
    assert len(asked) == 1


# ---- the framework is learned before anything is converted


class Point(NamedTuple):
    place: Any


class Pair:
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


CONTAINERS = {
    "Point": Point,
    "State": State,
    "deep": lambda array: {"x": [(array,)]},
    "UserDict": UserDict,
}


@pytest.mark.parametrize("wrap_in", CONTAINERS.values(), ids=CONTAINERS)
def test_an_array_is_found_in_every_container_that_a_conversion_opens(wrap_in: Any) -> None:
    env = Holder()
    env.observation = wrap_in({"x": torch.zeros(2)} if wrap_in is UserDict else torch.zeros(2))
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], torch.Tensor)


def test_an_array_is_found_in_a_registered_container() -> None:
    arrayferry.register_container(
        Pair, values=lambda pair: (pair.left, pair.right), build=lambda _, new: Pair(*new), replace=True
    )
    env = Holder(observation=Pair("text", torch.zeros(2)))
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], torch.Tensor)


def test_the_first_array_in_the_order_of_the_walk_decides() -> None:
    class Both(Holder):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return {"a": {"b": [torch.zeros(2)]}}, {"x": np.zeros(2)}

    env = Both()
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], torch.Tensor)


def test_the_state_stays_the_same_during_a_walk() -> None:
    class Asking:
        """Asks, when it is converted, what the boundary knows."""

    env = Holder(observation={"a": torch.zeros(2), "b": Asking(), "c": torch.zeros(2)})
    boundary = arrayferry.wrap(env, "numpy")._boundary
    before, seen = boundary.state, list[Any]()
    arrayferry.register_leaf(Asking, lambda value, converter: seen.append(boundary.state))
    boundary.convert_reset([env.reset()])
    assert seen == [before]
    assert boundary.state.to_env.framework.name == "torch"


def test_what_is_learned_replaces_the_state_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Holder(observation=torch.zeros(2))
    boundary = arrayferry.wrap(env, "numpy")._boundary
    before = boundary.state
    boundary.convert_reset([env.reset()])
    assert (before.is_known, before.to_env.framework.name) == (False, "numpy")
    assert (boundary.state.is_known, boundary.state.to_env.framework.name) == (True, "torch")
    known = boundary.state
    asked: list[Any] = []
    monkeypatch.setattr(detect, "_is_array", lambda framework, array: asked.append(array))
    before.convert_step([env.step(torch.zeros(2))])
    assert asked
    asked.clear()
    boundary.convert_step([env.step(torch.zeros(2))])
    assert boundary.state is known
    assert not asked  # nothing is asked any more


def test_looking_does_not_keep_what_the_environment_gives_away() -> None:
    torch_env = arrayferry.wrap(Holder(), "torch")
    address: list[int] = []

    def new() -> Any:
        array = np.zeros(4096, np.float32)  # more bytes than those that are copied for torch
        address.append(array.ctypes.data)
        return array

    obs, _ = torch_env._boundary.convert_reset([(new(), {})])
    assert obs.data_ptr() == address[0]


def test_a_reward_teaches_what_numbers_did_not() -> None:
    class Rewarding(Holder):
        def step(self, action: Any) -> Any:
            super().step(action)
            return 1, torch.tensor(2.0), False, False, {}

    env = Rewarding(observation=1)
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    with pytest.warns(arrayferry.errors.FrameworkWarning, match="returns torch arrays"):
        _, reward, *_ = wrapped.step(np.ones(2, np.float32))
    assert reward == 2.0
    wrapped.step(np.ones(2, np.float32))
    assert isinstance(env.given[-1], torch.Tensor)


def test_an_array_teaches_even_if_its_neighbour_is_refused() -> None:
    env = Holder(observation={"a": torch.zeros(2), "b": torch.zeros(2, device="meta")})
    wrapped = arrayferry.wrap(env, "numpy")
    with pytest.raises(arrayferry.FerryError, match="meta"):
        wrapped.reset()
    assert wrapped._boundary.state.to_env.framework.name == "torch"
