"""`in_jit`: a rollout in compiled code equals the Python loop, and whatever cannot be compiled is refused."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import threading
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry import _in_jit
from arrayferry.envs import EnvAdapter, adapters, register_environment
from helpers.compare import GYMNASIUM_IS_RIGHT

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.fixture(params=["buffers", "io"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "io":
        monkeypatch.setattr(_in_jit, "buffers_work", lambda: False)
    elif not _in_jit.buffers_work():
        pytest.skip("jax has no buffer_callback that works here")
    return str(request.param)


def seed_of(key: Any) -> int:
    return int(jax.random.bits(key, dtype="uint32") >> 1)


def rollout(reset: Any, step: Any, key: Any, actions: Any) -> Any:
    @jax.jit
    def run(key: Any, actions: Any) -> Any:
        state, first = reset(key)
        return first, jax.lax.scan(step, state, actions)[1]

    return jax.tree.map(np.asarray, run(key, actions))


def vector(count: int, mode: AutoresetMode, make_one: Any = lambda: gym.make("CartPole-v1")) -> Any:
    return gym.vector.SyncVectorEnv([make_one] * count, autoreset_mode=mode)


class Toy(gym.Env[Any, Any]):
    """Returns what it is told, in the form of its space."""

    action_space = spaces.Box(-9, 9, (), np.float32)

    def __init__(self, space: spaces.Space[Any], values: Any = None, reward: Any = 1.0) -> None:
        self.observation_space, self.values, self.reward = space, values, reward
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._observe(), {"count": 0}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        if action == 7:
            raise ValueError("the arm is broken")
        self.count += 1
        return self._observe(), self.reward, self.count % 3 == 0, False, {"count": self.count}

    def _observe(self) -> Any:
        if self.values is not None:
            return self.values(getattr(self, "count", 0))
        return self.observation_space.sample()


BOX = spaces.Box(-100, 100, (2,), np.float32)


def counting(count: int) -> Any:
    return np.full(2, count, np.float32)


def test_a_single_rollout_equals_the_loop() -> None:
    actions, key = np.random.default_rng(0).integers(0, 2, 200), jax.random.key(3)
    reset, step = arrayferry.in_jit(gym.make("CartPole-v1"), autoreset=True)
    first, (obs, reward, terminated, truncated, info) = rollout(reset, step, key, actions)

    env = gym.make("CartPole-v1")
    expected = env.reset(seed=seed_of(key))[0]
    assert np.array_equal(first, expected)
    for index, action in enumerate(actions):
        new, one, ended, cut, _ = env.step(action)
        if ended or cut:
            new, _ = env.reset()
        assert np.array_equal(obs[index], new)
        assert (reward[index], terminated[index], truncated[index]) == (one, ended, cut)
    assert terminated.sum() >= 3  # which seed the key makes is JAX's affair
    assert obs.dtype == reward.dtype == np.float32
    assert terminated.dtype == bool
    assert info == {}


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_a_vector_rollout_equals_the_loop(mode: AutoresetMode) -> None:
    actions, key = np.random.default_rng(0).integers(0, 2, (100, 3)), jax.random.key(5)
    names = ("final_obs",) if mode is AutoresetMode.SAME_STEP else ()
    first, values = rollout(*arrayferry.in_jit(vector(3, mode), info=names), key, actions)
    envs = vector(3, mode)
    assert np.array_equal(first, envs.reset(seed=seed_of(key))[0])
    for index, action in enumerate(actions):
        *expected, info = envs.step(action)
        for mine, theirs in zip(values, expected):
            assert np.array_equal(mine[index], theirs.astype(mine.dtype))
        for row in range(3 if names else 0):
            final = values[-1]["final_obs"][index]
            wanted = info["final_obs"][row] if "final_obs" in info else None
            assert np.array_equal(final[row], np.zeros(4) if wanted is None else wanted)
    assert values[2].sum() > 3


def test_outside_of_jit_and_in_loops_and_branches() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting))
    state, obs = reset(jax.random.key(0))
    assert obs.tolist() == [0, 0]
    state, (obs, *_) = step(state, 0.5)
    assert obs.tolist() == [1, 1]

    def body(carry: Any) -> Any:
        state, _ = carry
        state, (obs, *_) = jax.lax.cond(obs_is_small(carry), step, step, state, jnp.float32(1))
        return state, obs

    def obs_is_small(carry: Any) -> Any:
        return carry[1][0] < 50

    state, obs = jax.jit(lambda s, o: jax.lax.while_loop(lambda c: c[1][0] < 10, body, (s, o)))(state, obs)
    assert obs.tolist() == [10, 10]


def test_a_state_is_used_once() -> None:
    env = Toy(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    old, _ = reset(jax.random.key(0))
    new, _ = step(old, 1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
        jax.block_until_ready(step(old, 1.0))
    assert len(env.actions) == 1
    newer, _ = step(new, 1.0)
    later, _ = reset(jax.random.key(0), newer)
    for used in (newer, old):
        with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
            jax.block_until_ready(step(used, 1.0))
        with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
            jax.block_until_ready(reset(jax.random.key(0), used))
    jax.block_until_ready(step(later, 1.0))
    assert len(env.actions) == 3


def test_a_state_is_used_once_in_one_compiled_function() -> None:
    env = Toy(BOX, counting)
    reset, step = arrayferry.in_jit(env)

    @jax.jit
    def twice(key: Any) -> Any:
        state, _ = reset(key)
        return step(state, 1.0), step(state, 1.0)

    with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
        jax.block_until_ready(twice(jax.random.key(0)))
    assert len(env.actions) == 1


def test_a_state_of_another_environment_is_refused() -> None:
    _, step = arrayferry.in_jit(Toy(BOX, counting))
    other, _ = arrayferry.in_jit(Toy(BOX, counting))[0](jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state belongs to another environment"):
        jax.block_until_ready(step(other, 1.0))


def played(step: Any, state: Any, count: int | None = None) -> Any:
    return jax.block_until_ready(step(state, jnp.zeros((count,) if count else ())))


CHANGES: dict[str, Any] = {
    "reset": lambda env: env.reset(),
    "step": lambda env: env.step(np.float32(0)),
    "the environment inside": lambda env: env.unwrapped.step(np.float32(0)),
    "another wrapper's reset": lambda env: gym.wrappers.TimeLimit(env, 5).reset(),
    "another in_jit": lambda env: jax.block_until_ready(arrayferry.in_jit(env)[0](jax.random.key(1))),
    "another in_jit that looks for infos": lambda env: arrayferry.in_jit(env, info="count"),
    "in_jit through another wrapper": lambda env: jax.block_until_ready(
        arrayferry.in_jit(gym.wrappers.TimeLimit(env.unwrapped, 5))[0](jax.random.key(1))
    ),
    "a conversion": lambda env: arrayferry.wrap(env, "jax").reset(seed=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_state_is_refused_whoever_changed_the_environment_since(change: Any) -> None:
    env = gym.wrappers.OrderEnforcing(Toy(BOX, counting))
    reset, step = arrayferry.in_jit(env)
    state, _ = reset(jax.random.key(0))
    state, _ = played(step, state)
    change(env)
    taken = len(env.unwrapped.actions)
    for use in (lambda: step(state, 0.0), lambda: reset(jax.random.key(0), state)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"was reset or stepped since[\s\S]*Hint: go on"):
            jax.block_until_ready(use())
    assert len(env.unwrapped.actions) == taken
    state, obs = reset(jax.random.key(0))
    assert obs.tolist() == [0, 0]
    assert played(step, state)[1][0].tolist() == [1, 1]


def test_rollouts_of_one_environment_do_not_mix() -> None:
    """Each of two `in_jit` starts over; the states of the other are no longer valid then."""
    env = Toy(BOX, counting)
    (reset, step), (other_reset, other_step) = arrayferry.in_jit(env), arrayferry.in_jit(env)
    first, _ = reset(jax.random.key(0))
    second, _ = other_reset(jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, first)
    with pytest.raises(jax.errors.JaxRuntimeError, match="to another in_jit of this one"):
        played(step, second)
    assert played(other_step, second)[1][0].tolist() == [1, 1]


PARTS: dict[str, Any] = {
    "one of them": lambda envs: envs.envs[1].step(np.float32(0)),
    "one of them, inside": lambda envs: envs.envs[1].unwrapped.reset(),
    "one of them, by in_jit": lambda envs: jax.block_until_ready(
        arrayferry.in_jit(envs.envs[0])[0](jax.random.key(0))
    ),
    "call": lambda envs: envs.call("reset"),
    "all": lambda envs: envs.step(np.zeros(3, np.float32)),
}


@pytest.mark.parametrize("change", PARTS.values(), ids=PARTS)
def test_a_vector_s_state_is_refused_whoever_changed_one_of_its_environments(change: Any) -> None:
    envs = vector(3, AutoresetMode.SAME_STEP, lambda: gym.wrappers.OrderEnforcing(Toy(BOX, counting)))
    reset, step = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    change(envs)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, state, 3)
    played(step, reset(jax.random.key(0))[0], 3)


def test_a_state_of_one_of_many_is_refused_once_all_were_stepped() -> None:
    envs = vector(2, AutoresetMode.SAME_STEP, lambda: Toy(BOX, counting))
    reset, step = arrayferry.in_jit(envs.envs[0])
    reset_all, _ = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    jax.block_until_ready(reset_all(jax.random.key(0)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, state)


class Halves(gym.vector.VectorEnv[Any, Any, Any]):
    """Steps and resets in two calls, too."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    num_envs, single_observation_space, single_action_space = 2, BOX, Toy.action_space
    observation_space = spaces.Box(-100, 100, (2, 2), np.float32)
    action_space = spaces.Box(-9, 9, (2,), np.float32)

    def __init__(self) -> None:
        self.count = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.count = 0
        return self.recv()[0], {}

    def step(self, actions: Any) -> Any:
        self.send(actions)
        return self.recv()

    def send(self, actions: Any) -> None:
        self.count += 1

    def recv(self) -> Any:
        obs, flags = np.full((2, 2), self.count, np.float32), np.zeros(2, bool)
        return obs, np.zeros(2), flags, flags, {}

    step_async, step_wait, run_on = send, recv, send

    def async_reset(self) -> None:
        self.count = 0

    reset_async = async_reset


