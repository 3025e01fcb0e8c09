"""PettingZoo's environments: dicts by agent, agents that come and go, and spaces of their own."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict, UserDict, defaultdict
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.errors import FrameworkWarning, KeptWarning, NarrowingError, SharingError, UnsupportedError
from helpers.compare import assert_array, assert_crossed

pytest.importorskip("pettingzoo")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's own modules use its older ones
    from pettingzoo.test import api_test, parallel_api_test
    from pettingzoo.test.example_envs import (
        generated_agents_env_action_mask_info_v0,
        generated_agents_env_action_mask_obs_v0,
        generated_agents_env_v0,
        generated_agents_parallel_v0,
    )
from pettingzoo.utils.conversions import aec_to_parallel, parallel_to_aec
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper, OrderEnforcingWrapper

from arrayferry.wrappers.pettingzoo import AECArrayConversion, ParallelArrayConversion
from helpers.pettingzoo_envs import AGENTS, ThreeAgents, Told, aec

DONE: Any = ({}, {}, {}, {}, {})


def actions_for(agents: Any, target: str) -> dict[str, Any]:
    """An action for each agent, in the target framework."""
    made = {"walker_0": np.array(1), "walker_1": np.array(2), "turner_0": np.array([0.5, -0.5], np.float32)}
    return {agent: arrayferry.convert(made[agent], target) for agent in agents}


# ---- parallel -------------------------------------------------------------------------------------------


def test_wrap_chooses_the_wrapper(target: str) -> None:
    assert type(arrayferry.wrap(ThreeAgents(), target)) is ParallelArrayConversion
    assert type(arrayferry.wrap(aec(), target)) is AECArrayConversion
    assert isinstance(arrayferry.wrap(ThreeAgents(), target), BaseParallelWrapper)
    assert isinstance(arrayferry.wrap(aec(), target), BaseWrapper)


def test_everything_crosses_by_agent(target: str) -> None:
    bare, env = ThreeAgents(), arrayferry.wrap(ThreeAgents(), target)
    for got, wanted in zip(env.reset(seed=1), bare.reset(seed=1)):
        assert_crossed(got, wanted, target)
    for _ in range(4):
        actions = actions_for(bare.agents, target)
        obs, reward, terminated, truncated, info = env.step(actions)
        wanted = bare.step(actions)
        assert_crossed((obs, info), (wanted[0], wanted[4]), target)
        assert (reward, terminated, truncated) == tuple(wanted[1:4])
        assert type(reward) is defaultdict
        assert reward.default_factory is int
        assert {type(one) for one in reward.values()} == {float}
        assert {type(one) for one in [*terminated.values(), *truncated.values()]} == {bool}
        assert env.agents == bare.agents
    assert env.agents == ["walker_0", "turner_0"]


def test_actions_arrive_as_members_of_their_agent_s_space(target: str) -> None:
    base = ThreeAgents()
    env = arrayferry.wrap(base, target)
    env.reset()
    env.step(actions_for(AGENTS, target))
    (arrived,) = base.actions
    assert type(arrived["walker_0"]) is type(arrived["walker_1"]) is np.int64
    assert all(arrived[agent] in base.action_space(agent) for agent in AGENTS)


@pytest.mark.parametrize("framework", ["jax.numpy", "torch"])
@pytest.mark.parametrize("many", [ThreeAgents, aec], ids=["parallel", "aec"])
def test_the_framework_is_learned(framework: str, many: Any, target: str) -> None:
    xp = pytest.importorskip(framework)
    env = arrayferry.wrap(many(xp=framework), target)
    base: Any = env.unwrapped
    env.reset(options=None)
    if many is ThreeAgents:
        env.step(actions_for(AGENTS, target))
    else:
        for agent in AGENTS:
            env.last()
            env.step(actions_for([agent], target)[agent])
    assert {type(one) for one in base.actions[0].values()} == {type(xp.zeros(1))}


def test_a_wrong_assumption_warns_and_is_repaired() -> None:
    jnp = pytest.importorskip("jax.numpy")
    base = Told(*DONE)
    env = arrayferry.wrap(base, "numpy")
    env.step({"a": 1})  # nothing has told yet
    base.result = ({"a": jnp.zeros(2)}, {}, {}, {}, {})
    with pytest.warns(FrameworkWarning, match='env_xp="jax"'):
        env.step({"a": 1})
    env.step({"a": 1})
    assert [type(arrived["a"]) is np.int64 for arrived in base.actions] == [True, True, False]
    assert isinstance(base.actions[2]["a"], jnp.ndarray)


def test_an_inner_wrapper_tells(target: str) -> None:
    pytest.importorskip("torch")
    for inner in (arrayferry.wrap(ThreeAgents(), "torch"), aec_to_parallel(arrayferry.wrap(aec(), "torch"))):
        env = arrayferry.wrap(inner, target)
        env.reset()
        obs, *_ = env.step(actions_for(AGENTS, target))
        assert_array(obs["walker_0"]["observation"], np.array([10] * 4, np.uint8), target)


def test_options_go_to_the_environment_s_framework() -> None:
    torch = pytest.importorskip("torch")
    for base, env in [
        (one := ThreeAgents(), arrayferry.wrap(one, "torch")),
        (two := ThreeAgents(), arrayferry.wrap(parallel_to_aec(two), "torch")),
    ]:
        env.reset(seed=3, options={"start": torch.arange(2), "level": 7})
        assert isinstance(base.options["start"], np.ndarray)
        assert base.options["level"] == 7
    env.reset(3, {"level": 8})  # as PettingZoo's own take them
    assert base.options == {"level": 8}


@pytest.mark.parametrize("many", [ThreeAgents, aec], ids=["parallel", "aec"])
def test_state_render_and_forwarding(many: Any, target: str) -> None:
    base = many()
    env = arrayferry.wrap(base, target)
    env.reset()
    assert_array(env.state(), np.zeros(3, np.float32), target)
    assert type(env.render()) is np.ndarray
    assert env.unwrapped is base.unwrapped
    assert env.possible_agents == AGENTS
    assert env.max_num_agents == env.num_agents == 3
    assert env.metadata["name"] == "zoo_v0"
    assert env.observation_space("walker_0") is base.observation_space("walker_0")
    assert env.state_space is base.state_space
    with pytest.raises(AttributeError, match="_secret"):
        _ = env._secret
    with pytest.raises(AttributeError, match="nothing"):
        _ = env.nothing
    env.close()


def test_frames_are_numpy_whatever_the_environment_speaks() -> None:
    pytest.importorskip("torch")
    env = arrayferry.wrap(ThreeAgents(xp="torch"), "torch")
    env.reset()
    assert type(env.render()) is np.ndarray


def test_spaces_by_agent_and_their_dicts() -> None:
    base = ThreeAgents()
    assert arrayferry.wrap(base, "numpy").action_spaces is base.action_spaces
    env = arrayferry.wrap(base, "numpy", spaces="target")
    assert env.action_spaces.keys() == env.observation_spaces.keys() == set(AGENTS)
    assert env.action_spaces["walker_0"] is env.action_space("walker_0")
    assert env.observation_space("turner_0") is env.observation_space("turner_0")
    assert env.observation_space("turner_0") is not base.observation_space("turner_0")
    assert not hasattr(arrayferry.wrap(Told(0), "numpy"), "action_spaces")
    assert not hasattr(arrayferry.wrap(Told(0), "numpy", spaces="target"), "state_space")


def test_target_spaces_take_masks_of_the_target(target: str, array_type: type) -> None:
    env = arrayferry.wrap(ThreeAgents(), target, spaces="target")
    obs, infos = env.reset()
    space = env.action_space("walker_0")
    for mask, member in ((obs["walker_0"]["action_mask"], 0), (infos["walker_0"]["mask"], None)):
        sample = space.sample(mask)
        assert isinstance(sample, array_type)
        assert member is None or int(sample) == member
        assert sample in space
    assert env.state() in env.state_space
    assert obs["walker_0"] in env.observation_space("walker_0")


def test_dtypes() -> None:
    result: Any = (
        {"a": np.array([1.0, 2.0]), "common": np.array([1.0])},
        {"a": 1},
        {"a": False},
        {"a": False},
        {},
    )
    env = arrayferry.wrap(Told(*result), "numpy", dtypes="space")
    obs, *_ = env.step({"a": 1})
    assert (obs["a"].dtype, obs["common"].dtype) == (np.float32, np.float64)
    env = arrayferry.wrap(Told(*result), "numpy", dtypes={"float64": "float16"})
    assert env.step({"a": 1})[0]["common"].dtype == np.float16
    bad = ({"a": np.array([1e300, 0])}, *result[1:])
    with pytest.raises(NarrowingError, match=r'obs\["a"\]'):
        arrayferry.wrap(Told(*bad), "numpy", dtypes="space").step({"a": 1})
    with pytest.raises(SharingError, match=r'obs\["a"\]'):
        arrayferry.wrap(Told(*result), "numpy", dtypes="space", copy=False).step({"a": 1})
    assert env.reset()[0]["b"].dtype == np.float16 or env.reset()[0]["b"].dtype == np.float32


def test_dtypes_by_space_of_agents_that_take_turns() -> None:
    base = aec()
    env = arrayferry.wrap(base, "numpy", dtypes="space")
    base.unwrapped.observation_spaces["walker_0"] = spaces.Dict(
        observation=spaces.Box(0, 255, (4,), np.float32), action_mask=spaces.MultiBinary(3)
    )
    env.reset()
    assert env.observe("walker_0")["observation"].dtype == np.float32
    assert env.last()[0]["observation"].dtype == np.float32
    assert env.last(observe=False)[0] is None


def test_rewards_are_cast_on_demand() -> None:
    third = 1 / 3
    env = arrayferry.wrap(Told({}, {"a": third}, {}, {}, {}), "numpy", reward_dtype="float32")
    assert env.step({})[1] == {"a": float(np.float32(third))}
    with pytest.raises(NarrowingError, match=r'reward\["a"\]'):
        arrayferry.wrap(Told({}, {"a": 1e300}, {}, {}, {}), "numpy", reward_dtype="float32").step({})


def test_rewards_of_agents_that_take_turns_are_cast_too() -> None:
    base = aec()
    env = arrayferry.wrap(base, "numpy", reward_dtype="float32")
    env.reset()
    base.rewards = base._cumulative_rewards = {"walker_0": 1 / 3}
    wanted = float(np.float32(1 / 3))
    assert env.rewards == env._cumulative_rewards == {"walker_0": wanted}
    assert env.last()[1] == wanted


# ---- whatever environments and agents do ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, lambda d: defaultdict(float, d)])
def test_mappings_come_back_as_themselves(kind: Any) -> None:
    made = kind({"a": np.float32(2), "b": 3}), kind({"a": np.bool_(True), "b": False})
    env = arrayferry.wrap(Told({}, made[0], made[1], made[1], {}), "numpy")
    _, reward, terminated, truncated, _ = env.step({})
    assert type(reward) is type(made[0])
    assert dict(reward) == {"a": 2.0, "b": 3.0}
    assert dict(terminated) == dict(truncated) == {"a": True, "b": False}
    assert {type(one) for one in reward.values()} == {float}
    assert {type(one) for one in terminated.values()} == {bool}
    assert reward is not made[0]


def test_results_that_are_not_whole(target: str) -> None:
    """Observations of the dead, infos of nobody, many rewards: all cross as they are."""
    result = (
        {"a": np.ones(2), "ghost": None},
        {"a": np.arange(2.0)},
        {"b": True},
        {},
        {"common": np.ones(1)},
    )
    obs, reward, terminated, truncated, info = arrayferry.wrap(Told(*result), target).step({"a": 1})
    assert_crossed(obs, result[0], target)
    assert_array(reward["a"], np.arange(2.0), target)
    assert (terminated, truncated) == ({"b": True}, {})
    assert_crossed(info, result[4], target)


@pytest.mark.parametrize("done", [np.array([True, False]), {True}, np.zeros(0)], ids=str)
def test_a_done_that_is_no_single_bool_is_an_error(done: Any) -> None:
    with pytest.raises(UnsupportedError, match=r'terminated\["a"\] is .*, not a single bool'):
        arrayferry.wrap(Told({}, {}, {"a": done}, {}, {}), "numpy").step({})


@pytest.mark.parametrize("result", [None, ({}, {}, {}, {}), 3], ids=str)
def test_a_step_that_does_not_return_five_things(result: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"step\(\)"):
        arrayferry.wrap(Told(result), "numpy").step({})


def test_results_are_the_agent_s_own() -> None:
    memory, flags = np.zeros(2, np.float32), {"a": False}
    rewards = {"a": 1.0}
    env = arrayferry.wrap(Told({"a": memory}, rewards, flags, flags, {"a": {"x": memory}}), "numpy")
    obs, reward, terminated, _, info = env.step({})
    memory[:], flags["a"], rewards["a"] = 9, True, 9.0
    assert not obs["a"].any()
    assert not info["a"]["x"].any()
    assert (reward, terminated) == ({"a": 1.0}, {"a": False})


def test_none_and_strangers_go_through(target: str) -> None:
    base = Told(*DONE)
    env = arrayferry.wrap(base, target)
    env.step({"a": None, "stranger": arrayferry.convert(np.array([1, 2]), target)})
    env.step({"b": 1})
    env.step(None)
    env.step({})
    first, second, *rest = base.actions
    assert first["a"] is None
    assert isinstance(first["stranger"], np.ndarray)
    assert type(second["b"]) is np.int64
    assert rest == [None, {}]


def test_actions_may_require_gradients() -> None:
    torch = pytest.importorskip("torch")
    base = ThreeAgents()
    env = arrayferry.wrap(base, "torch")
    env.reset()
    actions = actions_for(AGENTS, "torch")
    actions["turner_0"] = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True) / 4
    env.step(actions)
    assert_array(base.actions[0]["turner_0"], np.array([0.5, 0.75], np.float32), "numpy")
    env.step(MappingProxyType(actions))
    assert type(base.actions[1]) is dict


def test_agents_of_any_name() -> None:
    for name in (0, ("team", 1), 2.5, frozenset("ab")):
        result = ({name: np.ones(2)}, {name: 1}, {name: np.bool_(True)}, {name: False}, {name: {}})
        base = Told(*result, agents=[name])
        env = arrayferry.wrap(base, "numpy")
        env.reset()
        assert env.step({name: 2})[1:3] == ({name: 1.0}, {name: True})
        assert type(base.actions[0][name]) is np.int64


def test_agents_that_are_gone_are_forgotten() -> None:
    base = Told(*DONE)
    env = arrayferry.wrap(base, "numpy")
    env.reset()
    env.step({"a": 1, "b": 1})
    base.agents = ["b"]
    env.reset()
    assert list(env._boundary.state.agents) == ["b"]


def test_the_action_space_is_the_one_that_the_agent_has_now() -> None:
    base = Told(*DONE)
    env = arrayferry.wrap(base, "numpy", spaces="target")
    env.step({"a": 1})
    before = env.action_space("a")
    base._spaces["a"] = base._spaces["a"][0], spaces.Box(-1, 1, (2,), np.float32)
    env.step({"a": np.zeros(2)})
    assert base.actions[1]["a"].dtype == np.float32
    assert isinstance(env.action_space("a"), spaces.Box)
    assert env.action_space("a") is not before


def notes_of(call: Any) -> str:
    with pytest.raises(KeyError) as caught:
        call()
    return "\n".join(getattr(caught.value, "__notes__", map(str, caught.value.args)))


def test_an_error_says_what_arrived_and_whose_action_did_not() -> None:
    env = arrayferry.wrap(Told(KeyError("b")), "numpy")
    notes = notes_of(lambda: env.step({"a": np.zeros(2), "c": 1}))
    assert 'action["a"]: float64[2] numpy arrived; Discrete(4) takes int64[]' in notes
    assert "action: none arrived for 'b'" in notes
    assert "action: no such agent now: 'c'" in notes
    env = arrayferry.wrap(Told(KeyError("b")), "numpy")
    assert "action" not in notes_of(lambda: env.step({"a": 1, "b": 1}))
    base = aec()
    taking_turns = arrayferry.wrap(base, "numpy")
    taking_turns.reset()
    base.step = Told(KeyError("b")).step
    assert 'action["walker_0"]: float64[2]' in notes_of(lambda: taking_turns.step(np.zeros(2)))


def test_an_action_that_cannot_cross_is_named() -> None:
    torch = pytest.importorskip("torch")
    env = arrayferry.wrap(Told(*DONE), "torch")
    with pytest.raises(UnsupportedError, match=r'action\["b"\]'):
        env.step({"a": 1, "b": torch.eye(2).to_sparse()})


def test_kept_leaves_are_told_by_agent() -> None:
    pytest.importorskip("torch")
    env = arrayferry.wrap(Told({"a": np.array(["text"])}, {}, {}, {}, {}), "torch")
    with pytest.warns(KeptWarning, match=r'obs\["a"\]'):
        env.step({})


# ---- agents that take turns -------------------------------------------------------------------------------


def test_turns(target: str) -> None:
    bare, env = aec(), arrayferry.wrap(aec(), target)
    bare.reset(seed=1)
    env.reset(seed=1)
    turns = 0
    for agent in env.agent_iter():
        assert agent == bare.agent_selection
        got, wanted = env.last(), bare.last()
        assert_crossed((got[0], got[4]), (wanted[0], wanted[4]), target)
        assert got[1:4] == wanted[1:4]
        assert [type(one) for one in got[1:4]] == [float, bool, bool]
        assert_crossed(env.observe(agent), bare.observe(agent), target)
        assert env.last(observe=False)[0] is None
        assert env.infos[agent] is env.infos[agent] is env.last()[4]
        assert env.infos.keys() == bare.infos.keys()
        for name in ("rewards", "terminations", "truncations", "_cumulative_rewards"):
            assert getattr(env, name) == getattr(bare, name)
        assert {type(one) for one in env.rewards.values()} <= {float}
        assert {type(one) for one in env.terminations.values()} <= {bool}
        is_done = got[2] or got[3]
        env.step(None if is_done else actions_for([agent], target)[agent])
        bare.step(None if is_done else actions_for([agent], "numpy")[agent])
        turns += 1
    assert turns > 10
    assert env.agents == []


def test_before_a_reset_the_environment_says_what_is_wrong() -> None:
    env = arrayferry.wrap(generated_agents_env_v0.env(), "numpy")
    bare = generated_agents_env_v0.env()
    for name in ("rewards", "infos", "agent_selection"):
        with pytest.raises(AttributeError, match="before reset"):
            getattr(env, name)
    for call in (lambda env: env.step(0), lambda env: env.observe("agent_0"), lambda env: env.last()):
        with pytest.raises(Exception) as ours:  # noqa: PT011
            call(env)
        with pytest.raises(Exception) as theirs:  # noqa: PT011
            call(bare)
        assert type(ours.value) is type(theirs.value)
        assert str(ours.value) == str(theirs.value)


def test_other_wrappers_fit_around_it() -> None:
    torch = pytest.importorskip("torch")
    env = OrderEnforcingWrapper(arrayferry.wrap(aec(), "torch"))
    env.reset()
    for agent in env.agent_iter(3):
        obs, *_ = env.last()
        assert isinstance(obs["observation"], torch.Tensor)
        env.step(actions_for([agent], "torch")[agent])
    parallel = aec_to_parallel(arrayferry.wrap(aec(), "torch"))
    parallel.reset()
    obs, reward, *_ = parallel.step(actions_for(AGENTS, "torch"))
    assert isinstance(obs["turner_0"]["observation"], torch.Tensor)
    assert reward["walker_0"] == 0.5


# ---- PettingZoo's own tests -------------------------------------------------------------------------------

PASSING = ["numpy", "torch", "jax"]
AEC = [
    generated_agents_env_v0,
    generated_agents_env_action_mask_info_v0,
    generated_agents_env_action_mask_obs_v0,
]


@pytest.mark.parametrize("name", PASSING)
@pytest.mark.parametrize("module", AEC, ids=lambda module: module.__name__.rpartition(".")[2])
def test_api_test(module: Any, name: str) -> None:
    pytest.importorskip(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # its advice about the environment
        api_test(arrayferry.wrap(module.env(), name, spaces="target"), num_cycles=50)
        if name == "numpy":
            api_test(arrayferry.wrap(module.env(), name), num_cycles=50)


@pytest.mark.parametrize("name", PASSING)
@pytest.mark.parametrize("where", ["env", "target"])
def test_parallel_api_test(where: Any, name: str) -> None:
    pytest.importorskip(name)
    masked = [ThreeAgents(), aec_to_parallel(aec())] if where == "target" or name == "numpy" else []
    for env in (generated_agents_parallel_v0.parallel_env(), *masked):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            parallel_api_test(arrayferry.wrap(env, name, spaces=where), num_cycles=50)


# ---- copies, refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("where", ["env", "target"])
def test_copies_are_whole(duplicate: Any, where: Any, target: str) -> None:
    for make in (ThreeAgents, aec):
        env = arrayferry.wrap(make(), target, spaces=where, dtypes="space")
        env.reset(seed=1)
        twin = duplicate(env)
        assert twin.unwrapped is not env.unwrapped
        assert twin._boundary._env.env is twin.env
        assert twin.action_space("walker_0") == env.action_space("walker_0")
        actions = actions_for(AGENTS, target)
        if make is ThreeAgents:
            assert_crossed(
                twin.step(actions)[0]["walker_0"]["observation"], np.array([10] * 4, np.uint8), target
            )
        else:
            twin.step(actions["walker_0"])
            assert (twin.agent_selection, env.agent_selection) == ("walker_1", "walker_0")
        assert_array(twin.state(), np.array([int(make is ThreeAgents)] * 3, np.float32), target)


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match=r"wraps parallel environments, and .* is not one\n.*AECArray"):
        ParallelArrayConversion(aec(), "numpy", "numpy")
    with pytest.raises(UnsupportedError, match=r"wraps AEC environments, and .* is not one\n.*ParallelArray"):
        AECArrayConversion(ThreeAgents(), "numpy", "numpy")
    for options in ({"scalars": "target"}, {"dense_final": True}, {"num_envs": 3}):
        with pytest.raises(UnsupportedError, match=next(iter(options))):
            arrayferry.wrap(ThreeAgents(), "numpy", **options)  # type: ignore[call-overload]


def test_a_kind_may_be_adapted_to_an_environment_with_many_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    from arrayferry.envs import adapters

    class Foreign:
        """Another package's."""

    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    adapter = adapters.EnvAdapter("parallel", lambda env, params, num_envs, mode: ThreeAgents())
    adapters.register_environment(Foreign, adapter)
    assert type(arrayferry.wrap(Foreign(), "numpy")) is ParallelArrayConversion


