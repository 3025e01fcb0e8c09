"""copy=None, True and False: whose memory it is afterwards, for every pair of frameworks."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from numpy.ma import mrecords

from arrayferry import Converter, FerryError, convert, frameworks
from arrayferry._core.dtypes import STANDARD
from arrayferry.errors import SharingError, UnsupportedError
from arrayferry.testing import LAYOUTS, at_offset, bits, edges, overwrite
from helpers.frameworks import TARGET, FakeFramework


@pytest.mark.parametrize("copy", [None, True])
def test_what_you_receive_is_yours(pair, copy):
    source, target = pair
    ours = convert(edges("float32"), source)
    result = convert({"x": [ours]}, target, copy=copy)["x"][0]
    overwrite(ours)
    assert bits(result) == bits(edges("float32"))
    before = bits(ours)
    overwrite(result)
    assert bits(ours) == before
    assert result is not ours


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_result_is_plain_and_writable(target, layout, copy):
    if target not in frameworks():
        pytest.skip(f"{target} is not installed")
    source = LAYOUTS[layout](edges("float32"))
    result = convert(convert(source, target, copy=copy), "numpy", copy=False)
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result.flags.aligned
    assert result.dtype.isnative


@pytest.mark.parametrize("target", [name for name in ("numpy", "torch") if name in frameworks()])
def test_copy_is_new_memory_even_where_nobody_could_tell(target):
    array = np.arange(8.0)
    address = array.ctypes.data
    box = [array]
    del array
    result = Converter(target, copy=True)._convert_box(box)
    assert convert(result, "numpy", copy=False).ctypes.data != address


def test_jax_array_is_copied_for_jax():
    jax = pytest.importorskip("jax")
    source = jax.numpy.arange(4.0)
    for copy in None, True:
        result = convert(source, "jax", copy=copy)
        assert result.unsafe_buffer_pointer() != source.unsafe_buffer_pointer()
    jax.jit(lambda x: x + 1, donate_argnums=0)(source)
    assert result.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("copy", [None, True])
def test_source_is_released(pair, copy):
    source, target = pair
    value = {"x": [convert(edges("float32"), source)]}
    before = sys.getrefcount(value["x"][0])
    for _ in range(20):
        convert(value, target, copy=copy)
    if sys.getrefcount(value["x"][0]) != before:
        gc.collect()
    after = sys.getrefcount(value["x"][0])  # not in the assert: pytest keeps a reference to what it shows
    assert after == before


# --- copy=False

SHARE = {("numpy", "numpy"), ("numpy", "torch"), ("torch", "numpy"), ("torch", "torch")}
SHARE |= {("jax", "jax"), ("jax", "numpy"), ("numpy", "jax"), ("torch", "jax")}


def aligned(name):
    """An array in memory that any framework could adopt."""
    if name == "torch":
        return convert(edges("float32"), "torch").clone()
    return at_offset(edges("float32"), 0) if name == "numpy" else convert(edges("float32"), name)


def test_shared_or_refused(pair):
    source, target = pair
    ours = aligned(source)
    try:
        result = convert({"x": [ours]}, target, copy=False)["x"][0]
    except SharingError as refusal:
        result, error = None, refusal
    if result is None:
        assert pair not in SHARE
        assert error.where == 'value["x"][0]'
        assert error.hint
    else:
        assert pair != ("jax", "torch"), "a tensor on immutable memory"
        assert bits(result) == bits(edges("float32"))
        assert source == target or not overwrite(ours) or source == "mlx" or bits(result) == bits(ours)


def test_array_is_itself_where_it_is_one_already(name):
    array = convert(edges("float32"), name)
    result = convert(array, name, copy=False)
    assert result is array or np.shares_memory(np.asarray(result), np.asarray(array))


def test_jax_array_is_seen_as_read_only():
    jnp = pytest.importorskip("jax.numpy")
    source = jnp.arange(4.0)
    view = convert(source, "numpy", copy=False)
    assert not view.flags.writeable
    assert view.ctypes.data == source.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True


def test_numpy_is_shared_with_jax_at_every_aligned_address():
    jax = pytest.importorskip("jax")
    for _ in range(20):
        source = at_offset(edges("float32"), 0)
        result = convert(source, "jax", copy=False)
        assert result.unsafe_buffer_pointer() == source.ctypes.data
    with jax.enable_x64(True):
        source = at_offset(edges("float64"), 0)
        assert convert(source, "jax", copy=False).unsafe_buffer_pointer() == source.ctypes.data


def read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


F32 = at_offset(edges("float32"), 0)
REFUSED = {
    "torch": {
        "read-only": read_only(F32),
        "flipped": F32[::-1],
        "byte-swapped": F32.astype(F32.dtype.newbyteorder()),
        "in a record": LAYOUTS["in a record"](F32),
        "elements not aligned": at_offset(F32, 1),
        "broadcast, which is read-only": np.broadcast_to(F32, (2, 2, 3)),
    },
    "jax": {
        "not at a multiple of 64": at_offset(F32, 16),
        "flipped": F32[::-1],
        "stepped": F32[:, ::2],
        "byte-swapped": F32.astype(F32.dtype.newbyteorder()),
        "another dtype": at_offset(edges("float64"), 0),
        "another integer": at_offset(edges("int64"), 0),
    },
}
CASES = [(target, kind) for target, kinds in REFUSED.items() for kind in kinds]


@pytest.mark.parametrize(("target", "kind"), CASES, ids="-".join)
def test_what_cannot_be_shared_is_refused(target, kind):
    pytest.importorskip(target)
    with pytest.raises(SharingError) as caught:
        convert({"obs": (REFUSED[target][kind],)}, target, copy=False)
    assert caught.value.where == 'value["obs"][0]'
    assert "copy=None" in caught.value.hint


def test_another_device_or_dtype_cannot_be_shared():
    torch, strict = pytest.importorskip("torch"), pytest.importorskip("array_api_strict")
    for source in np.zeros(3, "float32"), strict.zeros(3):
        with pytest.raises(SharingError, match="device1"):
            convert([source], strict, "device1", copy=False)
    for source in np.zeros(3, "float32"), torch.zeros(3):
        with pytest.raises(SharingError, match="float16"):
            convert([source], "torch", copy=False, dtypes={"float32": "float16"})
    what = r"float32\[3\] numpy -> float16 numpy: another dtype cannot share memory"
    with pytest.raises(SharingError, match=what):
        convert([np.zeros(3, "float32")], "numpy", copy=False, dtypes={"float32": "float16"})
    if "jax" in frameworks():
        with pytest.raises(SharingError, match=r"int64\[3\] numpy -> int32 jax: another dtype cannot"):
            convert([np.arange(3)], "jax", copy=False)
        source = convert(np.zeros(3, "float32"), "jax")
        with pytest.raises(SharingError, match="float16"):
            convert([source], "jax", copy=False, dtypes={"float32": "float16"})
        with pytest.raises(SharingError, match="read-only"):
            convert([source], "torch", copy=False)


def test_lazy_tensors_cannot_be_shared_with_numpy():
    torch = pytest.importorskip("torch")
    conjugate = torch.tensor([1 + 2j]).conj()
    for lazy in conjugate, conjugate.imag:
        with pytest.raises(SharingError, match="copy=None"):
            convert(lazy, "numpy", copy=False)


def test_layouts_that_numpy_holds_are_shared_with_numpy():
    for layout in "flipped", "stepped", "transposed", "read-only", "broadcast", "in a record":
        source = LAYOUTS[layout](edges("float32"))
        assert np.shares_memory(convert(source, "numpy", copy=False), source)


@pytest.mark.parametrize("copy", ["no", 1, 0, "None"], ids=repr)
def test_copy_has_three_values(copy):
    with pytest.raises(ValueError, match="copy="):
        convert(np.zeros(2), "numpy", copy=copy)
    with pytest.raises(FerryError):
        Converter("numpy", copy=copy)


def test_bfloat16_is_shared_between_numpy_and_torch():
    pytest.importorskip("torch")
    source = edges("bfloat16")
    result = convert(source, "torch", copy=False)
    overwrite(source)
    assert bits(result) == bits(source)
    assert bits(convert(result, "numpy", copy=False)) == bits(source)


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
def test_odd_strides_of_axes_of_length_one_are_refused(array):
    pytest.importorskip("torch")
    with pytest.raises(SharingError, match=r'value\["a"\]: torch cannot share this memory'):
        convert({"a": array}, "torch", copy=False)


def test_refusal_names_another_byte_order():
    pytest.importorskip("torch")
    with pytest.raises(SharingError, match="not in native byte order"):
        convert(np.zeros(4, ">f4"), "torch", copy=False)


def test_shared_memory_is_shared_whatever_take_does():
    """A framework whose `take` copies is still asked to share."""

    def refuse(array):
        raise SharingError("it cannot", "copy=None")

    copies = FakeFramework("copies", target=TARGET._replace(take=np.copy, share=refuse, as_is=STANDARD))
    with pytest.raises(SharingError, match="it cannot"):
        Converter(copies, copy=False)(np.zeros(3))
    shared = np.zeros(3)
    assert np.shares_memory(Converter("numpy", copy=False)({"x": [shared]})["x"][0], shared)


INNER = np.dtype([("values", object), ("steps", "i4")])


def objects(*shape):
    """An array of this shape whose elements are arrays."""
    made = np.empty(shape, object)
    for index in np.ndindex(shape):
        made[index] = np.arange(2.0)
    return made


def record(field, shape=(2,)):
    """A structured array with numbers, and with arrays in another field."""
    array = np.zeros(shape, [("number", "f4"), field])
    inner = array[field[0]]
    inner = inner["values"] if inner.dtype.names else inner
    inner[...] = objects(*inner.shape)
    return array


PLAIN = np.zeros(2, [("number", "f4"), ("steps", "i4")])
MASK = [(False, True), (True, False)]

RECORDS = {
    "objects": lambda: record(("values", object)),
    "0-d": lambda: record(("values", object), ()),
    "nested": lambda: record(("inner", INNER)),
    "subarray": lambda: record(("values", object, (2,))),
    "subarray of records": lambda: record(("inner", INNER, (2,))),
    "void": lambda: record(("values", object))[0],
    "void, nested": lambda: record(("inner", INNER))[0],
    "void, subarray": lambda: record(("values", object, (2,)))[0],
    "void of numbers": lambda: PLAIN[0],
    "recarray": lambda: record(("values", object)).view(np.recarray),
    "element of a recarray": lambda: record(("values", object)).view(np.recarray)[0],
    "masked": lambda: np.ma.array(PLAIN, mask=MASK),
    "masked objects": lambda: np.ma.array(objects(2), mask=[False, True]),
    "masked records": lambda: np.ma.array(record(("values", object)), mask=MASK),
    "masked, nested": lambda: np.ma.array(record(("inner", INNER))),
    "masked, subarray": lambda: np.ma.array(record(("values", object, (2,)))),
    "mvoid": lambda: np.ma.array(record(("values", object)), mask=MASK)[0],
    "mrecarray": lambda: np.ma.array(PLAIN, mask=MASK).view(mrecords.mrecarray),
    "mrecarray of objects": lambda: np.ma.array(record(("values", object)), mask=MASK).view(
        mrecords.mrecarray
    ),
}


def memory_of(value):
    """The arrays that hold what can be seen of a record or an array: itself, its mask, and its objects."""
    array = np.ma.getdata(np.asanyarray(value), subok=False)
    yield array
    if (mask := np.ma.getmask(value)) is not np.ma.nomask:
        yield np.asarray(mask)
    for name in array.dtype.names or ():
        if array.dtype[name].hasobject:
            yield from memory_of(array[name])
    if array.dtype.kind == "O":
        for element in array.flat:
            yield from memory_of(element)


def have_common_memory(one, other):
    spans = [[np.lib.array_utils.byte_bounds(part) for part in memory_of(value)] for value in (one, other)]
    return any(low < end and start < high for low, high in spans[0] for start, end in spans[1])


@pytest.mark.needs("numpy>=2")  # np.lib.array_utils
@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("case", RECORDS)
def test_records_with_objects_come_back_equal_and_private(case, copy):
    source = RECORDS[case]()
    if case == "mrecarray of objects":  # NumPy would copy the addresses of the objects
        with pytest.raises(UnsupportedError, match="cannot be copied safely"):
            convert({"x": source}, "numpy", copy=copy)
        return
    before = repr(source)
    result = convert({"x": source}, "numpy", copy=copy)["x"]
    assert type(result) is type(source)
    assert repr(result) == before
    assert not have_common_memory(result, source)
    for part in memory_of(result):
        if part.dtype.kind == "f":
            part[...] = 7
    assert repr(source) == before


@pytest.mark.parametrize("case", RECORDS)
def test_records_are_shared_on_request(case):
    source = RECORDS[case]()
    assert convert({"x": source}, "numpy", copy=False)["x"] is source


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("target", ["torch", "jax"])
@pytest.mark.parametrize("case", RECORDS)
def test_records_have_no_counterpart_elsewhere(case, target, copy):
    pytest.importorskip(target)
    source = RECORDS[case]()
    assert convert({"x": source}, target, copy=copy)["x"] is source


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("array", [record(("values", object)), objects(2)])
def test_dask_array_of_objects_stays_as_it_is(array, copy):
    source = pytest.importorskip("dask.array").from_array(array, chunks=2)
    assert convert({"x": source}, "numpy", copy=copy)["x"] is source


def test_an_array_on_another_device_is_told_where_it_is():
    torch = pytest.importorskip("torch")
    if "array_api_strict" in frameworks() and (xp := pytest.importorskip("array_api_strict")):
        array = xp.ones(2, device=xp.Device("device1"))
        with pytest.raises(SharingError, match=r"is on .*device1.*, not on .*CPU_DEVICE"):
            convert(array, xp, "cpu", copy=False)
    with pytest.raises(SharingError, match=r"float32\[2\] torch is not float64"):
        convert(torch.zeros(2), "torch", copy=False, dtypes={"float32": "float64"})


def test_a_deleted_array_is_told_before_its_dtype():
    jnp = pytest.importorskip("jax.numpy")
    array = jnp.zeros(2)
    array.delete()
    with pytest.raises(UnsupportedError, match="deleted or donated"):
        convert(array, "jax", copy=False, dtypes={"float32": "float16"})
