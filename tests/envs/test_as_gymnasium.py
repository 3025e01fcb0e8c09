"""`as_gymnasium` with a toy interface: every mode, keys, infos, copies, errors."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from functools import partial
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import arrayferry

jax = pytest.importorskip("jax")

from arrayferry.envs import JaxEnv, JaxVectorEnv, as_gymnasium  # noqa: E402
from arrayferry.errors import OptionError  # noqa: E402
from envs.line_walk import Walk, native  # noqa: E402

COUNT, STEPS = 3, 30
ACTIONS = np.random.default_rng(0).integers(2, size=(STEPS, COUNT))
SEEDS = [7, 8, 9]


def same(one: Any, two: Any) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.allclose(a, b, rtol=0, atol=1e-6) for a, b in leaves)


def row(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


@pytest.fixture(scope="module")
def expected() -> list[list[Any]]:
    return [native(seed, ACTIONS[:, i]) for i, seed in enumerate(SEEDS)]


def test_a_single_environment_follows_the_documented_keys(expected: Any) -> None:
    env = as_gymnasium(Walk())
    assert isinstance(env, JaxEnv)
    obs, info = env.reset(seed=7)
    assert same(obs, expected[0][0])
    assert sorted(info) == ["both", "nested", "reset"]
    for action, (want, reward, terminated, truncated, first) in zip(ACTIONS[:, 0], expected[0][1:]):
        obs, *got, info = env.step(action)
        assert same(obs, want)
        assert got == [pytest.approx(reward), terminated, truncated]
        assert [type(one) for one in got] == [float, bool, bool]
        assert sorted(info) == ["both", "nested", "step"]
        if first is not None:
            assert same(env.reset()[0], first)  # without a seed, the next episode of the same stream


def test_same_step(expected: Any) -> None:
    envs = as_gymnasium(Walk(), COUNT)
    assert isinstance(envs, JaxVectorEnv)
    obs, _ = envs.reset(seed=SEEDS[0])
    ends = 0
    for t, actions in enumerate(ACTIONS, 1):
        obs, reward, terminated, truncated, info = envs.step(actions)
        assert envs.observation_space.contains(jax.tree.map(np.asarray, obs))
        over = np.asarray(terminated | truncated)
        assert ("final_obs" in info) == over.any()
        for i in range(COUNT):
            want, number, is_terminated, is_truncated, first = expected[i][t]
            assert same(row(obs, i), want if first is None else first)
            assert (terminated[i], truncated[i]) == (is_terminated, is_truncated)
            assert reward[i] == pytest.approx(number)
            if over.any():
                assert info["_final_obs"][i] == info["_final_info"][i] == over[i]
                zeros = jax.tree.map(np.zeros_like, want)
                assert same(row(info["final_obs"], i), zeros if first is None else want)
            if first is not None:
                ends += 1
                assert info["final_info"]["both"][i] == pytest.approx(number)  # of the step
                assert info["both"][i] == pytest.approx(first["place"][0])  # of the reset
                assert (info["nested"]["began"][i], info["_step"][i], info["_reset"][i]) == (1, False, True)
            else:
                assert (info["nested"]["began"][i], info["_step"][i]) == (0, True)
        if not over.any():
            assert sorted(info) == ["_both", "_nested", "_step", "both", "nested", "step"]
    assert ends > 3 * COUNT / 2


def test_next_step(expected: Any) -> None:
    envs = as_gymnasium(Walk(), COUNT, autoreset_mode="NextStep")
    envs.reset(seed=SEEDS)
    first: list[Any] = [None] * COUNT
    at = [1] * COUNT
    for _ in range(STEPS):
        actions = [ACTIONS[min(at[i], STEPS) - 1, i] for i in range(COUNT)]
        obs, reward, terminated, truncated, info = envs.step(actions)
        for i in range(COUNT):
            if first[i] is not None:  # the action counts for nothing: this step is the reset
                assert same(row(obs, i), first[i])
                assert (reward[i], terminated[i], truncated[i]) == (0, False, False)
                assert (info["_reset"][i], info["_step"][i]) == (True, False)
                first[i] = None
                continue
            want, number, is_terminated, is_truncated, first[i] = expected[i][at[i]]
            assert same(row(obs, i), want)
            assert (terminated[i], truncated[i]) == (is_terminated, is_truncated)
            assert reward[i] == pytest.approx(number)
            at[i] += 1
        assert "final_obs" not in info


def test_without_autoreset(expected: Any) -> None:
    envs = as_gymnasium(Walk(), COUNT, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=SEEDS[0])
    for t, actions in enumerate(ACTIONS, 1):
        obs, _, terminated, truncated, _ = envs.step(actions)
        assert all(same(row(obs, i), expected[i][t][0]) for i in range(COUNT))
        over = np.asarray(terminated | truncated)
        if over.any():
            with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
                copy.deepcopy(envs).step(actions)
            before = jax.tree.map(np.array, obs)
            obs, info = envs.reset(options={"reset_mask": over})
            assert np.array_equal(info["_both"], over)
            for i in range(COUNT):
                assert same(row(obs, i), expected[i][t][4] if over[i] else row(before, i))


def test_row_i_is_the_single_environment_of_seed_plus_i() -> None:
    obs, _ = as_gymnasium(Walk(), COUNT).reset(seed=41)
    assert all(same(row(obs, i), as_gymnasium(Walk()).reset(seed=41 + i)[0]) for i in range(COUNT))


def test_seeds() -> None:
    envs = as_gymnasium(Walk(), COUNT)
    first = envs.reset(seed=1)[0]
    assert same(first, envs.reset(seed=[1, 2, 3])[0])
    envs.reset(seed=1)
    follows = envs.reset()[0]
    assert not same(first, follows)
    envs.reset(seed=1)
    mixed = envs.reset(seed=[None, 2, None])[0]
    assert same(row(mixed, 0), row(follows, 0))  # it goes on
    assert same(row(mixed, 1), row(first, 1))
    assert not same(as_gymnasium(Walk(), COUNT).reset()[0], as_gymnasium(Walk(), COUNT).reset()[0])
    assert same(as_gymnasium(Walk()).reset(seed=2**32 + 5)[0], as_gymnasium(Walk()).reset(seed=5)[0])
    with pytest.raises(arrayferry.FerryError, match="2 seeds for 3 environments"):
        envs.reset(seed=[1, 2])


def test_no_two_episodes_begin_alike() -> None:
    envs = as_gymnasium(Walk(), COUNT)
    begins = [*np.asarray(envs.reset(seed=0)[0]["noise"])[:, 0]]
    for actions in ACTIONS:
        obs, _, terminated, truncated, _ = envs.step(actions)
        begins += [*np.asarray(obs["noise"])[np.asarray(terminated | truncated)][:, 0]]
    assert len(begins) == len(set(begins)) > 2 * COUNT


@pytest.mark.parametrize("num_envs", [None, COUNT])
def test_what_is_returned_outlives_later_steps(num_envs: int | None) -> None:
    """The carry is donated: nothing that the user holds may share its memory."""
    env = as_gymnasium(Walk(), num_envs)
    held = [env.reset(seed=0)]
    state = env.state
    held += [env.step(actions if num_envs else actions[0]) for actions in ACTIONS[:4]]
    values = jax.tree.map(np.array, held)
    for actions in ACTIONS[4:9]:
        env.step(actions if num_envs else actions[0])
    assert same(held, values)
    assert same(state["total"], np.zeros(num_envs or ()))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_goes_its_own_way(duplicate: Any) -> None:
    envs = as_gymnasium(Walk(), COUNT)
    envs.reset(seed=3)
    envs.step(ACTIONS[0])
    other = duplicate(envs)
    assert same(envs.step(ACTIONS[1]), other.step(ACTIONS[1]))
    assert same(envs.step(ACTIONS[2]), other.step(ACTIONS[2]))
    assert envs._engine is other._engine or duplicate is copy.copy  # compiled once


@pytest.mark.parametrize("module", [pickle, cloudpickle])
@pytest.mark.parametrize("num_envs", [None, COUNT])
def test_pickling(module: Any, num_envs: int | None) -> None:
    env = as_gymnasium((Walk(), {"size": 2}), num_envs, max_episode_steps=5)
    env.reset(seed=3)
    actions = ACTIONS[0] if num_envs else 1
    env.step(actions)
    other = pickle.loads(module.dumps(env))
    assert same(env.step(actions), other.step(actions))
    assert (other.metadata, other.action_space) == (env.metadata, env.action_space)
    wrapped = arrayferry.wrap(Walk(), "numpy", num_envs=num_envs)
    wrapped.reset(seed=3)
    again = pickle.loads(module.dumps(wrapped))
    assert same(wrapped.step(actions), again.step(actions))


def test_specs() -> None:
    env = as_gymnasium(Walk(), max_episode_steps=7, render_mode="rgb_array")
    made = gym.make(env.spec)
    assert isinstance(made.unwrapped, JaxEnv)
    assert env.spec.max_episode_steps == made.spec.max_episode_steps == 7
    assert made.unwrapped.render_mode == "rgb_array"
    assert same(made.reset(seed=1), env.reset(seed=1))
    envs = as_gymnasium(Walk(), COUNT, autoreset_mode="Disabled")
    many = gym.make_vec(envs.spec, num_envs=COUNT)
    assert (many.num_envs, many.metadata["autoreset_mode"]) == (COUNT, AutoresetMode.DISABLED)
    wrapped = gym.make(arrayferry.wrap(Walk(), "numpy").spec)
    assert isinstance(wrapped.reset(seed=1)[0]["place"], np.ndarray)


def test_the_spec_of_a_vector_has_its_size() -> None:
    assert gym.make_vec(as_gymnasium(Walk(), COUNT).spec).num_envs == COUNT


@pytest.mark.parametrize("num_envs", [0, -1, 2.0, "4", True])
def test_a_count_that_is_none(num_envs: Any) -> None:
    with pytest.raises(OptionError, match="num_envs="):
        arrayferry.wrap(Walk(), "numpy", num_envs=num_envs)


def test_a_seed_of_numpy() -> None:
    envs = as_gymnasium(Walk(), COUNT)
    assert same(envs.reset(seed=np.int64(7)), envs.reset(seed=7))


def test_time_limit() -> None:
    envs = as_gymnasium(Walk(end=99), 2, max_episode_steps=2)
    envs.reset(seed=0)
    ends = [[*map(bool, envs.step([1, 1])[3])] for _ in range(4)]
    assert ends == [[False] * 2, [True] * 2] * 2


def test_render() -> None:
    env = as_gymnasium(Walk(), render_mode="rgb_array")
    with pytest.raises(gym.error.ResetNeeded):
        env.render()
    obs, _ = env.reset(seed=0)
    assert env.render()[0, 0, 0] == pytest.approx(obs["place"][0])
    envs = as_gymnasium(Walk(), 2, render_mode="rgb_array")
    obs, _ = envs.reset(seed=0)
    assert [frame[0, 0, 0] for frame in envs.render()] == pytest.approx(
        np.asarray(obs["place"])[:, 0].tolist()
    )
    assert as_gymnasium(Walk()).render() is None
    with pytest.raises(arrayferry.FerryError, match="rgb_array"):
        as_gymnasium(Walk(), render_mode="human")


@pytest.mark.parametrize("action", [2, -1, 0.5, [1, 0], "left", 2**40])
def test_actions_that_are_none(action: Any) -> None:
    env = as_gymnasium(Walk())
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="action"):
        env.step(action)
    envs = as_gymnasium(Walk(), 2)
    envs.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="action"):
        envs.step([action, action])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_refused_step_is_not_taken(mode: AutoresetMode) -> None:
    env, envs = as_gymnasium(Walk()), as_gymnasium(Walk(), 2, autoreset_mode=mode)
    for one, action in ((env, 2), (envs, [2, 1])):
        one.reset(seed=3)
        before = one.state
        with pytest.raises(gym.error.InvalidAction):
            one.step(np.array(action))
        assert same(one.state, before)


def test_a_step_after_the_end_is_not_taken() -> None:
    envs = as_gymnasium(Walk(), 2, autoreset_mode=AutoresetMode.DISABLED, max_episode_steps=2)
    envs.reset(seed=3)
    envs.step(np.array([0, 1]))
    envs.reset(seed=4, options={"reset_mask": np.array([True, False])})
    obs, *_ = envs.step(np.array([0, 1]))  # the second one's last
    before = envs.state
    with pytest.raises(gym.error.ResetNeeded):
        envs.step(np.array([0, 1]))
    assert same(envs.state, before)
    after, _ = envs.reset(options={"reset_mask": np.array([False, True])})
    assert same(row(after, 0), row(obs, 0))


def test_masks_of_infos_within_infos() -> None:
    envs = as_gymnasium(Walk(), 2, max_episode_steps=2)
    _, info = envs.reset(seed=3)
    assert sorted(info["nested"]) == ["_began", "_from", "began", "from"]
    *_, info = envs.step(np.array([0, 1]))
    assert sorted(info["nested"]) == ["_began", "_total", "began", "total"]
    envs.reset(seed=3, options={"reset_mask": np.array([True, False])})
    *_, info = envs.step(np.array([0, 1]))
    masks = {key: value.tolist() for key, value in info["nested"].items() if key.startswith("_")}
    assert masks == {"_began": [True, True], "_from": [False, True], "_total": [True, False]}
    assert sorted(info["final_info"]["nested"]) == ["_began", "_total", "began", "total"]


def test_actions_of_jax_and_numpy() -> None:
    envs = as_gymnasium(Walk(), COUNT)
    results = []
    for make in (np.asarray, jax.numpy.asarray, np.ndarray.tolist, lambda x: x.astype(np.uint8)):
        envs.reset(seed=0)
        results.append(envs.step(make(ACTIONS[0])))
    assert all(same(results[0], other) for other in results)


def test_a_step_does_not_read_an_action_later() -> None:
    envs = as_gymnasium(Walk(end=99), COUNT)
    envs.reset(seed=0)
    buffer = np.zeros(COUNT, np.int32)
    totals = []
    for t in range(20):
        buffer[:] = t % 2
        totals.append(envs.step(buffer)[1])
        buffer[:] = 1 - t % 2
    places = np.asarray(totals)
    assert np.allclose(np.diff(places, axis=0)[::2], 1)


def test_before_the_first_reset() -> None:
    for env, action in [(as_gymnasium(Walk()), 0), (as_gymnasium(Walk(), 2), [0, 0])]:
        with pytest.raises(gym.error.ResetNeeded, match="call reset"):
            env.step(action)
        with pytest.raises(gym.error.ResetNeeded):
            _ = env.state


@pytest.mark.parametrize("mask", [[1, 0, 1], [True, False], [False] * 3])
def test_reset_masks_that_are_none(mask: Any) -> None:
    envs = as_gymnasium(Walk(), COUNT)
    envs.reset(seed=0)
    with pytest.raises(arrayferry.FerryError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.asarray(mask)})


def test_what_raises_while_it_is_traced_says_so() -> None:
    with pytest.raises(jax.errors.ConcretizationTypeError) as raised:
        as_gymnasium(Walk(broken=True), 2)
    note = "".join(getattr(raised.value, "__notes__", [str(raised.value)]))
    assert "traced step of tests/Walk-v0 for 2 environments: it must be pure JAX" in note


def test_refusals() -> None:
    with pytest.raises(arrayferry.FerryError, match="another structure"):
        as_gymnasium(Walk(changing=True))
    for env, hint in (
        (gym.make("CartPole-v1"), "it is a Gymnasium environment already: pass it to arrayferry.wrap"),
        ("CartPole-v1", "make it first, and pass gymnasium.make('CartPole-v1')"),
    ):
        with pytest.raises(arrayferry.FerryError) as caught:
            as_gymnasium(env, 4)
        assert caught.value.hint == hint
    with pytest.raises(arrayferry.FerryError, match=r"\nHint: describe how .*register_environment"):
        as_gymnasium(object())
    with pytest.raises(arrayferry.FerryError, match="num_envs=0"):
        as_gymnasium(Walk(), 0)
    with pytest.raises(arrayferry.FerryError, match="autoreset_mode='never'"):
        as_gymnasium(Walk(), 2, autoreset_mode="never")


@pytest.mark.parametrize("target", ["numpy", "jax", "torch"])
def test_wrap(target: str) -> None:
    pytest.importorskip(target)
    envs = arrayferry.wrap(Walk(), target, num_envs=COUNT)
    bare = as_gymnasium(Walk(), COUNT)
    assert same(arrayferry.convert(envs.reset(seed=0), "numpy"), bare.reset(seed=0))
    for actions in ACTIONS[:8]:
        got = envs.step(arrayferry.convert(actions, target))
        assert same(arrayferry.convert(got, "numpy"), bare.step(actions))
    single = arrayferry.wrap((Walk(), {"size": 2}), target)
    single.reset(seed=0)
    _, reward, terminated, truncated, _ = single.step(1)
    assert [type(one) for one in (reward, terminated, truncated)] == [float, bool, bool]


def test_dense_final_is_what_it_is() -> None:
    envs = arrayferry.wrap(Walk(), "numpy", num_envs=COUNT, dense_final=True)
    plain = arrayferry.wrap(Walk(), "numpy", num_envs=COUNT)
    cast = arrayferry.wrap(Walk(), "numpy", num_envs=COUNT, dtypes="space")
    for env in (envs, plain, cast):
        env.reset(seed=0)
    for actions in ACTIONS:
        expected = plain.step(actions)
        assert same(envs.step(actions), expected)
        assert same(cast.step(actions), expected)


@pytest.mark.needs("gymnasium>=1.4")  # an older one's conversion makes generators of shapes
@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_an_environment_of_gymnasium_checks_out() -> None:
    """Gymnasium's own checker, on NumPy."""
    from gymnasium.utils.env_checker import check_env

    check_env(arrayferry.wrap(Walk(), "numpy"), skip_render_check=True)