# ---- Gymnasium environments with dicts for rewards and dones ----------------------------------------------


class Team(gym.Env[Any, Any]):
    """As the multi-agent environments of RLlib are: a `gymnasium.Env`, with dicts by agent."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(-1, 1, (2,)))
        self.action_space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(3))
        self.actions: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return {"a": np.zeros(2, np.float32)}, {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        flags = {"a": False, "b": np.bool_(True), "__all__": False}
        return (
            {"a": np.ones(2, np.float32)},
            {"a": 1.0, "b": 0.5},
            flags,
            dict.fromkeys(flags, False),
            {"a": {}},
        )


def test_a_container_of_dones_stays_one(target: str) -> None:
    base = Team()
    env = arrayferry.wrap(base, target)
    env.reset()
    obs, reward, terminated, truncated, _ = env.step({"a": arrayferry.convert(np.array(1), target), "b": 2})
    assert_array(obs["a"], np.ones(2, np.float32), target)
    assert {agent: float(one) for agent, one in reward.items()} == {"a": 1.0, "b": 0.5}
    assert terminated["a"] is terminated["__all__"] is False
    assert bool(terminated["b"]) is True
    assert truncated == {"a": False, "b": False, "__all__": False}
    assert {type(one) for one in base.actions[0].values()} == {np.int64}