@pytest.mark.parametrize("method", ["send", "step_async", "async_reset", "reset_async", "run_on"])
def test_half_a_step_is_a_change_too(method: str) -> None:
    envs = Halves()
    reset, step = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    assert played(step, state, 2)[1][0][0].tolist() == [1, 1]
    state, _ = reset(jax.random.key(0))
    getattr(envs, method)(*[np.zeros(2, np.float32)] * ("reset" not in method))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, state, 2)


COPIES: dict[str, Any] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_is_another_environment(copied: Any) -> None:
    env = gym.make("CartPole-v1")
    reset, step = arrayferry.in_jit(env)
    state, _ = reset(jax.random.key(0))
    twin = copied(env)
    twin.reset(seed=1)
    twin.step(0)
    reset_twin, step_twin = arrayferry.in_jit(twin)
    other, _ = reset_twin(jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state belongs to another environment"):
        jax.block_until_ready(step_twin(state, 0))
    for function, newest in ((step, state), (step_twin, other)):
        jax.block_until_ready(function(newest, 0))


def test_a_step_that_was_taken_by_some_of_many_cannot_be_taken_again() -> None:
    class Broken(Toy):
        def step(self, action: Any) -> Any:
            if action == 7:
                raise ValueError("the arm is broken")
            return super().step(action)

    envs = vector(2, AutoresetMode.SAME_STEP, lambda: Broken(BOX, counting))
    reset, step = arrayferry.in_jit(envs)
    for actions, is_reusable in (([7, 0], True), ([0, 7], False)):
        state, _ = reset(jax.random.key(0))
        with pytest.raises(jax.errors.JaxRuntimeError, match="the arm is broken"):
            jax.block_until_ready(step(state, jnp.array(actions, "float32")))
        if is_reusable:
            assert played(step, state, 2)[1][0][:, 0].tolist() == [1, 1]
        else:
            with pytest.raises(
                jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"
            ):
                played(step, state, 2)


def test_a_reset_after_a_state_comes_after_its_steps() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting))

    @jax.jit
    def run(key: Any) -> Any:
        state, _ = reset(key)
        state, (before, *_) = step(state, 1.0)
        state, first = reset(key, state)
        _, (after, *_) = step(state, 1.0)
        return before, first, after

    assert [obs[0] for obs in run(jax.random.key(0))] == [1, 0, 1]


