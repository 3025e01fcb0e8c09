"""The leaf table of the contract, row by row, for every target that is installed."""

from __future__ import annotations

import enum
import inspect
import random
from array import array as stdlib_array

import numpy as np
import pytest

from arrayferry import Converter, convert
from arrayferry._core.dtypes import STANDARD, cast_for, dtype_name
from arrayferry._core.registry import find_framework, framework_of, register_framework
from arrayferry._core.speedups import speedups
from arrayferry._core.walk import Slot
from arrayferry.testing import bits

VALUES = [[0, 1, 2], [3, 4, 5]]


def is_of(array, name):
    return framework_of(type(array)) is find_framework(name)


# --- arrays of a known framework


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float32"])
def test_array_keeps_shape_values_and_dtype(pair, dtype):
    source, target = pair
    wanted = np.array(VALUES, dtype)
    result = convert(convert(wanted, source), target)
    assert is_of(result, target)
    assert tuple(result.shape) == (2, 3)
    assert dtype_name(result.dtype) == dtype
    # Element by element, as a user reads it, and not through our own way back.
    dense = result.todense() if target == "sparse" else result
    assert [[complex(dense[i, j]) for j in range(3)] for i in range(2)] == wanted.tolist()


def test_signalling_nan_keeps_its_bits(name):
    source = np.array([0x7FA00001], np.uint32).view(np.float32)
    assert bits(convert(source, name)) == bits(source)


def test_bool_of_any_byte_is_true_or_false(name):
    source = np.array([2, 0, 1, 255], np.uint8).view(bool)
    result = convert({"mask": source}, name)["mask"]
    result = result.todense() if name == "sparse" else result
    assert [bool(result[i]) for i in range(4)] == [True, False, True, True]
    assert bits(source) == b"\x02\x00\x01\xff"


def test_bool_of_any_byte_is_counted_by_jax():
    jnp = pytest.importorskip("jax.numpy")
    source = np.array([2, 0, 1, 255], np.uint8).view(bool)
    for leaf in source, np.array(source), convert(source, "numpy"):
        assert int(jnp.sum(convert(leaf, "jax"))) == 3
    assert int(convert(np.array([2, 0, 1, 255], np.uint8).view(bool), "jax").sum()) == 3


@pytest.mark.parametrize(
    "names", [("int64", "longlong"), ("uint64", "ulonglong"), ("int32", "intc")], ids=str
)
@pytest.mark.parametrize("first", [0, 1])
def test_second_names_of_a_dtype(name, names, first):
    # longlong is another type than int64, although they are equal: a decision for one must fit both.
    converter = Converter(name)
    wanted = cast_for(np.dtype(names[0]), find_framework(name).target(None).dtypes()).dtype
    for dtype in names if first == 0 else names[::-1]:
        source = np.array([1, 2], dtype)
        for result in converter(source), converter.take(np.array([1, 2], dtype)):
            assert dtype_name(result.dtype) == wanted.name
            assert bits(result) == bits(source.astype(wanted))
        assert bits(converter(source[0])) == bits(source[0].astype(wanted))


def test_subclass_becomes_an_array(name):
    class Logged(np.ndarray):
        pass

    result = convert(np.array(VALUES, "float32").view(Logged), name)
    assert is_of(result, name)
    assert type(result) is not Logged
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(VALUES, np.float32)
    assert tuple(convert(matrix, name).shape) == (2, 3)


# --- numbers


@pytest.mark.parametrize("number", [3, -7, 0.5, 1.5 - 2j], ids=repr)
def test_number_becomes_what_the_framework_makes_of_it(name, number):
    namespace = find_framework(name).load()
    own = getattr(namespace, "asarray", getattr(namespace, "array", None))(number)
    result = convert(number, name)
    assert is_of(result, name)
    assert tuple(result.shape) == ()
    assert dtype_name(result.dtype) == dtype_name(own.dtype)
    assert complex(result) == number


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**30], ids=repr)
def test_number_that_fits_nowhere_is_an_overflow_error(name, number):
    with pytest.raises(OverflowError, match=rf"value\[0\]: int -> \w+ {name}: {number} does not fit"):
        convert([number], name)