def test_without_pettingzoo_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from arrayferry import envs

    monkeypatch.setattr("arrayferry.envs.opening.find_spec", lambda name: None)
    with pytest.raises(arrayferry.errors.NotInstalledError, match="pip install pettingzoo"):
        envs.as_parallel(Walk())
    monkeypatch.setattr("arrayferry.envs.opening.find_spec", lambda name: object())
    with pytest.raises(arrayferry.FerryError, match="as_gymnasium"):
        envs.as_parallel(Walk())


def test_a_registered_environment_of_many_agents_is_wrapped_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pettingzoo")
    import jax.numpy as jnp

    from arrayferry.envs import Interface, adapters, register_environment
    from arrayferry.wrappers.pettingzoo import ParallelArrayConversion

    class Pair:
        pass

    def interface(env: Any, params: Any) -> Interface:
        both, over = {"a": jnp.zeros(1), "b": jnp.ones(1)}, jnp.zeros(2, bool)
        two = gym.spaces.Discrete(2)
        return Interface(
            reset=lambda key: (0, both, {}),
            step=lambda key, state, action: (state, both, jnp.arange(2.0), over, over, {}),
            observation_space=None,
            action_space=gym.spaces.Dict(a=two, b=two),
            agents=("a", "b"),
        )

    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    register_environment(Pair, interface)
    env = arrayferry.wrap(Pair(), "numpy")
    assert isinstance(env, ParallelArrayConversion)
    obs, _ = env.reset(seed=1)
    assert obs["b"].tolist() == [1]
    assert env.step({"a": 0, "b": 1})[1] == {"a": 0.0, "b": 1.0}
    with pytest.raises(arrayferry.FerryError, match="no vector environments"):
        arrayferry.wrap(Pair(), "numpy", num_envs=2)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(3, start=1),
        gym.spaces.MultiDiscrete([2, 3], start=[4, 5]),
        gym.spaces.Tuple([gym.spaces.Discrete(2, start=1), gym.spaces.Box(-1, 1, (2,))]),
        gym.spaces.Dict(go=gym.spaces.Discrete(2, start=7)),
    ],
    ids=str,
)
def test_agents_that_have_left_do_not_disturb_the_others(
    space: gym.spaces.Space[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pettingzoo")
    import jax.numpy as jnp

    from arrayferry.envs import Interface, adapters, as_parallel, register_environment

    class Race:
        pass

    def interface(env: Any, params: Any) -> Interface:
        both = {"a": jnp.zeros(1), "b": jnp.ones(1)}
        return Interface(
            reset=lambda key: (0, both, {}),
            step=lambda key, state, action: (
                *(state + 1, both, jnp.ones(2)),
                *(jnp.asarray([True, False]), jnp.zeros(2, bool), {}),
            ),
            observation_space=None,
            action_space=gym.spaces.Dict(a=space, b=space),
            agents=("a", "b"),
        )

    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    register_environment(Race, interface)
    env = as_parallel(Race())
    env.reset(seed=1)
    space.seed(0)
    env.step({"a": space.sample(), "b": space.sample()})
    assert env.agents == ["b"]
    assert env.step({"b": space.sample()})[1] == {"b": 1.0}
    assert env.spec is None


def registered(monkeypatch: pytest.MonkeyPatch, reset: Any, step: Any, action_space: Any = None) -> Any:
    """Return an environment that does this, and which `as_gymnasium` knows during a test."""
    from arrayferry.envs import Interface, adapters, register_environment

    class Env:
        pass

    space = gym.spaces.Discrete(10) if action_space is None else action_space
    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    register_environment(Env, lambda env, params: Interface(reset, step, None, space))
    return Env()


@pytest.mark.parametrize("count", [None, 3])
@pytest.mark.parametrize(
    ("at_reset", "at_step", "what"),
    [
        ((0.5, [0.0], {}), (1, [0.0], {}), "^state"),
        ((1, [0.0], {}), (1, 0.0, {}), "^obs"),
        ((1, [0.0], {}), (1, [0], {}), "^obs"),
        ((1, [0.0], {"a": 1}), (1, [0.0], {"a": [1, 2, 3]}), r"info\['a'\]"),
        ((1, [0.0], {"a": {"b": 0.5}}), (1, [0.0], {"a": {"b": 1}}), r"info\['a'\]\['b'\]"),
        ((1, [0.0], {"a": {"b": 0.5}}), (1, [0.0], {"a": 1}), r"info\['a'\]"),
    ],
)
def test_what_a_step_gives_in_another_form_is_refused(
    monkeypatch: pytest.MonkeyPatch, count: Any, at_reset: Any, at_step: Any, what: str
) -> None:
    import jax.numpy as jnp

    def arrays(values: Any) -> Any:
        return jax.tree.map(jnp.asarray, values, is_leaf=lambda one: isinstance(one, list))

    def step(key: Any, state: Any, action: Any) -> Any:
        state, obs, info = arrays(at_step)
        return state, obs, 1.0, True, False, info

    env = registered(monkeypatch, lambda key: arrays(at_reset), step)
    with pytest.raises(arrayferry.errors.UnsupportedError, match=what):
        as_gymnasium(env, count)


def test_what_a_reset_gives_is_widened_to_what_a_step_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax.numpy as jnp

    env = registered(
        monkeypatch,
        lambda key: (0, jnp.array([1], jnp.int16), {"a": 2, "only": 3}),
        lambda key, state, action: (state + 0.5, jnp.array([1.5]), 1.0, True, False, {"a": 2.5}),
    )
    for envs in as_gymnasium(env), as_gymnasium(env, 2):
        obs, info = envs.reset(seed=0)
        assert obs.dtype == info["a"].dtype == envs.observation_space.dtype == "float32"
        assert info["only"].dtype == "int32"
        assert not obs.weak_type
        assert not info["only"].weak_type


@pytest.mark.parametrize("for_host", [False, True])
@pytest.mark.parametrize("count", [None, 2])
def test_after_a_step_that_fails_a_reset_goes_on(
    monkeypatch: pytest.MonkeyPatch, count: Any, for_host: bool
) -> None:
    import jax.numpy as jnp

    def check(action: Any) -> Any:
        if (np.asarray(action) >= 5).any():
            raise ValueError("the wheel is off")
        return np.float32(0)

    def step(key: Any, state: Any, action: Any) -> Any:
        told = jax.ShapeDtypeStruct((), jnp.float32)
        zero = jax.pure_callback(check, told, action, vmap_method="sequential")
        return state + 1, jnp.zeros(1) + zero, 1.0, False, False, {}

    env = registered(monkeypatch, lambda key: (jnp.int32(0), jnp.zeros(1), {}), step)
    envs: Any = as_gymnasium(env, count)
    if for_host and count:
        envs.read_on_host()
    good, bad = (0, 7) if count is None else (np.array([0, 0]), np.array([0, 7]))
    for again in ({}, {"seed": 1}):
        envs.reset(seed=0)
        with pytest.raises(jax.errors.JaxRuntimeError, match="the wheel is off"):
            envs.step(bad)
        with pytest.raises(gym.error.ResetNeeded):
            envs.step(good)
        envs.reset(**again)
        envs.step(good)


def test_the_agent_may_delete_what_it_is_given() -> None:
    envs = as_gymnasium(Walk(), 2, autoreset_mode=AutoresetMode.DISABLED)
    some = {"reset_mask": np.array([True, False])}
    for again in lambda: envs.reset(seed=0), lambda: envs.reset(options=some), lambda: envs.step([1, 1]):
        obs = again()[0]
        kept = jax.tree.map(np.array, obs)
        for leaf in jax.tree.leaves(obs):
            leaf.delete()
        copied = copy.deepcopy(envs)
        assert same(row(copied.reset(options=some)[0], 1), row(kept, 1))
        assert same(row(envs.reset(options=some)[0], 1), row(kept, 1))


def test_seeds_of_more_than_32_bits_are_those_of_jax() -> None:
    from arrayferry.envs._keys import keys_of

    seeds = [0, 5, 2**32 + 5, 2**40, np.int64(7)]
    for wide in False, True:
        with jax.enable_x64(wide):
            wanted = [np.asarray(jax.random.PRNGKey(int(seed))).tolist() for seed in seeds]
            assert keys_of(seeds).tolist() == wanted


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (partial(gym.spaces.Discrete, 255, start=1, dtype=np.uint8), [1, 255], [0]),
        (
            partial(gym.spaces.Discrete, 3, start=2**31 - 2),
            [2**31 - 2, 2**31 - 1],
            [0, 2**31, 2**70, -(2**70)],
        ),
        (partial(gym.spaces.MultiDiscrete, [255], np.uint8, start=[1]), [[1], [255]], [[0]]),
    ],
    ids=["uint8", "int32", "many"],
)
def test_actions_at_the_ends_of_a_dtype(
    monkeypatch: pytest.MonkeyPatch, space: Any, good: list[Any], bad: list[Any]
) -> None:
    import jax.numpy as jnp

    def step(key: Any, state: Any, action: Any) -> Any:
        return state, jnp.zeros(1), 1.0, False, False, {}

    try:
        space = space()
    except TypeError:
        pytest.skip("an older Gymnasium has Discrete spaces of int64 only")
    env = as_gymnasium(registered(monkeypatch, lambda key: (0, jnp.zeros(1), {}), step, space))
    env.reset(seed=0)
    for action in good:
        env.step(np.asarray(action, space.dtype) if isinstance(action, list) else action)
    for action in bad:
        with pytest.raises(gym.error.InvalidAction):
            env.step(np.asarray(action, space.dtype) if isinstance(action, list) else action)


