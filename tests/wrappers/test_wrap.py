"""`wrap` looks at what it is given, and at what the environment returns, and chooses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry import wrappers
from arrayferry.envs import EnvAdapter, adapters, register_environment
from arrayferry.errors import FrameworkWarning
from helpers.compare import assert_array, assert_crossed, seen
from helpers.envs import Counter, Lettered, Recorder, Scripted


def test_a_single_environment_gets_the_single_wrapper(target: str) -> None:
    env = arrayferry.wrap(Counter(), target)
    assert type(env) is wrappers.ArrayConversion
    assert isinstance(env, gym.Wrapper)


def test_a_vector_environment_gets_the_vector_wrapper(target: str) -> None:
    envs = arrayferry.wrap(gym.vector.SyncVectorEnv([Counter, Counter]), target)
    assert type(envs) is wrappers.vector.ArrayConversion
    assert isinstance(envs, gym.vector.VectorWrapper)


def test_the_target_may_be_a_module() -> None:
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    for xp, kind in ((torch, torch.Tensor), (jnp, jnp.ndarray), (np, np.ndarray)):
        assert isinstance(arrayferry.wrap(Counter(), xp).reset()[0], kind)
        assert isinstance(wrappers.ArrayConversion(Counter(), env_xp=np, target_xp=xp).reset()[0], kind)


def test_the_target_may_be_the_environment_s_own_framework(target: str, array_type: type) -> None:
    xp = {"jax": "jax.numpy", "mlx": "mlx.core", "dask": "dask.array"}.get(target, target)
    first = arrayferry.wrap(Counter(), target)
    again = arrayferry.wrap(first, target)
    obs, _ = again.reset()
    assert_array(obs, np.zeros(3, np.float32), target)
    assert isinstance(again.step(arrayferry.convert(np.array(1), xp))[0], array_type)


def arrived(env: Recorder, target: str) -> Any:
    wrapped = arrayferry.wrap(env, target)
    wrapped.reset()
    wrapped.step(arrayferry.convert(np.ones(3, np.float32), target))
    return env.actions[0]


@pytest.mark.parametrize("framework", ["jax.numpy", "torch", "numpy"])
def test_the_framework_is_learned_from_the_first_observation(framework: str, target: str) -> None:
    xp = pytest.importorskip(framework)
    assert isinstance(arrived(Recorder(xp=xp), target), type(xp.zeros(1)))


def test_it_may_be_learned_from_a_step_and_from_an_info(target: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    env = Recorder()
    env.reset = lambda **kwargs: ("start", {"a": {"b": [jnp.zeros(2)]}})  # type: ignore[method-assign]
    assert isinstance(arrived(env, target), jnp.ndarray)


def test_it_is_learned_through_wrappers_and_nested_observations(target: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    env = Recorder(spaces.Discrete(3), xp=jnp)
    inner = gym.wrappers.TransformObservation(env, lambda obs: {"deep": (obs, "text")}, None)
    wrapped = arrayferry.wrap(gym.wrappers.TimeLimit(inner, 10), target)
    wrapped.reset()
    obs, *_ = wrapped.step(arrayferry.convert(np.array(2), target))
    assert_crossed(obs, {"deep": (np.zeros(3, np.float32), "text")}, target)
    assert isinstance(env.actions[0], jnp.ndarray)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1"])
def test_an_environment_of_python_numbers_gets_numpy_actions(name: str, target: str) -> None:
    taken: list[Any] = []
    env = gym.wrappers.TransformAction(gym.make(name), lambda action: taken.append(action) or action, None)
    wrapped = arrayferry.wrap(env, target)
    obs, _ = wrapped.reset(seed=1)
    wrapped.step(arrayferry.convert(np.array(1), target))
    assert [type(action) for action in taken] == [np.int64]
    bare = gym.make(name).reset(seed=1)[0]
    assert_crossed(obs, bare, target, "obs")


def test_a_told_framework_is_not_learned() -> None:
    """`ArrayConversion` is told: an environment that returns NumPy may still want JAX actions."""
    jnp = pytest.importorskip("jax.numpy")
    for make in (
        lambda env: wrappers.ArrayConversion(env, env_xp="jax", target_xp="numpy"),
        lambda env: arrayferry.wrap(env, "numpy", env_xp="jax"),
    ):
        env = Recorder()
        wrapped = make(env)
        wrapped.reset()
        wrapped.step(np.ones(3, np.float32))
        assert isinstance(env.actions[0], jnp.ndarray)


def test_actions_go_to_the_environment_s_device_also_when_its_framework_is_learned() -> None:
    strict = pytest.importorskip("array_api_strict")
    for options in ({"env_xp": strict, "env_device": "device1"}, {"env_device": "device1"}):
        env = Recorder(xp=strict)
        wrapped = arrayferry.wrap(env, "numpy", **options)
        wrapped.reset()
        wrapped.step(np.ones(3, np.float32))
        assert env.actions[0].device == strict.Device("device1")


@pytest.fixture(scope="module")
def functional() -> list[Any]:
    """The same JAX environment twice, made once: JAX compiles for each."""
    pytest.importorskip("flax")
    return [gym.make("phys2d/CartPole-v1", disable_env_checker=True) for _ in range(2)]


def test_the_functional_jax_environment(functional: list[Any], target: str) -> None:
    jax = pytest.importorskip("jax")
    bare, env = functional
    taken: list[Any] = []
    wrapped = arrayferry.wrap(
        gym.wrappers.TransformAction(env, lambda action: taken.append(action) or action, None), target
    )
    assert_crossed(wrapped.reset(seed=3)[0], bare.reset(seed=3)[0], target)
    got = wrapped.step(arrayferry.convert(np.array(1), target))
    want = bare.step(jax.numpy.asarray(1))
    assert_crossed(got[0], want[0], target)
    assert got[1:4] == want[1:4]
    assert isinstance(taken[0], jax.Array)
    assert taken[0].dtype == jax.numpy.int32


def test_numpy_to_jax_to_torch() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    taken: list[Any] = []
    bare, base = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    base = gym.wrappers.TransformAction(base, lambda action: taken.append(action) or action, None)
    middle = arrayferry.wrap(base, "jax")
    between: list[Any] = []
    spied = gym.wrappers.TransformAction(middle, lambda action: between.append(action) or action, None)
    env = arrayferry.wrap(spied, "torch")
    assert_array(env.reset(seed=7)[0], bare.reset(seed=7)[0], "torch")
    for action in (0, 1, 1, 0, 1):
        got, want = env.step(torch.tensor(action)), bare.step(action)
        assert_array(got[0], want[0], "torch")
        assert got[1:4] == want[1:4]
    assert all(isinstance(action, jax.Array) for action in between)
    assert all(type(action) is np.int64 for action in taken)


def test_attributes_of_the_environment_are_within_reach(target: str) -> None:
    env = arrayferry.wrap(Counter(length=7), target)
    assert env.unwrapped.length == 7
    assert env.get_wrapper_attr("length") == 7
    assert env.metadata["render_fps"] == 10
    assert env.render_mode is None
    env.set_wrapper_attr("length", 9)
    assert env.unwrapped.length == 9


def test_close_closes(target: str) -> None:
    env = Scripted()
    closed = []
    env.close = lambda: closed.append(True)  # type: ignore[method-assign]
    arrayferry.wrap(env, target).close()
    assert closed == [True]


def test_a_seed_makes_the_same_episode(target: str) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), target)
    first, second, other = (seen(env.reset(seed=seed)[0]) for seed in (1, 1, 2))
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != other.tobytes()


class InJax(gym.Env[Any, Any]):
    """Its observations are numbers; its rewards, or its observations, tell that it is JAX's."""

    action_space = observation_space = gym.spaces.Discrete(3)

    def __init__(self, obs: Any, reward: Any) -> None:
        self.obs, self.reward = obs, reward
        self.actions: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.obs, {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return self.obs, self.reward, False, False, {}


@pytest.mark.parametrize("shape", [(), (2,)])
def test_rewards_tell_whose_environment_it_is(shape: tuple[int, ...]) -> None:
    jnp = pytest.importorskip("jax.numpy")
    env = InJax(1, jnp.ones(shape))
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    with pytest.warns(FrameworkWarning, match='env_xp="jax"'):  # the reset returned no array
        wrapped.step(np.int64(1))
    wrapped.step(np.int64(1))
    assert isinstance(env.actions[1], type(jnp.ones(())))


def test_a_device_that_is_not_there_is_told_again() -> None:
    jnp = pytest.importorskip("jax.numpy")
    wrapped = arrayferry.wrap(InJax(jnp.ones(2), 1.0), "numpy", env_device="gpu:9")
    for _ in range(2):
        with pytest.raises(arrayferry.errors.DeviceError, match="gpu:9"):
            wrapped.reset()


def test_strings_do_not_say_whose_environment_it_is():
    jax = pytest.importorskip("jax")
    env = arrayferry.wrap(Lettered(), "numpy")
    env.reset()
    env.step(np.zeros(2, np.float32))
    assert isinstance(env.unwrapped.got, jax.Array)


def test_options_of_the_other_kind_are_named():
    with pytest.raises(TypeError, match="dense_final is not an option for a single environment"):
        arrayferry.wrap(gym.make("CartPole-v1"), "numpy", dense_final=True)
    with pytest.raises(TypeError, match="scalars is not an option for a vector environment"):
        arrayferry.wrap(gym.make_vec("CartPole-v1", num_envs=2), "numpy", scalars="target")


class Foreign:
    """An environment of a package that nobody knows."""


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))