def test_unused_results_are_steps_too() -> None:
    env = Toy(BOX, counting)
    reset, step = arrayferry.in_jit(env)

    @jax.jit
    def run(key: Any) -> Any:
        state, _ = reset(key)
        for action in range(5):
            state, _ = step(state, jnp.float32(action))
        return key

    jax.block_until_ready(run(jax.random.key(0)))
    jax.effects_barrier()
    assert env.actions == [0, 1, 2, 3, 4]


def test_actions_are_members_and_the_environment_s_own() -> None:
    env = Toy(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    rollout(reset, step, jax.random.key(0), jnp.arange(5, dtype=jnp.int32))
    assert env.actions == [0, 1, 2, 3, 4]
    assert {np.asarray(action).dtype for action in env.actions} == {np.dtype("float32")}

    class Dicts(Toy):
        action_space = spaces.Dict(left=spaces.Discrete(3), right=spaces.Box(-1, 1, (2,), np.float32))

        def step(self, action: Any) -> Any:
            self.actions.append(action)
            return self._observe(), 1.0, False, False, {}

    env = Dicts(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    rollout(reset, step, jax.random.key(0), {"left": jnp.arange(3), "right": jnp.ones((3, 2))})
    assert [action["left"] for action in env.actions] == [0, 1, 2]
    assert type(env.actions[0]["left"]) is np.int64
    env.actions[0]["right"][:] = 9  # its own, and writable
    assert env.actions[1]["right"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("space", "action", "message"),
    [
        (spaces.Discrete(3), 1.7, r"action: float32\[\] jax where int32\[\] was declared"),
        (spaces.Discrete(3), [1, 1], r"action: int32\[2\] jax where int32\[\] was declared"),
        (BOX, [[0.0, 0.0]], r"action: float32\[1,2\] jax where float32\[2\]"),
        (spaces.MultiDiscrete([2, 2]), [0.6, 1.0], r"float32\[2\] jax where int32\[2\]"),
        (spaces.MultiBinary(2), [0.0, 1.0], r"float32\[2\] jax where int8\[2\]"),
        (spaces.Dict(a=BOX), {"b": 1.0}, r"action: \['b'\] where \['a'\]"),
        (spaces.Dict(a=BOX), 1.0, r"action: float32\[\] jax where \['a'\]"),
        (spaces.Dict(a=spaces.Tuple([BOX])), {"a": (1.0,)}, r'action\["a"\]\[0\]: float32\[\] jax where'),
        (spaces.Tuple([BOX, BOX]), ([0.0, 0.0],), r"action: 1 values where \[0, 1\]"),
        (spaces.Tuple([BOX, BOX]), {"a": 1, "b": 2}, r"action: \['a', 'b'\] where \[0, 1\]"),
    ],
    ids=str,
)
def test_an_action_that_is_no_member_is_refused(space: Any, action: Any, message: str) -> None:
    env = Toy(BOX, counting)
    env.action_space = space
    reset, step = arrayferry.in_jit(env)
    is_leaf = lambda one: isinstance(one, list)  # noqa: E731
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=message):
        step(state, jax.tree.map(jnp.array, action, is_leaf=is_leaf))
    assert env.actions == []


@pytest.mark.parametrize("shape", [(), (2,), (6,), (4, 1)], ids=str)
def test_an_action_for_each_environment(shape: tuple[int, ...]) -> None:
    envs = vector(4, AutoresetMode.SAME_STEP, lambda: Toy(BOX, counting))
    reset, step = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"action: float32\[.*\] jax where float32\[4\]"):
        step(state, jnp.ones(shape))
    assert [env.actions for env in envs.envs] == [[], [], [], []]
    jax.block_until_ready(step(state, jnp.arange(4)))
    assert [env.actions for env in envs.envs] == [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), True),
        (spaces.Box(-1, 1, (2,), np.float64), [0.5, 1.0]),
        (spaces.Box(0, 255, (2,), np.uint8), [1, 255]),
        (spaces.MultiBinary(2), [1, 0]),
        (spaces.MultiBinary(2), [True, False]),
        (spaces.MultiDiscrete([3, 3]), [2, 1]),
        (spaces.Tuple([spaces.Discrete(3), BOX]), (1, [0, 1])),
    ],
    ids=str,
)
def test_an_action_of_another_width_becomes_a_member(space: Any, action: Any) -> None:
    class Taking(Toy):
        def step(self, action: Any) -> Any:
            self.actions.append(action)
            return self._observe(), 1.0, False, False, {}

    env = Taking(BOX, counting)
    env.action_space = space
    reset, step = arrayferry.in_jit(env)
    given = jax.tree.map(jnp.array, action, is_leaf=lambda one: isinstance(one, list))
    jax.block_until_ready(step(reset(jax.random.key(0))[0], given))
    assert space.contains(env.actions[0])