@pytest.mark.parametrize("steps", [0, -3, 2.5, True, "a"])
def test_time_limits_that_are_none(steps: Any) -> None:
    with pytest.raises(arrayferry.errors.OptionError, match="max_episode_steps"):
        as_gymnasium(Walk(), max_episode_steps=steps)


def test_spaces_that_jax_or_gymnasium_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax.numpy as jnp

    def step(key: Any, state: Any, action: Any) -> Any:
        return state, jnp.zeros(1, jnp.bfloat16), 1.0, False, False, {}

    def reset(key: Any) -> Any:
        return 0, jnp.zeros(1, jnp.bfloat16), {}

    with pytest.raises(arrayferry.errors.UnsupportedError, match="Text"):
        as_gymnasium(registered(monkeypatch, reset, step, gym.spaces.Text(3)))
    with pytest.raises(arrayferry.errors.UnsupportedError, match="bfloat16"):
        as_gymnasium(registered(monkeypatch, reset, step))


IMPLEMENTATIONS = ["threefry2x32", "rbg", "unsafe_rbg"]


@pytest.mark.parametrize("partitionable", [False, True])
@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_keys_are_independent_under_every_generator(
    implementation: str, custom: bool, partitionable: bool
) -> None:
    """A row has the seed that it was given, and no two episodes are alike."""
    settings = jax.default_prng_impl(implementation), jax.enable_custom_prng(custom)
    with settings[0], settings[1], jax.threefry_partitionable(partitionable):
        envs, alone = as_gymnasium(Walk(), COUNT), as_gymnasium(Walk())
        begins = [np.asarray(envs.reset(seed=7)[0]["noise"])]
        assert same(begins[0][1], alone.reset(seed=8)[0]["noise"])
        begins += [np.asarray(envs.step(actions)[0]["noise"]) for actions in ACTIONS[:12]]
    assert len({noise.tobytes() for noise in np.concatenate(begins)}) == 13 * COUNT