@pytest.mark.parametrize("of", [Foreign, f"{Foreign.__module__.partition('.')[0]}:Foreign"])
def test_a_registered_environment_is_opened(of: str | type) -> None:
    opened = []

    def open_foreign(env: Any, params: Any, num_envs: Any, autoreset_mode: Any) -> Any:
        opened.append((type(env).__name__, params, num_envs, autoreset_mode))
        return gym.vector.SyncVectorEnv([Counter] * (num_envs or 1))

    register_environment(of, EnvAdapter("vector", open_foreign))

    class Derived(Foreign): ...

    assert arrayferry.wrap(Derived(), "numpy", num_envs=3).num_envs == 3
    assert arrayferry.wrap((Derived(), {"gravity": 9.8}), "numpy", autoreset_mode="Disabled").num_envs == 1
    assert opened == [
        ("Derived", None, 3, None),
        ("Derived", {"gravity": 9.8}, None, AutoresetMode.DISABLED),
    ]


def test_what_is_refused_says_what_to_do() -> None:
    register_environment(Foreign, EnvAdapter(None, hint="use its own make()"))
    with pytest.raises(arrayferry.FerryError, match=r"Foreign is not[\s\S]*use its own make"):
        arrayferry.wrap(Foreign(), "numpy")


def test_num_envs_is_for_environments_that_can_be_multiplied() -> None:
    with pytest.raises(arrayferry.FerryError, match="make_vec"):
        arrayferry.wrap(Counter(), "numpy", num_envs=4)


