"""The short ways give what the long ways give: into action spaces, narrow dtypes, shared memory."""

import datetime
import types
import warnings

import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry import Converter, convert
from arrayferry.errors import SharingError, UnsupportedError
from arrayferry.wrappers._boundary import Boundary

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
def test_numbers_that_are_no_members_arrive_as_they_are(make, number):
    action = convert(np.array(number), make) if isinstance(make, str) else make(number)
    boundary = entering(spaces.Discrete(3))
    assert_same(boundary.convert_action(action), boundary._convert_any_action(action))


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
def test_whatever_an_action_is(space, action):
    boundary = entering(space)

    def outcome(enter):
        try:
            return enter(action)
        except Exception as error:
            return repr(error)

    found, expected = outcome(boundary.convert_action), outcome(boundary._convert_any_action)
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
    assert_same(found, boundary._convert_any_action(action))
    assert found in space
    action[0] = 0
    assert found[0] == 1


LIMIT = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    "values",
    [[0.0, -0.0], [1e-46, 1e-40], [LIMIT, -LIMIT], [np.inf, np.nan], [1e30, 1e-30], [], [0.1] * 1000],
    ids=str,
)
@pytest.mark.parametrize("layout", [np.array, lambda v: np.array(v, ">f8"), lambda v: np.array([v, v]).T])
def test_floats_are_rounded_in_silence(values, layout):
    pytest.importorskip("jax")
    array = layout(values)
    for kind in ("warn", "raise"):
        with warnings.catch_warnings(), np.errstate(all=kind):
            warnings.simplefilter("error")
            found = np.asarray(convert({"a": array}, "jax")["a"])
    with np.errstate(all="ignore"):
        expected = array.astype(np.float32)
    assert found.dtype == np.float32
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        *(np.array([1, number]) for number in (2**31, -(2**31) - 1, 2**40, 2**63 - 1)),
        *(np.array([1, number], np.uint64) for number in (2**32, 2**63, 2**64 - 1)),
        np.array([1, 2**31], ">i8"),
        np.array([[1, 2**31]] * 3).T,
        *(np.array([1, number]) for number in (LIMIT * 1.0001, -1e300)),
    ],
    ids=repr,
)
def test_nothing_is_lost_in_silence(array):
    pytest.importorskip("jax")
    with pytest.raises(arrayferry.errors.NarrowingError, match="does not fit"):
        convert({"a": array}, "jax")


def test_shared_memory_of_dtypes_that_dlpack_does_not_know():
    pytest.importorskip("jax")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    raw = np.zeros(128, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + 32].view(ml_dtypes.bfloat16)
    assert convert(array, "jax", copy=False).unsafe_buffer_pointer() == array.ctypes.data


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(4, np.float32)[:1][::-1],
        np.zeros((4, 4), np.float32)[:1][::-1],
        np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (1,), (3,)),
    ],
    ids=["reversed", "reversed rows", "odd stride"],
)
def test_odd_strides_of_axes_of_one_are_refused_as_all_others(array):
    pytest.importorskip("torch")
    with pytest.raises(SharingError, match=r'value\["a"\]: torch cannot share this memory'):
        convert({"a": array}, "torch", copy=False)


def test_other_byte_order_is_told():
    pytest.importorskip("torch")
    with pytest.raises(SharingError, match="not in native byte order"):
        convert(np.zeros(4, ">f4"), "torch", copy=False)


@pytest.mark.parametrize("size", [1 << 10, 30_000, 60_000, 1 << 20])
def test_arrays_in_jax_are_complete_whatever_their_size(size):
    jax = pytest.importorskip("jax")
    work, large, converter = jax.jit(lambda x: x @ x @ x), jax.numpy.ones((800, 800)), Converter("jax")
    array = np.zeros(size, np.float32)
    for _ in range(30):
        working = work(large)
        assert converter(array).is_ready()
        assert converter.take(np.zeros(size, np.float32)).is_ready()
    del working


def test_jax_first_met_inside_of_a_trace(run_python):
    pytest.importorskip("jax")
    code = """
import jax, arrayferry, numpy as np
def f(x):
    try:
        arrayferry.convert(x, "numpy")
    except arrayferry.errors.UnsupportedError:
        return x
jax.jit(f)(1.0)
from arrayferry._frameworks._jax_put import array_type
print(array_type() is type(jax.numpy.ones(3)))
"""
    assert run_python(code) == "True\n"


def test_what_is_registered_goes_the_long_way():
    torch = pytest.importorskip("torch")
    from arrayferry._core import convert as module
    from arrayferry._core.type_cache import forget_decisions

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
        module._registered_leaves.clear()
        forget_decisions()


def test_registering_while_others_build_converters():
    import threading

    from arrayferry._core.type_cache import TypeCache

    done, errors = threading.Event(), []

    def build():
        try:
            while not done.is_set():
                Converter("numpy")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            TypeCache.clear_all()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not errors
