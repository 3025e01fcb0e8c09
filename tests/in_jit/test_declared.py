"""What goes in and comes out has the declared shapes, dtypes and parts, or is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import arrayferry
from helpers.compare import GYMNASIUM_IS_RIGHT
from in_jit.helpers import BOX, Scripted, counting, rollout, vector

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("compiled_quickly", "way")


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
    env = Scripted(BOX, counting)
    env.action_space = space
    reset, step = arrayferry.in_jit(env)
    is_leaf = lambda one: isinstance(one, list)  # noqa: E731
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=message):
        step(state, jax.tree.map(jnp.array, action, is_leaf=is_leaf))
    assert env.actions == []


@pytest.mark.parametrize("shape", [(), (2,), (6,), (4, 1)], ids=str)
def test_an_action_for_each_environment(shape: tuple[int, ...]) -> None:
    envs = vector(4, AutoresetMode.SAME_STEP, lambda: Scripted(BOX, counting))
    reset, step = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"action: float32\[.*\] jax where float32\[4\]"):
        step(state, jnp.ones(shape))
    assert [env.actions for env in envs.envs] == [[], [], [], []]
    jax.block_until_ready(step(state, jnp.arange(4)))
    assert [env.actions for env in envs.envs] == [[0], [1], [2], [3]]


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
    reset, step = arrayferry.in_jit(Scripted(space, seen.__getitem__))
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
        arrayferry.in_jit(Scripted(spaces.Dict(inner=space)))
    env = Scripted(BOX, counting)
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
    reset, step = arrayferry.in_jit(Scripted(space, values))
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        rollout(reset, step, jax.random.key(0), jnp.ones(2))


@pytest.mark.parametrize("obs", [{"a": counting(0)}, {"a": counting(0), "c": 1}, {**dict.fromkeys("abc", 0)}])
def test_an_observation_of_other_parts_is_refused(obs: Any) -> None:
    reset, _ = arrayferry.in_jit(Scripted(spaces.Dict(a=BOX, b=BOX), lambda count: obs))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"obs: \['a'.* where \['a', 'b'\] was declared"):
        jax.block_until_ready(reset(jax.random.key(0)))


def test_bools_are_0_and_1() -> None:
    odd = np.array([0, 2, 255], np.uint8).view(bool)
    reset, _ = arrayferry.in_jit(Scripted(spaces.Box(0, 1, (3,), bool), lambda count: odd))
    _, obs = reset(jax.random.key(0))
    assert np.asarray(obs).view(np.uint8).tolist() == [0, 1, 1]


@pytest.mark.parametrize("reward", [np.float64(2.5), 3, np.array(4.0), True])
def test_a_reward_of_any_kind_of_number(reward: Any) -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting, reward))
    _, (_, rewards, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(2))
    assert rewards.tolist() == [float(reward)] * 2


@pytest.mark.parametrize("reward", [1e300, -1e300])
def test_a_reward_that_does_not_fit_is_refused(reward: float) -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting, reward))
    with pytest.raises(jax.errors.JaxRuntimeError, match="does not fit"):
        jax.block_until_ready(step(reset(jax.random.key(0))[0], 1.0))


def test_nan_and_inf_are_values() -> None:
    reset, step = arrayferry.in_jit(
        Scripted(BOX, lambda n: np.array([np.nan, np.inf], np.float32), float("inf"))
    )
    _, (obs, reward, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(1))
    assert np.array_equal(obs, [[np.nan, np.inf]], equal_nan=True)
    assert reward == np.inf


class Telling(Scripted):
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
    where = r"""info\["q"\](\["z"\]: .* where int32\[\]|: .* where \['z'\]) was declared"""
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"UnsupportedError: {where}"):
        rollout(reset, step, jax.random.key(0), jnp.ones(2))


@pytest.mark.parametrize("second", [None, {"z": None}, {"y": 1}, 5, {"z": "text"}, {"z": {"z": 1}}], ids=str)
def test_a_first_reset_and_step_whose_infos_differ_in_form_are_refused(second: Any) -> None:
    where = r"""info\["q"\](\["z"\]: .* no counterpart|: .* where \['z'\] was declared)"""
    with pytest.raises(arrayferry.FerryError, match=where):
        arrayferry.in_jit(Telling({"q": {"z": 1}}, {"q": second}), info="q")


@pytest.mark.parametrize("infos", [(1, 0.5), (1.0, 2), (True, 3)], ids=str)
def test_an_info_has_the_dtype_of_the_first_reset_and_step(infos: Any) -> None:
    reset, step = arrayferry.in_jit(Telling(*[{"q": one} for one in infos]), info="q")
    found = rollout(reset, step, jax.random.key(0), jnp.ones(2))[1][-1]["q"]
    assert found.tolist() == [infos[1]] * 2
    assert found.dtype == np.dtype("int32" if infos[0] is True else "float32")


@pytest.mark.parametrize("value", ["north", np.array([None, 1], object)], ids=["text", "objects"])
def test_an_info_that_jax_does_not_hold_is_refused(value: Any) -> None:
    with pytest.raises(arrayferry.FerryError, match=r'info\["where"\].*no counterpart in JAX'):
        arrayferry.in_jit(Scripted(BOX, counting), info={"where": value})


def test_numbers_are_actions_without_jit() -> None:
    env = Scripted(BOX, counting)
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
    reset, step = arrayferry.in_jit(Scripted(BOX, counting))
    state, _ = reset(jax.random.key(0))
    with pytest.raises(arrayferry.FerryError, match=r"action: .* where float32\[\] was declared"):
        step(state, action)