def test_actions_outlive_the_step() -> None:
    class Holding(Toy):
        action_space = spaces.Box(-1e9, 1e9, (1000,), np.float32)

        def step(self, action: Any) -> Any:
            self.actions.append(action)
            return self._observe(), 1.0, False, False, {}

    env, actions = Holding(BOX, counting), np.arange(50_000, dtype=np.float32).reshape(50, 1000)
    rollout(*arrayferry.in_jit(env), jax.random.key(0), actions)
    assert np.array_equal(env.actions, actions)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(5, start=-2),
        spaces.MultiBinary((2, 3)),
        spaces.MultiDiscrete([3, 4]),
        spaces.Box(0, 255, (3, 2), np.uint8),
        spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float64)]),
        spaces.Dict(b=spaces.Discrete(3), a=spaces.Dict(z=BOX, y=spaces.MultiBinary(2))),
    ],
    ids=str,
)
def test_observations_have_the_form_of_their_space(space: spaces.Space[Any]) -> None:
    seen = [space.sample() for _ in range(5)]
    reset, step = arrayferry.in_jit(Toy(space, seen.__getitem__))
    first, (obs, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(4))
    for index, expected in enumerate(seen):
        mine = first if index == 0 else jax.tree.map(lambda leaf, i=index - 1: leaf[i], obs)
        pairs = zip(
            jax.tree.leaves(mine), jax.tree.leaves(dict(expected) if isinstance(expected, dict) else expected)
        )
        assert all(np.array_equal(one, np.asarray(other).astype(one.dtype)) for one, other in pairs)
        assert type(mine) is type(expected) or not isinstance(expected, (dict, tuple))


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Sequence(BOX), spaces.Graph(BOX, None)], ids=str)
def test_a_space_without_a_fixed_shape_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(arrayferry.FerryError, match="no fixed shape"):
        arrayferry.in_jit(Toy(spaces.Dict(inner=space)))
    env = Toy(BOX, counting)
    env.action_space = space
    with pytest.raises(arrayferry.FerryError, match=r"action: .* has no fixed shape"):
        arrayferry.in_jit(env)