@pytest.mark.parametrize("options", [{"scalars": "python"}, {"dense_final": False}, {"num_envs": None}])
def test_an_option_with_its_default_value_is_never_refused(options: Any) -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents, aec

    for env in (gym.make("CartPole-v1"), gym.make_vec("CartPole-v1", 2), ThreeAgents(), aec()):
        arrayferry.wrap(env, "numpy", **options).reset(seed=1)


@pytest.mark.parametrize("value", ["target", True])
def test_an_option_for_another_kind_is_refused(value: Any) -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents

    for name in ("scalars",) if value == "target" else ("dense_final",):
        with pytest.raises(TypeError, match=f"{name} is not an option"):
            arrayferry.wrap(ThreeAgents(), "numpy", **{name: value})


def test_methods_take_their_arguments_by_the_names_of_gymnasium_and_pettingzoo() -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents, aec

    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy")
    env.reset(seed=1, options={})
    assert len(env.step(action=1)) == 5
    envs = arrayferry.wrap(gym.make_vec("CartPole-v1", 2), "numpy")
    envs.reset(seed=1, options={})
    assert len(envs.step(actions=np.array([0, 1]))) == 5
    envs.close(terminate=True)
    agents = arrayferry.wrap(ThreeAgents(), "numpy")
    agents.reset(1, {})
    actions = {agent: agents.action_space(agent).sample() for agent in agents.agents}
    assert len(agents.step(actions=actions)) == 5
    turns = arrayferry.wrap(aec(), "numpy")
    turns.reset(1, {})
    turns.last(observe=False)
    turns.observe(agent=turns.agent_selection)
    turns.step(action=turns.action_space(agent=turns.agent_selection).sample())


@pytest.mark.parametrize("name", ["action", "actions"])
def test_actions_are_sent_by_any_name(name: str) -> None:
    class Sends(gym.vector.SyncVectorEnv):
        pass

    def send(self: Any, action: Any, env_id: Any = None) -> None:
        self.sent = action, env_id

    def send_all(self: Any, actions: Any, env_id: Any = None) -> None:
        self.sent = actions, env_id

    Sends.send = send if name == "action" else send_all  # type: ignore[attr-defined]
    base = Sends([lambda: gym.make("Pendulum-v1")] * 2)
    envs: Any = arrayferry.wrap(base, "numpy")
    for args, kwargs in (((), {name: np.zeros((2, 1))}), ((np.zeros((2, 1)),), {})):
        envs.send(*args, **kwargs, env_id=[0, 1])
        assert base.sent[0].dtype == np.float32  # type: ignore[attr-defined]
        assert base.sent[1] == [0, 1]  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        envs.send()
