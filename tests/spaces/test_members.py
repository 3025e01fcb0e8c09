"""Actions become members of a space; the fast cast and the general one give the same."""

import datetime
import types

import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry import Converter, convert
from arrayferry._boundary.boundary import Boundary
from arrayferry.errors import UnsupportedError
from arrayferry.spaces import member_caster
from helpers.envs import FakeFramework

FRAMEWORKS = [name for name in ("numpy", "torch", "jax") if name in arrayferry.frameworks()]


def entering(space, target="numpy"):
    return Boundary(types.SimpleNamespace(action_space=space), "numpy", target)


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, (np.ndarray, np.generic)):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("make", [int, np.int64, np.int8, lambda n: np.array(n, ">i4"), *FRAMEWORKS])
@pytest.mark.parametrize("number", range(-9, 9))
def test_fast_cast_of_numbers_is_the_general_one(make, number):
    action = convert(np.array(number), make) if isinstance(make, str) else make(number)
    boundary = entering(spaces.Discrete(3))
    assert_same(boundary.convert_action(action), boundary.state.convert_any_action(action))


@pytest.mark.parametrize(
    "action",
    [
        *(True, False, 1.0, 1.5, float("nan"), 2**70, None, "1", [1], (1,), {}, datetime.timedelta(1)),
        *(np.bool_(True), np.float32(1), np.timedelta64(1, "ns"), np.datetime64(1, "ns"), np.str_("1")),
        *(np.array(1, "m8[ns]"), np.array([1]), np.array([[1]]), np.array(1.0), np.array([0, 1])),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(3), spaces.MultiDiscrete([3]), spaces.MultiBinary(1), spaces.Box(-1, 1, (1,))],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::arrayferry.errors.KeptWarning")
def test_fast_cast_of_any_action_is_the_general_one(space, action):
    boundary = entering(space)

    def outcome(enter):
        try:
            return enter(action)
        except Exception as error:
            return repr(error)

    found, expected = outcome(boundary.convert_action), outcome(boundary.state.convert_any_action)
    assert repr(found) == repr(expected)
    assert type(found) is type(expected)


def test_a_fake_tensor_is_refused_as_an_action():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.tensor(1))
    with pytest.raises(UnsupportedError):
        entering(spaces.Discrete(3), "torch").convert_action(fake)


@pytest.mark.parametrize("old", ["int8", "int32", ">i4", "uint8", "bool", "int64"])
def test_actions_of_a_narrower_dtype_become_members(old):
    pytest.importorskip("torch")
    space = spaces.MultiDiscrete([2, 2, 2])
    action = convert(np.array([1, 0, 1], old), "torch")
    boundary = entering(space, "torch")
    found = boundary.convert_action(action)
    assert_same(found, boundary.state.convert_any_action(action))
    assert found in space
    action[0] = 0
    assert found[0] == 1


def test_registered_leaf_applies_to_actions():
    torch = pytest.importorskip("torch")
    from arrayferry._core.type_cache import clear_type_caches, registrations

    boundaries = [entering(spaces.Discrete(5), "torch"), entering(spaces.Box(-9, 9, (2,)), "torch")]
    actions = [torch.tensor(1), torch.zeros(2)]
    for boundary, action in zip(boundaries, actions):
        boundary.convert_action(action)
    arrayferry.register_leaf(torch.Tensor, lambda value, converter: converter(value.numpy() + 1))
    try:
        found = [boundary.convert_action(action) for boundary, action in zip(boundaries, actions)]
        assert found[0] == 2
        assert found[1].tolist() == [1, 1]
    finally:
        registrations.clear()
        clear_type_caches()


def test_bfloat16_actions_become_members():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    fit = member_caster(spaces.Box(-1, 1, (2,)), Converter("numpy"))
    assert fit(np.array([0.5, 1], bfloat16)).dtype == np.float32


def test_actions_that_are_no_members_stay_the_same_object():
    box = spaces.Box(-1, 1, (2,))
    one_of = member_caster(spaces.OneOf([box, box]), Converter("numpy"))
    action = (np.array(1.7), np.zeros(2, np.float32))
    assert one_of(action) is action
    stacked = member_caster(spaces.Sequence(spaces.Dict(a=box), stack=True), Converter("numpy"))
    for action in {"a": np.zeros((3, 2)), "b": 1}, {}, np.zeros(3):
        assert stacked(action) is action
    stacked = member_caster(spaces.Sequence(spaces.Tuple([box, box]), stack=True), Converter("numpy"))
    action = (np.zeros((3, 2)),) * 3
    assert stacked(action) is action


@pytest.mark.parametrize("kind", [lambda shape: tuple(map(np.int64, shape)), list, tuple])
def test_shape_of_a_space_may_be_any_sequence_of_integers(kind):
    torch = pytest.importorskip("torch")

    class Odd(spaces.Box):
        shape = property(lambda self: kind(self._shape))

    env = FakeFramework(lambda: (np.zeros(3, np.float32), 1.0, False, False, {}))
    env.action_space, taken = Odd(-1, 1, (2,)), []
    env.step = lambda action: (taken.append(action), env.make())[1]
    wrapped = arrayferry.wrap(env, "torch")
    wrapped.reset()
    for action in (torch.ones(2), torch.ones(3), torch.ones(2, dtype=torch.float64)):
        wrapped.step(action)
    assert [one.tolist() for one in taken] == [[1, 1], [1, 1, 1], [1, 1]]
    assert taken[0].dtype == np.float32