def test_another_generator_changes_nothing() -> None:
    """The keys are those of the documentation, whatever the default."""
    expected = as_gymnasium(Walk(), 2).reset(seed=7)
    with jax.default_prng_impl("rbg"), jax.enable_custom_prng(True):
        assert same(as_gymnasium(Walk(), 2).reset(seed=7), expected)


@pytest.mark.parametrize("count", [None, 2])
def test_x64_is_decided_when_the_environment_is_made(count: int | None) -> None:
    env = as_gymnasium(Walk(), count)
    env.reset(seed=0)
    action = 0 if count is None else [0, 0]
    for use in lambda: env.step(action), lambda: env.reset(seed=1), lambda: env.state:
        with jax.enable_x64(True), pytest.raises(arrayferry.FerryError, match="jax_enable_x64 was False"):
            use()
    env.step(action)
    with jax.enable_x64(True):
        wide = as_gymnasium(Walk(), count)
        wide.reset(seed=0)
        pickled = pickle.dumps(wide)
    with pytest.raises(arrayferry.FerryError, match="jax_enable_x64 was True"):
        wide.step(action)
    with pytest.raises(arrayferry.FerryError, match="jax_enable_x64 was True"):
        pickle.loads(pickled).step(action)


def constant(reset: Any, step: Any) -> tuple[Any, Any]:
    """Functions of an environment whose state, observation and info are these numbers."""
    return (
        lambda key: (reset, {"x": reset}, {"x": reset}),
        lambda key, state, action: (step, {"x": step}, 1.0, False, False, {"x": step}),
    )