@pytest.mark.parametrize(
    ("space", "values", "message"),
    [
        (spaces.Box(0, 2**50, (1,), np.int64), lambda n: np.array([2 ** (20 * n)]), "1099511627776 at"),
        (
            BOX,
            lambda n: np.zeros(2 if n == 0 else 3, np.float32),
            r"obs: float32\[3\] numpy where float32\[2\]",
        ),
        (BOX, lambda n: np.float32(n) if n else np.zeros(2), r"where float32\[2\] was declared"),
        (BOX, lambda n: np.full(2, 1e300 if n else 0), r"1e\+300 at"),
        (spaces.Discrete(9), lambda n: n + 0.5 if n else 0, "0.5|1.5"),
    ],
    ids=["int64", "shape", "scalar", "float64", "discrete"],
)
def test_what_was_not_declared_is_refused(space: Any, values: Any, message: str) -> None:
    reset, step = arrayferry.in_jit(Toy(space, values))
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        rollout(reset, step, jax.random.key(0), jnp.ones(2))


@pytest.mark.parametrize("obs", [{"a": counting(0)}, {"a": counting(0), "c": 1}, {**dict.fromkeys("abc", 0)}])
def test_an_observation_of_other_parts_is_refused(obs: Any) -> None:
    reset, _ = arrayferry.in_jit(Toy(spaces.Dict(a=BOX, b=BOX), lambda count: obs))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"obs: \['a'.* where \['a', 'b'\] was declared"):
        jax.block_until_ready(reset(jax.random.key(0)))


def test_bools_are_0_and_1() -> None:
    odd = np.array([0, 2, 255], np.uint8).view(bool)
    reset, _ = arrayferry.in_jit(Toy(spaces.Box(0, 1, (3,), bool), lambda count: odd))
    _, obs = reset(jax.random.key(0))
    assert np.asarray(obs).view(np.uint8).tolist() == [0, 1, 1]


@pytest.mark.parametrize("reward", [np.float64(2.5), 3, np.array(4.0), True])
def test_a_reward_of_any_kind_of_number(reward: Any) -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting, reward))
    _, (_, rewards, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(2))
    assert rewards.tolist() == [float(reward)] * 2


@pytest.mark.parametrize("reward", [1e300, -1e300])
def test_a_reward_that_does_not_fit_is_refused(reward: float) -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting, reward))
    with pytest.raises(jax.errors.JaxRuntimeError, match="does not fit"):
        jax.block_until_ready(step(reset(jax.random.key(0))[0], 1.0))


def test_nan_and_inf_are_values() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, lambda n: np.array([np.nan, np.inf], np.float32), float("inf")))
    _, (obs, reward, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(1))
    assert np.array_equal(obs, [[np.nan, np.inf]], equal_nan=True)
    assert reward == np.inf