def test_number_that_fits_is_exact(name):
    bound = 2 ** (8 * np.dtype(find_framework(name).target(None).defaults()[int]).itemsize - 1)
    for number in -bound, bound - 1:
        assert int(convert(number, name)) == number
    for number in -bound - 1, bound:
        with pytest.raises(OverflowError, match=str(number)):
            convert(number, name)


def test_float_that_would_become_infinite_is_an_overflow_error(name):
    if find_framework(name).target(None).defaults()[float] == "float64":
        assert float(convert(1e300, name)) == 1e300
    else:
        with pytest.raises(OverflowError, match=r"1e\+300 does not fit"):
            convert(1e300, name)
    assert float(convert(float("inf"), name)) == float("inf")


@pytest.mark.parametrize(
    ("number", "dtypes"),
    [
        (2**40, {"int32": "int64"}),
        (-1, {"int32": "uint64"}),
        (2**63, {"int32": "uint64"}),
        (2**24 + 1, {"int32": "float64"}),
        (2**70 + 1, {"int32": "float64"}),
        (10**400, {"int32": "float64"}),
        (1e300, {"float32": "float64"}),
        (2.5, {"float32": "int64"}),
        (float("nan"), {"float32": "int64"}),
        (1 + 2j, {"complex64": "float64"}),
        (1e300 + 0j, {"complex64": "complex128"}),
    ],
    ids=str,
)
def test_number_is_checked_where_the_target_lacks_the_dtype_that_was_asked_for(number, dtypes):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False), pytest.raises(OverflowError, match=r'value\["n"\]: .* does not fit'):
        convert({"n": number}, "jax", dtypes=dtypes)


def test_number_that_the_next_dtype_holds_is_exact():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        for number, default, asked, used in [
            (2**31 - 1, "int32", "int64", "int32"),
            (2**32 - 1, "int32", "uint64", "uint32"),
            (2**70, "int32", "float64", "float32"),
            (3.0, "float32", "int64", "int32"),
            (float("inf"), "float32", "float64", "float32"),
        ]:
            result = convert(number, "jax", dtypes={default: asked})
            assert (result.dtype, result.item()) == (used, number)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1], ids=repr)
def test_number_beyond_int64_fits_the_unsigned_dtype_that_was_asked_for(number):
    result = convert([number], "numpy", dtypes={"int64": "uint64"})[0]
    assert (result.dtype, int(result)) == ("uint64", number)
    with pytest.raises(OverflowError, match=r'dtypes=\{"int64": "uint64"\}'):
        convert(number, "numpy")
    for lost in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError, match="does not fit"):
            convert(lost, "numpy", dtypes={"int64": "uint64"})
    assert float(convert(number, "numpy", dtypes={"int64": "float64"})) == float(number)
    assert float(convert(2**70, "numpy", dtypes={"int64": "float64"})) == 2.0**70


def test_numbers_in_jax_are_strongly_typed():
    pytest.importorskip("jax")
    assert not any(convert(number, "jax").weak_type for number in (1, 0.5, 1j))


def test_numbers_follow_the_default_dtype_of_torch():
    torch = pytest.importorskip("torch")
    to_torch = Converter("torch")
    assert to_torch(0.1).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert to_torch(0.1).dtype == torch.float64
        assert to_torch(0.1).item() == 0.1
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", sorted(STANDARD))
def test_numpy_scalar_becomes_0d_of_its_dtype(name, dtype):
    cast = cast_for(np.dtype(dtype), find_framework(name).target(None).dtypes())
    result = convert({"x": np.dtype(dtype).type(1)}, name)["x"]
    assert is_of(result, name)
    assert tuple(result.shape) == ()
    assert dtype_name(result.dtype) == cast.dtype.name
    assert complex(result) == 1


# --- what stays as it is


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