@pytest.mark.parametrize("count", [None, 2])
@pytest.mark.parametrize(
    ("reset", "step"),
    [
        (np.uint32(4_000_000_000), np.int32(1)),
        (np.int32(100_000), np.float16(1)),
        (np.int32(2**24 + 1), np.float32(1)),
        (np.float16(3), np.int16(3)),
        (np.uint8(200), np.int8(1)),
        (np.float32(0.5), np.int32(1)),
        (300, np.float32(1)),
    ],
)
def test_values_that_neither_dtype_can_hold_are_refused(
    monkeypatch: pytest.MonkeyPatch, reset: Any, step: Any, count: int | None
) -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError, match=r"^state: .* after a step\nHint: .*astype"):
        as_gymnasium(registered(monkeypatch, *constant(reset, step)), count)


@pytest.mark.parametrize("count", [None, 2])
@pytest.mark.parametrize(
    ("reset", "step", "dtype"),
    [
        (np.int16(-30_000), np.float32(0.5), "float32"),
        (np.float32(1 / 3), np.float16(1), "float32"),
        (np.int16(-3), np.uint8(200), "int16"),
        (np.bool_(True), np.int32(7), "int32"),
        (np.uint16(60_000), np.int32(-1), "int32"),
        (127, np.float16(0.5), "float16"),
        (np.float32(0.5), 3, "float32"),
    ],
)
def test_the_dtype_that_holds_the_other_is_taken(
    monkeypatch: pytest.MonkeyPatch, reset: Any, step: Any, dtype: str, count: int | None
) -> None:
    env = as_gymnasium(registered(monkeypatch, *constant(reset, step)), count)
    obs, info = env.reset(seed=0)
    begun = obs["x"], info["x"], env.state
    obs, *_, info = env.step(0 if count is None else [0, 0])
    for value, results in (reset, begun), (step, (obs["x"], info["x"], env.state)):
        for result in results:
            assert result.dtype == dtype
            assert not result.weak_type
            assert (np.asarray(result) == value).all()