def test_an_exception_of_the_environment_arrives_and_it_goes_on() -> None:
    env = Toy(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    state, _ = reset(jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the arm is broken"):
        jax.block_until_ready(step(state, 7.0))
    state, (obs, *_) = step(state, 1.0)
    assert obs.tolist() == [1, 1]
    with pytest.raises(jax.errors.JaxRuntimeError, match="the arm is broken"):
        rollout(reset, step, jax.random.key(0), jnp.array([1.0, 7.0, 1.0]))
    _, (obs, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(2))
    assert obs[:, 0].tolist() == [1, 2]


def test_a_step_whose_autoreset_fails_was_taken() -> None:
    class Failing(Toy):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            if seed is None:
                raise ValueError("the door is locked")
            return super().reset(seed=seed)

    env = Failing(BOX, counting)
    reset, step = arrayferry.in_jit(env, autoreset=True)
    state, _ = reset(jax.random.key(0))
    state, _ = step(step(state, 1.0)[0], 1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the door is locked"):
        jax.block_until_ready(step(state, 1.0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
        jax.block_until_ready(step(state, 1.0))
    assert len(env.actions) == 3
    _, (obs, *_) = step(reset(jax.random.key(0))[0], 1.0)
    assert obs.tolist() == [1, 1]


def test_infos_by_name() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting), info=("count",))
    _, values = rollout(reset, step, jax.random.key(0), jnp.ones(3))
    assert values[-1]["count"].tolist() == [1, 2, 3]
    assert values[-1]["count"].dtype == np.int32


def test_infos_by_example_are_zeros_where_there_are_none() -> None:
    class Sometimes(Toy):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            return (*rest, {"episode": {"r": 5.0, "l": self.count}} if self.count == 2 else {})

    reset, step = arrayferry.in_jit(Sometimes(BOX, counting), info={"episode": {"r": 0.0, "l": 0}})
    _, values = rollout(reset, step, jax.random.key(0), jnp.ones(3))
    assert values[-1]["episode"]["r"].tolist() == [0, 5, 0]
    assert values[-1]["episode"]["l"].tolist() == [0, 2, 0]


class Telling(Toy):
    """Tells infos, of the reset and of the steps."""

    def __init__(self, *infos: Any) -> None:
        super().__init__(BOX, counting)
        self.infos = infos

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0], self.infos[0]

    def step(self, action: Any) -> Any:
        *rest, _ = super().step(action)
        return (*rest, self.infos[min(self.count, len(self.infos) - 1)])


def test_an_example_may_leave_parts_out() -> None:
    envs = gym.wrappers.vector.RecordEpisodeStatistics(vector(4, AutoresetMode.SAME_STEP))
    reset, step = arrayferry.in_jit(envs, info={"episode": {"r": np.zeros(4)}})
    _, (_, reward, terminated, _, info) = rollout(reset, step, jax.random.key(0), jnp.ones((30, 4), int))
    returns = info["episode"]["r"]
    assert info["episode"].keys() == {"r"}
    assert ((returns > 0) == terminated).all()
    last = 30 - terminated[::-1].argmax(0)
    if GYMNASIUM_IS_RIGHT:
        assert returns.sum(0).tolist() == [reward[: last[row], row].sum() for row in range(4)]

    found = rollout(
        *arrayferry.in_jit(Telling({}, {"q": ({"a": 1, "b": "x"}, 2, 3)}), info={"q": ({"a": 0.0}, 0)}),
        jax.random.key(0),
        jnp.ones(1),
    )[1][-1]["q"]
    assert jax.tree.map(np.ndarray.tolist, found) == ({"a": [1.0]}, [2])


@pytest.mark.parametrize("second", [None, {"z": None}, {"y": 1}, 5, {"z": "text"}, {"z": {"z": 1}}], ids=str)
def test_an_info_of_another_form_is_refused(second: Any) -> None:
    reset, step = arrayferry.in_jit(Telling({}, {"q": {"z": 1}}, {"q": second}), info="q")
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"""UnsupportedError: info\["q"\]\['z'\]: """):
        rollout(reset, step, jax.random.key(0), jnp.ones(2))


@pytest.mark.parametrize("infos", [(1, 0.5), (1.0, 2), (True, 3)], ids=str)
def test_an_info_has_the_dtype_of_the_first_reset_and_step(infos: Any) -> None:
    reset, step = arrayferry.in_jit(Telling(*[{"q": one} for one in infos]), info="q")
    found = rollout(reset, step, jax.random.key(0), jnp.ones(2))[1][-1]["q"]
    assert found.tolist() == [infos[1]] * 2
    assert found.dtype == np.dtype("int32" if infos[0] is True else "float32")


def test_the_first_step_leaves_the_action_space_as_it_was() -> None:
    env = Toy(BOX, counting)
    env.action_space = spaces.Discrete(1000, seed=5)
    arrayferry.in_jit(env, info="count")
    assert env.action_space.sample() == spaces.Discrete(1000, seed=5).sample()


def test_the_final_observation_of_a_single_environment() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting), autoreset=True, info=("final_obs",))
    _, (obs, _, terminated, _, info) = rollout(reset, step, jax.random.key(0), jnp.ones(4))
    assert obs[:, 0].tolist() == [1, 2, 0, 1]
    assert terminated.tolist() == [False, False, True, False]
    assert info["final_obs"][:, 0].tolist() == [0, 0, 3, 0]