UNCHANGED = [
    True,
    False,
    None,
    "text",
    b"bytes",
    Text("text"),
    Color.RED,
    Level.LOW,
    bytearray(b"x"),
    memoryview(b"x"),
    stdlib_array("d", [1.0]),
    np.random.default_rng(0),
    random.Random(0),
    test_subclass_becomes_an_array,
    int,
    np.float32,
    {1, 2},
    frozenset({1}),
    range(3),
    (number for number in [1]),
    object(),
    Ellipsis,
    slice(3),
    np.dtype("f4"),
]


@pytest.mark.parametrize("leaf", UNCHANGED, ids=lambda leaf: type(leaf).__name__)
def test_other_objects_stay_the_same_object(name, leaf):
    assert convert(leaf, name) is leaf
    assert convert({"x": [leaf]}, name, copy=True)["x"][0] is leaf
    assert convert({"x": (leaf,)}, name, copy=False)["x"][0] is leaf


def test_a_generator_is_not_consumed(name):
    generator = (number for number in [1, 2])
    convert([generator], name)
    assert inspect.getgeneratorstate(generator) == "GEN_CREATED"


WITHOUT_COUNTERPART = {
    "str": np.array(["go", "left"]),
    "bytes": np.array([b"go"]),
    "datetime64": np.array(["2020-01-01"], "M8[D]"),
    "timedelta64": np.array([1], "m8[s]"),
    "structured": np.zeros(2, [("x", "f4"), ("y", "i8")]),
    "structured with objects": np.zeros(2, [("x", "f4"), ("y", "O")]),
    "recarray": np.rec.array([(1, 2.0)]),
    "void": np.zeros(2, "V3"),
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
    "str scalar": np.str_("go"),
    "datetime64 scalar": np.datetime64("2020-01-01"),
    "void scalar": np.zeros((), "i4,f8")[()],
}
if hasattr(np.dtypes, "StringDType"):  # from NumPy 2 on
    WITHOUT_COUNTERPART["strings of any length"] = np.array(["go"], np.dtypes.StringDType())
if np.dtype(np.longdouble).itemsize > 8:
    WITHOUT_COUNTERPART["longdouble"] = np.zeros(2, np.longdouble)
    WITHOUT_COUNTERPART["clongdouble"] = np.zeros(2, np.clongdouble)


def walker(name, on_keep):
    return Converter(name).walker([Slot("obs", on_keep=on_keep)])


def assert_own_array(found, leaf):
    """NumPy holds all of its own dtypes: what it receives is an array of its own."""
    assert type(found) is type(leaf)
    assert found.dtype == leaf.dtype
    assert repr(found) == repr(leaf)
    if isinstance(leaf, np.ndarray):
        assert not np.shares_memory(found, leaf)


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("kind", WITHOUT_COUNTERPART)
def test_numpy_receives_arrays_of_all_its_dtypes_as_its_own(kind, copy):
    leaf = WITHOUT_COUNTERPART[kind]
    assert_own_array(convert({"x": leaf}, "numpy", copy=copy)["x"], leaf)
    assert convert({"x": leaf}, "numpy", copy=False)["x"] is leaf or isinstance(leaf, np.void)


@pytest.mark.parametrize("kind", WITHOUT_COUNTERPART)
def test_array_without_counterpart_stays_the_same_object(name, kind):
    leaf = WITHOUT_COUNTERPART[kind]
    kept = []
    box = [{"info": [1.0, leaf]}]
    result = walker(name, lambda name, path, leaf: kept.append((path(), leaf))).convert(box)
    if name == "numpy":
        assert_own_array(result["info"][1], leaf)
        assert kept == []
        return
    assert result["info"][1] is leaf
    assert [path for path, _ in kept] == ['obs["info"][1]']
    assert kept[0][1] is leaf


def test_only_leaves_without_counterpart_are_told(name):
    kept = []
    walker(name, lambda name, path, leaf: kept.append(path())).convert([UNCHANGED])
    assert kept == []


def test_typed_prng_key_stays_the_same_object(name):
    jax = pytest.importorskip("jax")
    key = jax.random.key(0)
    assert convert({"key": key}, name)["key"] is key
    assert convert({"key": key}, name, copy=True)["key"] is key