@pytest.mark.parametrize("for_host", [False, True])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_step_that_jax_rejects_changes_nothing(mode: AutoresetMode, for_host: bool) -> None:
    envs = as_gymnasium(Walk(), COUNT, autoreset_mode=mode)
    if for_host:
        envs.read_on_host()
    envs.reset(seed=3)
    envs.step(ACTIONS[0])
    other, before = copy.deepcopy(envs), envs.state
    deleted = jax.numpy.asarray(ACTIONS[1], np.int32)
    deleted.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        envs.step(deleted)
    for step in lambda actions: envs.step(actions)[1], lambda _: envs.step(ACTIONS[1])[1]:
        with pytest.raises(arrayferry.FerryError, match="in_jit"):
            jax.jit(step)(ACTIONS[1])
    with pytest.raises(gym.error.InvalidAction, match="shape"):
        envs.step(ACTIONS[1][:1])
    some = {"reset_mask": np.arange(COUNT) == 0}
    for arguments in {}, {"seed": 5}, {"options": some}, {"seed": 5, "options": some}:
        with pytest.raises(arrayferry.FerryError, match="in_jit"):
            jax.jit(lambda arguments=arguments: envs.reset(**arguments)[0])()
    with pytest.raises(arrayferry.FerryError):
        envs.reset(seed=9, options={"reset_mask": np.array([True])})
    assert same(envs.state, before)
    assert same(envs.step(ACTIONS[1]), other.step(ACTIONS[1]))
    assert same(envs.reset(), other.reset())


def test_a_single_step_that_jax_rejects_changes_nothing() -> None:
    env = as_gymnasium(Walk())
    env.reset(seed=3)
    other, deleted = copy.deepcopy(env), jax.numpy.int32(1) + 0
    deleted.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        env.step(deleted)
    assert same(env.step(1), other.step(1))


