"""Dtypes that the target has not: rounded or checked, never changed silently; and casts on purpose."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from arrayferry import Converter, FerryError, convert, frameworks
from arrayferry._core.dtypes import ML_DTYPES, STANDARD, can_hold, dtype_name, first_lost
from arrayferry._core.registry import find_framework
from arrayferry.errors import NarrowingError
from arrayferry.testing import bits, edges

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

F32 = np.finfo(np.float32)


@pytest.fixture
def _no_x64():
    with jax.enable_x64(False):
        yield


@pytest.fixture
def _x64():
    with jax.enable_x64(True):
        yield


# --- JAX without x64: (dtype, what it becomes, values that fit, values that do not)

NARROW = {
    "int64": ("int32", [0, -1, 2**31 - 1, -(2**31)], [2**31, -(2**31) - 1, 2**40, 2**63 - 1, -(2**63)]),
    "uint64": ("uint32", [0, 2**32 - 1, 2**31], [2**32, 2**63 + 5, 2**64 - 1]),
    "float64": (
        "float32",
        [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, float(F32.max), float(F32.min), 5e-324, 1e-300],
        [1e300, -1e300, 3.4028236e38, float(np.finfo(np.float64).max)],
    ),
    "complex128": (
        "complex64",
        [0, 1 - 2j, complex(np.inf, 1), complex(1, -np.inf), complex(np.nan, 0), float(F32.max)],
        [1e300, 1e300j, complex(1, -1e39), complex(np.nan, 1e300), complex(1e300, np.inf)],
    ),
}
FITS = [(dtype, value) for dtype, (_, fits, _) in NARROW.items() for value in fits]
LOST = [(dtype, value) for dtype, (_, _, lost) in NARROW.items() for value in lost]


def sources(array):
    """The same values where they may come from."""
    yield array
    yield array[::-1][::-1]
    yield array.astype(array.dtype.newbyteorder())
    if "torch" in frameworks():
        yield convert(array, "torch")


@pytest.mark.usefixtures("_no_x64")
@pytest.mark.parametrize(("dtype", "value"), FITS, ids=str)
def test_value_that_fits_is_narrowed(dtype, value):
    array = np.array([[1, value]], dtype)
    wanted = array.astype(NARROW[dtype][0])
    for source in sources(array):
        result = convert(source, "jax")
        assert result.dtype == NARROW[dtype][0]
        assert bits(result) == bits(wanted)
    scalar = convert(array[0, 1], "jax")
    assert bits(scalar) == bits(wanted[0, 1])


@pytest.mark.usefixtures("_no_x64")
@pytest.mark.parametrize(("dtype", "value"), LOST, ids=str)
def test_value_that_does_not_fit_is_an_error(dtype, value):
    array = np.array([[1, 1], [value, 1]], dtype)
    for source in sources(array):
        with pytest.raises(OverflowError) as caught:
            convert({"obs": [source]}, "jax")
        error = caught.value
        framework = "numpy" if isinstance(source, np.ndarray) else "torch"
        assert isinstance(error, NarrowingError)
        assert error.where == 'value["obs"][0]'
        assert f"{dtype}[2,2] {framework} -> {NARROW[dtype][0]} jax: {array[1, 0]}" in error.what
        assert "[1, 0]" in error.what
        assert "jax_enable_x64" in error.hint
        assert "dtypes=" in error.hint
    with pytest.raises(OverflowError, match="does not fit"):
        convert(array[1, 0], "jax")


@pytest.mark.usefixtures("_x64")
@pytest.mark.parametrize(("dtype", "value"), FITS + LOST, ids=str)
def test_with_x64_nothing_is_narrowed(dtype, value):
    array = np.array([1, value], dtype)
    for source in sources(array):
        result = convert(source, "jax")
        assert result.dtype == dtype
        assert bits(result) == bits(array)
    assert bits(convert(convert(array, "jax"), "numpy")) == bits(array)


def test_x64_is_looked_at_in_each_call():
    to_jax = Converter("jax")
    array = np.array([2**40])
    for _ in range(2):
        with jax.enable_x64(True):
            assert to_jax(array).tolist() == [2**40]
            assert to_jax(2**40).dtype == "int64"
        with jax.enable_x64(False), pytest.raises(OverflowError):
            to_jax(array)


@pytest.mark.usefixtures("_no_x64")
def test_empty_and_0d_are_narrowed():
    for shape in (), (0,), (2, 0):
        result = convert(np.zeros(shape, "int64"), "jax")
        assert (result.shape, result.dtype) == (shape, "int32")


def test_no_warning_is_given_for_what_is_allowed():
    # Warnings are errors here: NumPy warns when a cast overflows.
    with jax.enable_x64(False):
        assert convert(np.array([np.inf, np.nan, 1e-310]), "jax").dtype == "float32"


def test_a_framework_without_the_dtype_gets_the_next_wider_one(name):
    available = find_framework(name).target(None).dtypes()
    for dtype, wider in ("float16", "float32"), ("bfloat16", "float32"), ("float8_e5m2", "float32"):
        result = convert(np.arange(4).astype(edges(dtype).dtype), name)
        assert dtype_name(result.dtype) == (dtype if dtype in available else wider)
        result = result.todense() if name == "sparse" else result
        assert [float(result[i]) for i in range(4)] == [0, 1, 2, 3]


# --- bfloat16 and float8: every bit pattern there is


def test_every_pattern_of_small_dtypes(pair):
    source, target = (find_framework(name) for name in pair)
    for dtype in sorted(
        source.target(None).dtypes() & target.target(None).dtypes() & ML_DTYPES | {"uint8", "int16"}
    ):
        size = 8 * edges(dtype).itemsize
        every = np.arange(2**size, dtype=f"uint{size}").view(edges(dtype).dtype)
        result = convert(convert(every, source.name), target.name)
        assert dtype_name(result.dtype) == dtype
        assert bits(result) == bits(every)


# --- dtypes=


def test_cast_on_purpose(pair):
    source, target = (find_framework(name) for name in pair)
    olds = source.target(None).dtypes() & {"int32", "float32", "uint8", "bool"}
    news = target.target(None).dtypes() & {"int16", "float32", "float16", "bfloat16", "uint8"}
    for old, new in product(olds, news):
        values = np.array([[0, 1, 2]]).astype(old)
        value = {"x": convert(values, source.name)}
        result = convert(value, target.name, dtypes={old: new})["x"]
        assert dtype_name(result.dtype) == new
        result = result.todense() if target.name == "sparse" else result
        assert [float(result[0, i]) for i in range(3)] == values[0].tolist()


def test_cast_on_purpose_may_lose_values(name):
    source = np.array([2.0**40, 0.1], "float64")
    result = convert(source, name, dtypes={"float64": "float32"})
    assert dtype_name(result.dtype) == "float32"
    assert bits(result) == bits(source.astype("float32"))
    result = convert(np.array([2**40 + 1]), name, dtypes={"int64": "float32"})
    assert bits(result) == np.float32(2**40).tobytes()
    with pytest.raises(OverflowError, match="dtypes="), jax.enable_x64(False):
        convert(np.array([2**40 + 1]), "jax")


@pytest.mark.parametrize("target", [name for name in ("numpy", "torch", "jax") if name in frameworks()])
def test_cast_on_purpose_is_quiet(target):
    # Warnings are errors here: NumPy warns when a cast overflows.
    result = convert(np.array([1e300, np.nan, 1.0]), target, dtypes={"float64": "float32"})
    assert [float(value) for value in result][::2] == [np.inf, 1.0]


def test_only_the_named_dtype_is_cast(name):
    value = {"a": np.zeros(2, "float32"), "b": np.zeros(2, "uint8"), "c": np.str_("text")}
    result = convert(value, name, dtypes={"uint8": "float32", "float64": "float32"})
    assert dtype_name(result["a"].dtype) == dtype_name(result["b"].dtype) == "float32"
    assert result["c"] is value["c"]


def test_numbers_are_cast_too(name):
    own = find_framework(name).target(None).defaults()[float]
    other = "float32" if own == "float64" else "float16"
    assert dtype_name(convert(0.5, name, dtypes={own: other}).dtype) == other
    assert dtype_name(convert(np.float32(1), name, dtypes={"float32": "int32"}).dtype) == "int32"


@pytest.mark.parametrize(
    "dtypes",
    [
        {"float64": "float32"},
        {np.float64: np.float32},
        {np.dtype("f8"): np.dtype("f4")},
        {"float64": jnp.float32},
    ],
    ids=str,
)
def test_dtypes_are_named_in_any_way(dtypes):
    assert Converter("numpy", dtypes=dtypes)(np.zeros(2)).dtype == np.float32


def test_dtypes_of_torch_name_dtypes():
    torch = pytest.importorskip("torch")
    convert_it = Converter("torch", dtypes={torch.float64: torch.bfloat16})
    assert convert_it(np.zeros(2)).dtype == torch.bfloat16


@pytest.mark.parametrize("dtypes", [{"float63": "float32"}, {"float64": "f"}, {"object": "int8"}], ids=str)
def test_unknown_dtype_is_an_error_that_lists_them(dtypes):
    with pytest.raises(ValueError, match=r"there is no dtype .*\n.*float32") as caught:
        Converter("numpy", dtypes=dtypes)
    assert isinstance(caught.value, FerryError)


@pytest.mark.usefixtures("_no_x64")
def test_cast_to_what_the_target_has_not_is_the_next_that_it_has():
    pytest.importorskip("dask")
    for source in np.zeros(2, "float32"), jnp.zeros(2, "float32"):
        assert convert(source, "jax", dtypes={"float32": "float64"}).dtype == "float32"
    for source in np.array([2**40]), convert(np.array([2**40]), "dask"):
        with pytest.raises(OverflowError):
            convert(source, "jax", dtypes={"int64": "int64"})


def test_jax_array_made_under_x64_is_checked_outside_of_it():
    with jax.enable_x64(True):
        inside = jnp.array([2**40])
    with jax.enable_x64(False):
        assert convert(inside, "numpy").tolist() == [2**40]


def test_the_remedy_in_the_message_works_for_numbers():
    pytest.importorskip("jax")
    with pytest.raises(OverflowError, match=r'dtypes=\{"int64": "int32"\}'):
        convert({"n": 2**40}, "jax")
    assert convert({"n": 2**40}, "jax", dtypes={"int64": "int32"})["n"].dtype == "int32"


def test_dtypes_must_be_a_mapping():
    with pytest.raises(ValueError, match="pass a mapping such as"):
        convert(1, "numpy", dtypes="float32")


LIMIT = float(F32.max)


@pytest.mark.parametrize(
    "values",
    [[0.0, -0.0], [1e-46, 1e-40], [LIMIT, -LIMIT], [np.inf, np.nan], [1e30, 1e-30], [], [0.1] * 1000],
    ids=str,
)
@pytest.mark.parametrize("layout", [np.array, lambda v: np.array(v, ">f8"), lambda v: np.array([v, v]).T])
def test_floats_are_rounded_without_a_warning(values, layout):
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
def test_value_of_any_layout_that_does_not_fit_is_an_error(array):
    with pytest.raises(NarrowingError, match="does not fit"):
        convert({"a": array}, "jax")


# --- whether a dtype holds another: every value of the smallest dtypes, and the edges of the others


def values_of(name):
    """Return all values of a dtype of 8 bits; of a larger one, those that another may lack."""
    dtype = edges(name).dtype
    if name == "bool":
        return np.array([False, True])
    if dtype.itemsize == 1:
        return np.arange(256).astype("uint8").view(dtype)
    if dtype.itemsize == 2:  # with the smallest and the largest numbers of both formats
        ends = [*range(64), *range(0x7BF0, 0x7C10), *range(0x7F70, 0x8010), *range(0xFBF0, 0x10000)]
        return np.array([*ends, *range(0, 2**16, 97)], "uint16").view(dtype)
    if dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        powers = [sign * 2**bit + off for bit in range(65) for off in (-1, 0, 1) for sign in (-1, 1)]
        return np.array([value for value in (low, high, *powers) if low <= value <= high], dtype)
    info = np.finfo(dtype)
    special = [0, -0.0, np.inf, np.nan, info.max, info.smallest_subnormal, info.tiny, 1 + info.eps]
    parts = [float(number) for number in special]
    return np.array(parts if dtype.kind == "f" else [complex(0.0, part) for part in parts], dtype)


def exact(value):
    """Return what tells a number from every other one, whatever its type."""
    is_complex = isinstance(value, complex)
    return tuple(map(exact_part, (value.real, value.imag) if is_complex else (value, 0)))


def exact_part(value):
    if isinstance(value, int):
        return Fraction(value), value < 0
    value = float(value)  # it may be a scalar of ml_dtypes
    return (Fraction(value), math.copysign(1, value) < 0) if math.isfinite(value) else str(value)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("name", sorted(STANDARD | ML_DTYPES))
def test_dtype_holds_another_if_all_values_come_through_the_cast(name):
    dtype = edges(name).dtype
    for other in sorted(STANDARD | ML_DTYPES):
        values = values_of(other)
        with np.errstate(all="ignore"):
            # ml_dtypes casts between most of its dtypes, not between all.
            new = (values.astype("float32") if other in ML_DTYPES else values).astype(dtype)
        pairs = zip(values.tolist(), new.tolist())
        holds = all(exact(old) == exact(new) for old, new in pairs)
        if "float8" in name + other and not name.endswith(("32", "64", "128")):
            holds = holds and name == other  # other dtypes may hold some, which are checked value by value
        assert can_hold(name, other) is holds, (name, other)
        assert can_hold(dtype, values.dtype) is holds


def test_unknown_dtypes_hold_only_themselves():
    assert can_hold("datetime64[s]", "datetime64[s]")
    assert not can_hold("longdouble", "float64")
    assert not can_hold("float64", "longdouble")
    assert not can_hold("str", "int8")
    assert not can_hold("int8", "int4")


# --- casts to what the target has not: exact, rounded as floats are, or an error


def destinations():
    """Frameworks and devices that lack some dtypes."""
    yield "jax", None
    for device in ("no_x64", "no_float64"):
        if device in frameworks().get("array_api_strict", frameworks()["numpy"]).devices:
            yield "array_api_strict", device
    if "mlx" in frameworks():
        yield "mlx", None


NUMBERS = [
    0,
    1,
    -1,
    5,
    127,
    255,
    2**15,
    2**24 + 1,
    2**31,
    -(2**31) - 1,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**64 - 1,
]
FLOATS = [0.0, -0.0, 0.1, 1e-40, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 1e300, np.inf, -np.inf, np.nan]
COMPLEX = [complex(1, 0), complex(1, 2), complex(1e300, 0), complex(0, np.nan)]


def members(dtype):
    """Return those of the numbers above that a dtype holds, or rounds if it is one of floats."""
    kind = np.dtype(dtype).kind
    if kind in "biu":
        low, high = (0, 1) if kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        return np.array([number for number in {*NUMBERS, low, high} if low <= number <= high], dtype)
    with np.errstate(over="ignore"):
        return np.array(FLOATS if kind == "f" else [*FLOATS, *COMPLEX], dtype)


def fits(old, new):
    """Return whether a number became what it should: itself, or the nearest float to a float."""
    if isinstance(old, complex) or isinstance(new, np.complexfloating):
        return fits(old.real, new.real) and fits(old.imag, new.imag)
    if isinstance(old, (bool, int)) or not isinstance(new, np.floating):
        return exact_part(old)[0] == exact_part(new.item())[0]
    if not (math.isfinite(old) and np.isfinite(new)):
        return str(old) == str(float(new))
    around = [np.nextafter(new, new.dtype.type(sign * np.inf)) for sign in (-1, 1)]
    error, *others = (
        abs(Fraction(old) - Fraction(float(near))) for near in (new, *around) if np.isfinite(near)
    )
    return all(error <= other for other in others) and math.copysign(1, old) == np.copysign(1, new)


@pytest.mark.usefixtures("_no_x64")
@pytest.mark.parametrize(("target", "device"), [*destinations()], ids=str)
@pytest.mark.parametrize("old", sorted(STANDARD))
def test_dtype_that_was_not_asked_for_is_never_a_silent_cast(target, device, old):
    lacking = STANDARD - Converter(target, device).target.dtypes()
    assert lacking
    for wanted in sorted(lacking):
        to_target = Converter(target, device, dtypes={old: wanted})
        for value in members(old):
            number = np.array([value])
            with jax.enable_x64(True):
                inside = convert(number, "jax")
            within = (
                convert(number, target) if old in find_framework(target).target(None).dtypes() else inside
            )
            for source in (number, inside, within, value):
                try:
                    result = np.asarray(convert(to_target(source), "numpy")).reshape(-1)[0]
                except NarrowingError:
                    result = None
                used = dtype_name(to_target(np.zeros(1, old)).dtype)
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = number.astype(used)[0]
                if used == wanted:
                    continue
                case = f"{old} {value!r} -> {wanted}, {used}: {result!r}"
                assert (result is not None) == fits(value.item(), expected), case
                assert result is None or result.dtype == used, case
                assert result is None or fits(value.item(), result), case


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.array([2.0**63]), np.array([2**63 - 1])),
        (np.array([2.0**64]), np.array([2**64 - 1], "uint64")),
        (np.array([2.0**31], "float32"), np.array([2**31 - 1], "int32")),
        (np.array([-1.0]), np.array([0], "uint64")),
        (np.array([np.nan]), np.array([0])),
        (np.array([-np.inf], "float16"), np.array([-(2**31)], "int32")),
        (np.array([2**63 - 1]), np.array([2.0**63])),
        (np.array([2**64 - 1], "uint64"), np.array([2.0**64])),
        (np.array([2**63], "uint64"), np.array([-(2**63)])),
        (np.array([-1]), np.array([2**64 - 1], "uint64")),
        (np.array([complex(2.0**63, 0)]), np.array([2**63 - 1])),
        (np.array([2]), np.array([True])),
    ],
    ids=lambda array: f"{array.dtype} {array[0]}",
)
def test_lost_value_is_found_whether_casts_wrap_or_saturate(old, new):
    assert first_lost(old, new) == f"{old[0]} at [0]"


@pytest.mark.parametrize("wide", [np.longdouble, np.float64], ids=lambda dtype: dtype.__name__)
def test_bounds_of_integers_are_not_lost(wide):
    for dtype in ("int8", "int64", "uint64", "bool"):
        low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, int(np.iinfo(dtype).max) // 2 + 1)
        floats = np.array([low, -0.0, high], wide)
        assert first_lost(floats, floats.astype(dtype)) == ""
        assert first_lost(floats.astype(dtype), floats) == ""


@pytest.mark.usefixtures("_x64")
def test_subnormal_floats_survive_casts_within_jax():
    small = jnp.array([1e-40, -1e-44, 2.0**-149], "float32")  # XLA's own casts make them 0 on the CPU
    assert convert(small, "jax", dtypes={"float32": "float64"}).tolist() == np.asarray(small).tolist()
    assert bits(convert(np.array([1e-40]), "jax", dtypes={"float64": "float32"})) == bits(np.float32([1e-40]))