@pytest.mark.parametrize("info", ["final_obs", {"final_obs": None}], ids=["name", "example"])
def test_a_final_observation_that_there_never_is_is_refused(info: Any) -> None:
    with pytest.raises(arrayferry.FerryError, match=r"info: there is no final_obs[\s\S]*SAME_STEP"):
        arrayferry.in_jit(vector(2, AutoresetMode.NEXT_STEP), info=info)
    with pytest.raises(arrayferry.FerryError, match=r"info: there is no final_obs[\s\S]*autoreset=True"):
        arrayferry.in_jit(Toy(BOX, counting), info=info)


def test_a_vector_environment_that_nobody_resets_is_refused() -> None:
    with pytest.raises(arrayferry.FerryError, match=r"SyncVectorEnv does not reset[\s\S]*SAME_STEP"):
        arrayferry.in_jit(vector(2, AutoresetMode.DISABLED))


def test_an_environment_with_its_own_functions_for_compiled_code_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pool(Halves):
        """It has a method `xla`, as in EnvPool."""

    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    register_environment(Pool, EnvAdapter("vector", xla="call env.xla()"))
    with pytest.raises(arrayferry.FerryError, match=r"Pool has its own functions[\s\S]*call env.xla\(\)"):
        arrayferry.in_jit(Pool())


def test_an_unknown_info_is_refused() -> None:
    for autoreset in (False, True):
        with pytest.raises(arrayferry.FerryError, match="no info 'lives'") as caught:
            arrayferry.in_jit(Toy(BOX, counting), info=("lives",), autoreset=autoreset)
        assert re.search(r"give an example of it, .*; there are: .*count", caught.value.hint)
        assert ("final_obs" in caught.value.hint) == autoreset
    with pytest.raises(arrayferry.FerryError) as caught:
        arrayferry.in_jit(gym.make("CartPole-v1"), info=("lives",))
    assert caught.value.hint == 'give an example of it, info={"lives": ...}'


def test_jax_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(arrayferry.errors.NotInstalledError, match="in_jit needs JAX") as caught:
        arrayferry.in_jit(gym.make("CartPole-v1"))
    assert caught.value.hint == "pip install jax"


@pytest.mark.parametrize("value", ["north", np.array([None, 1], object)], ids=["text", "objects"])
def test_an_info_that_jax_does_not_hold_is_refused(value: Any) -> None:
    with pytest.raises(arrayferry.FerryError, match=r'info\["where"\].*no counterpart in JAX'):
        arrayferry.in_jit(Toy(BOX, counting), info={"where": value})


def test_one_info_by_its_name() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting), info="count")
    assert step(reset(jax.random.key(0))[0], 1.0)[1][-1]["count"] == 1


def test_vmap_is_refused() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting))
    with pytest.raises(arrayferry.FerryError, match=r"reset cannot be under vmap[\s\S]*vector environment"):
        jax.vmap(reset)(jax.random.split(jax.random.key(0)))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match="step cannot be under vmap"):
        jax.vmap(step, in_axes=(None, 0))(state, jnp.ones(2))


@pytest.mark.parametrize("key", [0, 2**20, 0.5, np.int32(1), np.zeros((2, 2), np.uint32), None], ids=repr)
def test_what_is_no_key_is_refused(key: Any) -> None:
    reset, _ = arrayferry.in_jit(Toy(BOX, counting))
    for is_compiled in (True, False):
        with jax.disable_jit(not is_compiled):
            with pytest.raises(arrayferry.FerryError, match=r"key: .* is not a key") as caught:
                reset(key)
            assert "jax.random.key(0)" in caught.value.hint