def test_an_interrupt_before_the_step_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = as_gymnasium(Walk(), 2)
    envs.reset(seed=3)
    other = copy.deepcopy(envs)

    class Interrupting:
        shape, dtype = (2,), np.dtype(np.int32)

        def __array__(self, *arguments: Any, **options: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        envs.step(Interrupting())
    assert same(envs.step([0, 1]), other.step([0, 1]))


def test_a_step_that_failed_while_it_ran_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax.numpy as jnp

    def fail(action: Any) -> Any:
        raise ValueError("the wheel is off")

    def step(key: Any, state: Any, action: Any) -> Any:
        zero = jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), action)
        return state + 1, jnp.zeros(1) + zero, 1.0, False, False, {}

    env = as_gymnasium(registered(monkeypatch, lambda key: (jnp.int32(0), jnp.zeros(1), {}), step))
    env.reset(seed=0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the wheel is off"):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded, match=r"failed while it ran, .*: call reset"):
        env.step(0)


def test_next_step_ignores_the_actions_of_environments_that_are_reset() -> None:
    envs = as_gymnasium(Walk(), 3, autoreset_mode=AutoresetMode.NEXT_STEP, max_episode_steps=1)
    envs.reset(seed=0)
    assert envs.step([0, 1, 0])[3].all()
    _, reward, terminated, truncated, _ = envs.step([99, -1, 2])
    assert not any(np.any(result) for result in (reward, terminated, truncated))
    with pytest.raises(gym.error.InvalidAction, match=r"action\[1\] is -1, which is not in Discrete\(2\)"):
        envs.step([1, -1, 2])
    with pytest.raises(gym.error.InvalidAction, match="does not fit int32"):
        envs.step([1, 2**40, 0])
    assert envs.step([0, 1, 0])[3].all()
    assert not np.any(envs.step([2**40, -(2**50), 0])[1])


def test_one_bad_action_among_many_is_named() -> None:
    actions = np.zeros(256, int)
    actions[77] = 12
    for envs in as_gymnasium(Walk(), 256), arrayferry.wrap(Walk(), "numpy", num_envs=256):
        envs.reset(seed=0)
        with pytest.raises(gym.error.InvalidAction, match=r"action\[77\] is 12") as raised:
            envs.step(actions)
        assert len(str(raised.value)) < 200


@dataclasses.dataclass
class Reading:
    x: Any = 0.0


@pytest.mark.parametrize(
    "value", ["text", Reading(), object(), 2**40, b"bytes"], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("part", ["obs", "info"])
def test_what_is_no_array_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch, part: str, value: Any
) -> None:
    import jax.numpy as jnp

    wrong = {"a": (jnp.zeros(1), {"b": value})}
    obs, info = (wrong, {}) if part == "obs" else (jnp.zeros(1), wrong)
    env = registered(
        monkeypatch, lambda key: (0, obs, info), lambda *_: (0, jnp.zeros(1), 1.0, False, False, {})
    )
    with pytest.raises(arrayferry.errors.UnsupportedError) as raised:
        as_gymnasium(env, 2)
    assert str(raised.value).startswith(f"{part}['a'][1]['b']: Environment returns ")


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"obs": None}, "obs"),
        ({"obs": {"a": None}}, r"obs\['a'\]"),
        ({"info": None}, "info"),
        ({"reward": None}, "reward"),
        ({"reward": "much"}, "reward"),
        ({"terminated": {"a": True}}, "terminated"),
        ({"terminated": [True, False]}, "terminated"),
        ({"truncated": None}, "truncated"),
    ],
)
def test_results_that_gymnasium_does_not_know(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], where: str
) -> None:
    usual = {"obs": 0.0, "reward": 1.0, "terminated": False, "truncated": False, "info": {}} | values
    env = registered(
        monkeypatch, lambda key: (0, usual["obs"], usual["info"]), lambda *_: (0, *usual.values())
    )
    with pytest.raises(arrayferry.errors.UnsupportedError, match=f"^{where}: Environment returns"):
        as_gymnasium(env)


@pytest.mark.parametrize("flag", [np.float32(1), 1, np.ones(1, bool), np.uint8(2), np.ones((1, 1))], ids=repr)
def test_flags_of_other_kinds(monkeypatch: pytest.MonkeyPatch, flag: Any) -> None:
    env = registered(monkeypatch, lambda key: (0, 0.0, {}), lambda *_: (0, 0.0, 1.0, flag, flag * 0, {}))
    single, many = as_gymnasium(env), as_gymnasium(env, 2)
    single.reset(seed=0)
    many.reset(seed=0)
    assert single.step(0)[2:4] == (True, False)
    terminated, truncated = many.step([0, 0])[2:4]
    assert (terminated.tolist(), truncated.tolist()) == ([True, True], [False, False])


@pytest.mark.parametrize(
    ("space", "obs"),
    [
        (gym.spaces.MultiBinary(3), np.ones(3, np.int8)),
        (gym.spaces.MultiBinary(3), np.ones(3, np.int32)),
        (gym.spaces.MultiBinary([2, 2]), np.ones((2, 2), bool)),
        (gym.spaces.MultiDiscrete([2, 3]), np.array([1, 2], np.int32)),
        (gym.spaces.Discrete(3, start=5), np.int32(7)),
        (gym.spaces.Discrete(3, start=-1), np.int8(-1)),
        (
            gym.spaces.Dict(
                a=gym.spaces.MultiBinary(2), b=gym.spaces.Tuple([gym.spaces.Discrete(3, start=-1)])
            ),
            {"a": np.ones(2, np.int32), "b": (np.int32(0),)},
        ),
    ],
    ids=str,
)
def test_declared_spaces_are_kept(monkeypatch: pytest.MonkeyPatch, space: Any, obs: Any) -> None:
    from arrayferry.envs import Interface, adapters, register_environment

    class Env:
        pass

    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    action_space = gym.spaces.Discrete(2)
    functions = lambda key: (0, obs, {}), lambda *_: (0, obs, 1.0, False, False, {})
    register_environment(Env, lambda env, params: Interface(*functions, space, action_space))
    assert as_gymnasium(Env()).observation_space == space
    envs = as_gymnasium(Env(), 2)
    assert envs.single_observation_space == space
    assert envs.observation_space.contains(jax.tree.map(np.asarray, envs.reset(seed=0)[0]))


@pytest.mark.parametrize(
    ("space", "obs", "expected"),
    [
        (
            gym.spaces.Box(0, 255, (2,), np.uint8),
            np.zeros(2, np.int32),
            gym.spaces.Box(0, 255, (2,), np.int32),
        ),
        (gym.spaces.Discrete(3), np.float32(1), gym.spaces.Box(-np.inf, np.inf, ())),
        (gym.spaces.Box(0, 1, (2,), np.float64), np.zeros(2, "f4"), gym.spaces.Box(0, 1, (2,))),
        (gym.spaces.Tuple([gym.spaces.Discrete(2)]), (np.float32(0),) * 2, None),
    ],
)
def test_declared_spaces_that_observations_are_not_in(space: Any, obs: Any, expected: Any) -> None:
    from arrayferry.envs._spaces import space_of

    found = space_of(obs, space)
    assert found == expected or expected is None
    assert found.contains(jax.tree.map(np.asarray, obs))


@pytest.mark.parametrize("seed", [-1, 1.5, "seven", [1, -2], [None, 0.5]])
def test_seeds_that_are_none(seed: Any) -> None:
    with pytest.raises((OptionError, gym.error.Error)):
        as_gymnasium(Walk(), 2).reset(seed=seed)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("count", [None, 1, 3])