def test_int4_leaves_jax_as_it_is(name):
    jnp = pytest.importorskip("jax.numpy")
    leaf = jnp.array([-8, 7], jnp.int4)
    result = convert([leaf], name)[0]
    assert result is leaf if name != "jax" else (result.dtype == "int4" and result.tolist() == [-8, 7])


# --- object arrays


def test_object_array_has_its_elements_converted(name):
    leaf = np.arange(3, dtype="float32")
    source = np.empty((2, 2), object)
    source[0, 0], source[0, 1], source[1, 0], source[1, 1] = leaf, None, "done", {"x": leaf}
    result = convert(source, name)
    assert type(result) is np.ndarray
    assert (result.dtype, result.shape) == (object, (2, 2))
    assert is_of(result[0, 0], name)
    assert is_of(result[1, 1]["x"], name)
    assert (result[0, 1], result[1, 0]) == (None, "done")
    assert source[0, 0] is leaf
    assert source[1, 1]["x"] is leaf


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 0, 1)], ids=str)
def test_object_array_of_any_shape(name, shape):
    source = np.full(shape, "text", object)
    result = convert(source, name)
    assert (result.dtype, result.shape) == (object, shape)
    assert result.tolist() == source.tolist()


def test_object_array_of_equal_arrays_is_not_stacked(name):
    source = np.empty(2, object)
    source[:] = [np.zeros(3, "float32"), np.ones(3, "float32")]
    result = convert(source, name)
    assert result.shape == (2,)
    assert bits(result[1]) == bits(source[1])


def test_object_array_element_is_named_in_messages(name):
    source = np.full((2, 3), None, object)
    source[1, 2] = [2**70]
    with pytest.raises(OverflowError, match=r"value\[1, 2\]\[0\]: "):
        convert(source, name)


# --- arrays that are dense only elsewhere


def test_sparse_and_dask_become_what_their_users_would_call(name):
    dense = np.array([[0, 1.5, 0], [0, 0, -2]], "float32")
    sources = []
    if sparse := pytest.importorskip("sparse"):
        sources += [sparse.COO.from_numpy(dense), sparse.GCXS.from_numpy(dense)]
        sources += [sparse.COO.from_numpy(dense + 7, fill_value=7)]
    dask = pytest.importorskip("dask.array")
    sources += [dask.from_array(dense, chunks=(1, 2)), dask.from_array(dense, chunks=1).T + 1]
    wanted = [dense, dense, dense + 7, dense, dense.T + 1]
    for source, values in zip(sources, wanted, strict=True):
        result = convert(source, name)
        assert is_of(result, name)
        assert bits(result) == bits(values)


def test_path_of_a_kept_leaf_is_built_only_on_request():
    pytest.importorskip("array_api_strict")
    asked = []
    slot = Slot("info", on_keep=lambda name, path, leaf: asked.append(name))
    Converter("array_api_strict").walker([slot]).convert([np.array([np.str_("a")] * 100, object)])
    assert asked == ["info"] * 100  # the path was not asked for


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "bfloat16"])
@pytest.mark.parametrize("depth", [0, 60])  # of which the walk in Python does the last part
def test_an_array_of_another_framework_is_read_once(dtype, depth):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    if speedups is None:
        pytest.skip("the fast reader is in C")
    framework, reads = find_framework("torch"), []

    class Counting(type(framework)):
        def source(self, cls):
            source = super().source(cls)
            copy = lambda tensor: (reads.append(tensor), source.fast_copy(tensor))[1]  # noqa: E731
            return source._replace(fast_copy=copy)

    register_framework(Counting(), replace=True)
    try:
        value = torch.ones(3, dtype=getattr(torch, dtype))
        for _ in range(depth):
            value = [value]
        found = Converter("jax")(value)
    finally:
        register_framework(framework, replace=True)
    for _ in range(depth):
        [found] = found
    assert isinstance(found, jax.Array)
    assert len(reads) == 1