def test_keys_old_and_new() -> None:
    reset, _ = arrayferry.in_jit(Toy(spaces.Discrete(2**30)))
    for key in (jax.random.key(3), jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")):
        jax.block_until_ready(reset(key))
    with pytest.raises(arrayferry.FerryError, match="pass one key"):
        reset(jax.random.split(jax.random.key(0)))


def test_numbers_are_actions_without_jit() -> None:
    env = Toy(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    with jax.disable_jit():
        state, _ = reset(jax.random.key(0))
        for action in (1, 2.5, True, np.float32(3), jnp.float32(4)):
            state, (obs, *_) = step(state, action)
        with pytest.raises(arrayferry.FerryError, match=r"action: a dict where float32\[\] was declared"):
            step(state, {"a": 1})
    assert env.actions == [1, 2.5, 1, 3, 4]
    assert obs.tolist() == [5, 5]


@pytest.mark.parametrize("action", [{"a": 1.0}, [1.0], (1.0, 2.0), None], ids=repr)
def test_an_action_that_is_no_array_is_refused(action: Any) -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"action: .* where float32\[\] was declared"):
        step(state, action)


def test_autoreset_is_applied_or_refused_in_vectors() -> None:
    with pytest.raises(arrayferry.FerryError, match=r"autoreset=True, but[\s\S]*SAME_STEP") as caught:
        arrayferry.in_jit(vector(2, AutoresetMode.NEXT_STEP), autoreset=True)
    assert "leave autoreset out" in caught.value.hint
    envs = vector(2, AutoresetMode.SAME_STEP, lambda: Toy(BOX, counting))
    reset, step = arrayferry.in_jit(envs, autoreset=True)
    _, (obs, _, terminated, *_) = rollout(reset, step, jax.random.key(0), jnp.ones((4, 2)))
    assert obs[:, 0, 0].tolist() == [1, 2, 0, 1]
    assert terminated[:, 0].tolist() == [False, False, True, False]


def test_gradients_end_at_the_environment() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"step has no gradient[\s\S]*stop_gradient"):
        jax.grad(lambda action: step(state, action)[1][0].sum())(1.0)

    @jax.grad
    def loss(weight: Any) -> Any:
        state, obs = reset(jax.random.key(0))

        def body(carry: Any, _: Any) -> Any:
            state, obs = carry
            state, (new, reward, *_) = step(state, jax.lax.stop_gradient(weight * obs[0]))
            return (state, new), weight * new.sum() + reward

        return jax.lax.scan(body, (state, obs), None, 3)[1].sum()

    assert loss(1.0) == 2 * (1 + 2 + 3)


def test_a_step_is_not_exported() -> None:
    from jax import export

    reset, step = arrayferry.in_jit(Toy(BOX, counting))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(Exception, match="callback"):
        export.export(step)(state, jnp.float32(1)).serialize()


def test_x64_keeps_what_the_space_declares() -> None:
    with jax.enable_x64(True):
        space = spaces.Box(0, 2.0**50, (1,), np.int64)
        reset, step = arrayferry.in_jit(Toy(space, lambda n: np.array([2**40 + n])))
        _, (obs, reward, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(2))
    assert obs[:, 0].tolist() == [2**40 + 1, 2**40 + 2]
    assert reward.dtype == np.float64


def test_an_environment_written_in_jax() -> None:
    class InJax(Toy):
        def _observe(self) -> Any:
            return jnp.full(2, self.count, jnp.float32)

    env = InJax(BOX)
    reset, step = arrayferry.in_jit(env)
    _, (obs, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(3))
    assert obs[:, 0].tolist() == [1, 2, 3]


def test_it_is_compiled_once() -> None:
    reset, step = arrayferry.in_jit(Toy(BOX, counting))
    traced = []

    @jax.jit
    def run(key: Any, actions: Any) -> Any:
        traced.append(1)
        state, _ = reset(key)
        return jax.lax.scan(step, state, actions)[1][0]

    for seed in range(3):
        run(jax.random.key(seed), jnp.ones(4))
    assert len(traced) == 1


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the state is another one in each callback")
def test_the_threads_of_xla_keep_their_python_state() -> None:
    """A state that is made anew for each callback costs more than a step."""
    threads, local, states = set(), threading.local(), []

    class Asking(Toy):
        def step(self, action: Any) -> Any:
            threads.add(threading.get_native_id())
            if not hasattr(local, "is_known"):
                local.is_known = True
                states.append(1)
            return super().step(action)

    reset, step = arrayferry.in_jit(Asking(BOX, counting))
    run = jax.jit(lambda key, actions: jax.lax.scan(step, reset(key)[0], actions)[1][0])
    # XLA waits for actions that are not there yet in a thread of its own, and goes on there.
    later = jax.jit(lambda x: 0 * jax.lax.fori_loop(0, 30, lambda _, one: jnp.tanh(one @ one), x)[0, :50])
    for _ in range(3):
        run(jax.random.key(0), later(jnp.ones((300, 300)))).block_until_ready()
    assert len(states) == len(threads)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_the_environment_is_another_one(make: Any) -> None:
    env, other = gym.make("CartPole-v1").unwrapped, gym.make("CartPole-v1").unwrapped
    arrayferry.in_jit(env)
    env.reset(seed=0)
    other.reset(seed=0)
    twin = make(env)
    twin.reset(seed=1)
    twin.step(1)
    assert np.array_equal(env.step(0)[0], other.step(0)[0])  # the copy has not stepped the original