def test_nothing_that_is_returned_is_the_state(
    monkeypatch: pytest.MonkeyPatch, mode: AutoresetMode, count: int | None
) -> None:
    """Even if the observation, the info and the state are one and the same array."""

    def step(key: Any, state: Any, action: Any) -> Any:
        state = state + action
        return state, state, state[0], False, False, {"state": state}

    def reset(key: Any) -> Any:
        state = jax.random.uniform(key, (4,))
        return state, state, {"state": state}

    env = registered(monkeypatch, reset, step, gym.spaces.Box(-1, 1, (4,)))
    env = as_gymnasium(env, count, **({} if count is None else {"autoreset_mode": mode}))
    held = [env.reset(seed=0), env.state]
    values = jax.tree.map(np.array, held)
    for _ in range(3):
        held += [env.step(np.ones(env.action_space.shape, np.float32)), env.state]
        values += jax.tree.map(np.array, held[-2:])
    assert same(held, values)


class Known:
    pass


@pytest.mark.parametrize(
    ("of", "interface"),
    [
        (Known(), print),
        ("Known", print),
        ("package:", print),
        (None, print),
        (Known, None),
        (Known, "function"),
        (Known, 3),
        (Known, Known),
    ],
)
def test_registrations_that_are_none(of: Any, interface: Any) -> None:
    from arrayferry.envs import register_environment

    with pytest.raises(OptionError, match="is not valid"):
        register_environment(of, interface)


def test_a_class_that_is_registered_is_replaced_only_if_asked() -> None:
    from arrayferry.envs import Interface, register_environment
    from envs.line_walk import interface

    for of in Walk, "gymnax:Environment", "dm_env:Environment":
        with pytest.raises(OptionError, match=r"registered already.*\nHint: pass replace=True"):
            register_environment(of, interface)
    register_environment(Walk, lambda env, params: "nothing", replace=True)
    with pytest.raises(arrayferry.FerryError, match="let it return an arrayferry"):
        as_gymnasium(Walk())
    register_environment(Walk, interface, replace=True)
    as_gymnasium(Walk())
    space = gym.spaces.Discrete(2)
    for wrong in (
        {"reset": None},
        {"step": 3},
        {"action_space": 2},
        {"observation_space": (2,)},
        {"name": None},
        {"max_episode_steps": "9"},
        {"num_envs": True},
        {"num_envs": 0},
        {"render": "frame"},
        {"agents": "ab"},
        {"world_state": 1},
    ):
        usual: dict[str, Any] = {"reset": print, "step": print, "observation_space": None}
        with pytest.raises(OptionError, match=f"Interface.{next(iter(wrong))}="):
            Interface(**usual | {"action_space": space} | wrong)


def team(monkeypatch: pytest.MonkeyPatch, reward: Any, terminated: Any, truncated: Any = False) -> Any:
    """An environment of two agents that returns these."""
    pytest.importorskip("pettingzoo")
    from arrayferry.envs import Interface, adapters, register_environment

    class Team:
        pass

    two, both = gym.spaces.Discrete(2), {"a": np.zeros(1, "f4"), "b": np.ones(1, "f4")}
    functions = (
        lambda key: (0, both, {}),
        lambda *_: (0, both, reward, terminated, truncated, {"n": {"x": 1}}),
    )
    spaces = gym.spaces.Dict(a=two, b=two)
    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    register_environment(Team, lambda env, params: Interface(*functions, None, spaces, agents=("a", "b")))
    return Team()


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("terminated", [[False, True], [True, False], [False, False]])
def test_rewards_and_flags_by_agent(
    monkeypatch: pytest.MonkeyPatch, terminated: list[bool], as_dict: bool
) -> None:
    from arrayferry.envs import as_parallel

    def given(values: Any) -> Any:
        return dict(zip("ab", values)) if as_dict else np.array(values)

    env = as_parallel(team(monkeypatch, given([1.5, -2.0]), given(terminated), given([False, False])))
    env.reset(seed=0)
    _, rewards, ends, cuts, infos = env.step({"a": 0, "b": 1})
    assert rewards == {"a": 1.5, "b": -2.0}
    assert (ends, cuts) == (dict(zip("ab", terminated)), {"a": False, "b": False})
    assert all(type(value) is bool for value in [*ends.values(), *cuts.values()])
    assert env.agents == [agent for agent in "ab" if not ends[agent]]
    infos["a"]["n"]["x"] = 9
    assert infos["b"]["n"]["x"] == 1


def test_one_reward_and_flag_for_all_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    from arrayferry.envs import as_parallel

    env = as_parallel(team(monkeypatch, 2.0, False, True))
    env.reset(seed=0)
    assert env.step({"a": 0, "b": 1})[1:4] == tuple({"a": x, "b": x} for x in (2.0, False, True))


@pytest.mark.parametrize(
    ("reward", "terminated", "where"),
    [
        (np.zeros(3), np.zeros(2, bool), "reward"),
        ({"a": 1.0}, np.zeros(2, bool), "reward"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, np.zeros(2, bool), "reward"),
        (np.zeros(2), {"a": False, "__all__": False}, "terminated"),
        (np.zeros(2), np.zeros((2, 2), bool), "terminated"),
        (np.zeros(2), None, "terminated"),
    ],
)
def test_rewards_and_flags_of_other_agents(
    monkeypatch: pytest.MonkeyPatch, reward: Any, terminated: Any, where: str
) -> None:
    from arrayferry.envs import as_parallel

    with pytest.raises(arrayferry.errors.UnsupportedError, match=f"^{where}: .*\nHint: .* each of a, b"):
        as_parallel(team(monkeypatch, reward, terminated))


def test_two_environments_of_one_instance_do_not_meet(expected: Any) -> None:
    walk = Walk()
    one, two = as_gymnasium(walk), as_gymnasium(walk)
    one.reset(seed=7)
    two.reset(seed=8)
    for t in range(1, 4):
        for env, column in (one, 0), (two, 1):
            assert same(env.step(ACTIONS[t - 1, column])[0], expected[column][t][0])


def test_a_name_that_gymnasium_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from arrayferry.envs import register_environment
    from envs.line_walk import interface

    named = partial(lambda env, params: replace(interface(env, params), name="My Walk (short)"))
    register_environment(Walk, named, replace=True)
    assert "Walk" in as_gymnasium(Walk()).spec.id
