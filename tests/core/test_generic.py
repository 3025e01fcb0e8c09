"""Array libraries that nobody has heard of: one of the array API standard, one that speaks DLPack."""

from __future__ import annotations

import sys
import types
from functools import partial

import numpy as np
import pytest

from arrayferry import Converter, convert, register_leaf
from arrayferry._core.registry import source_of
from arrayferry.errors import DeviceError, SharingError, UnsupportedError
from arrayferry.testing import LAYOUTS, bits, edges, overwrite
from helpers.structures import zip_leaves


class StandardArray:
    """An array with a namespace, as in the array API standard, and nothing of NumPy's."""

    def __init__(self, values):
        self._values = values

    dtype = property(lambda self: self._values.dtype)
    shape = property(lambda self: self._values.shape)

    def __array_namespace__(self, api_version=None):
        return sys.modules["standardlib"]

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


class DLPackArray:
    """An array that can do nothing but this."""

    def __init__(self, values):
        self._values = values

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


def asarray(values, dtype=None, device=None, copy=None):
    if device not in (None, "chip0", "chip1"):
        raise ValueError(device)
    if np.asarray(values).dtype.name not in ("bool", "int32", "uint8", "float32", "float64", "complex64"):
        raise TypeError("no such dtype")
    default = {int: "int32", float: "float32", complex: "complex64"}.get(type(values))
    make = {True: np.array, None: np.asarray, False: partial(np.array, copy=False)}[copy]
    return StandardArray(make(values, dtype or default))


@pytest.fixture
def standard(monkeypatch):
    module = types.ModuleType("standardlib")
    module.asarray = asarray
    module.__array_namespace_info__ = lambda: types.SimpleNamespace(devices=lambda: ["chip0", "chip1"])
    monkeypatch.setattr(StandardArray, "__module__", "standardlib")
    monkeypatch.setitem(sys.modules, "standardlib", module)
    return module


@pytest.fixture
def dlpack(monkeypatch):
    module = types.ModuleType("dlpacklib")
    module.from_dlpack = lambda array: DLPackArray(np.from_dlpack(array))
    monkeypatch.setattr(DLPackArray, "__module__", "dlpacklib.core")
    monkeypatch.setitem(sys.modules, "dlpacklib", module)
    return module


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32", "float64", "complex64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_standard_target(standard, dtype, layout):
    source = LAYOUTS[layout](edges(dtype))
    result = convert({"x": source}, standard)["x"]
    assert type(result) is StandardArray
    assert (result.dtype, result.shape) == (source.dtype.newbyteorder("="), source.shape)
    assert bits(result._values) == bits(source)


def test_standard_target_is_private(standard):
    source = edges("float32")
    result = convert([source], standard)[0]
    overwrite(source)
    assert bits(result._values) == bits(edges("float32"))
    before = bits(source)
    overwrite(result._values)
    assert bits(source) == before


def test_standard_target_by_name(standard):
    assert type(convert(edges("float32"), "standardlib")) is StandardArray


def test_standard_target_that_lacks_a_dtype(standard):
    assert convert(np.array([1, 2]), standard).dtype == np.int32
    assert convert(np.array([1, 2], "uint16"), standard).dtype == np.int32
    assert convert(np.array([1.5], "float16"), standard).dtype == np.float32
    with pytest.raises(OverflowError, match="1099511627776"):
        convert(np.array([2**40]), standard)


def test_standard_target_has_its_own_defaults(standard):
    dtypes = [convert(number, standard).dtype.name for number in (1, 0.5, 2j)]
    assert dtypes == ["int32", "float32", "complex64"]
    assert convert(np.float64(0.5), standard).dtype == np.float64


def test_standard_target_on_its_devices(standard):
    assert Converter(standard, "chip1").device == "chip1"
    assert type(convert(edges("float32"), standard, "chip0")) is StandardArray
    with pytest.raises(DeviceError, match="chip0, chip1"):
        convert(1, standard, "cuda:0")


@pytest.mark.needs("numpy>=2.1")
def test_standard_target_shares(standard):
    source = edges("float32")
    result = convert(source, standard, copy=False)
    assert np.shares_memory(result._values, source)
    standard.asarray = lambda values, copy=None: asarray(np.array(values))
    with pytest.raises(SharingError, match="copied"):
        convert(source, standard, copy=False)


def test_library_that_changes_values_silently_is_not_believed(standard):
    standard.asarray = lambda values: StandardArray(np.asarray(values, "float32"))
    assert convert(np.zeros(2), standard).dtype == np.float32
    standard.asarray = lambda values: StandardArray(np.atleast_1d(values))
    with pytest.raises(UnsupportedError, match="standardlib"):
        convert(np.float32(1), standard)


@pytest.mark.parametrize("make", [StandardArray, DLPackArray])
@pytest.mark.usefixtures("standard", "dlpack")
def test_source(name, make):
    for dtype in "bool", "int32", "float32":
        source = make(edges(dtype))
        result = convert({"x": [source]}, name)["x"][0]
        overwrite(source._values)
        assert type(result) is type(convert(edges(dtype), name))
        assert bits(result) == bits(edges(dtype))
        before = bits(source._values)
        overwrite(result)
        assert bits(source._values) == before


@pytest.mark.needs("numpy>=2.1")  # which exports read-only arrays
@pytest.mark.parametrize(
    "layout", ["flipped", "stepped", "transposed", "broadcast", "read-only", "0-d", "empty"]
)
@pytest.mark.parametrize("make", [StandardArray, DLPackArray])
@pytest.mark.usefixtures("standard", "dlpack")
def test_source_of_any_layout(name, make, layout):
    values = LAYOUTS[layout](edges("float32"))
    assert bits(convert(make(values), name)) == bits(values)


@pytest.mark.needs("numpy>=2.1")  # which can ask for memory that is not copied
@pytest.mark.usefixtures("dlpack")
def test_dlpack_source_shares():
    source = DLPackArray(edges("float32"))
    assert np.shares_memory(convert(source, "numpy", copy=False), source._values)


def test_dlpack_target(dlpack):
    for dtype in "int32", "float32", "float64", "bool":
        source = edges(dtype)[::-1]
        result = convert([source], dlpack)[0]
        assert type(result) is DLPackArray
        overwrite(source)
        assert bits(result._values) == bits(edges(dtype)[::-1])


def test_from_one_stranger_to_another_in_any_structure(standard, dlpack):
    source = {"a": [StandardArray(edges("float32"))], "b": (DLPackArray(edges("int32")), "text")}
    for target, kind in (standard, StandardArray), (dlpack, DLPackArray):
        leaves = [new for _, new in zip_leaves(source, convert(source, target))]
        assert [type(leaf) for leaf in leaves] == [kind, kind, str]
        assert [bits(leaf._values) for leaf in leaves[:2]] == [bits(edges("float32")), bits(edges("int32"))]


@pytest.mark.usefixtures("dlpack")
def test_source_that_gives_nothing_is_refused():
    class Broken(DLPackArray):
        def __dlpack__(self, **options):
            raise RuntimeError("on another planet")

    with pytest.raises(UnsupportedError, match=r'^value\["x"\]: .*Broken.*\nHint: .*register_framework'):
        convert({"x": Broken(edges("float32"))}, "numpy")


def test_class_that_only_talks_about_arrays_is_a_leaf():
    class Reader:
        def __array__(self, dtype=None, copy=None):
            return np.zeros(3)

    leaf = Reader()
    assert convert([leaf], "numpy")[0] is leaf


class OnGPU(DLPackArray):
    """Says that it is on a GPU, of which it can make a copy."""

    def __dlpack_device__(self):
        return (2, 0)

    def __array__(self, dtype=None, copy=None):
        return self._values.copy()


def test_an_array_on_a_gpu_is_not_on_the_host(name):
    values = edges("int32")
    source = OnGPU(values)
    assert not source_of(source).on_host(source)
    assert bits(convert({"x": source}, name)["x"]) == bits(values)


class CudaInterface:
    """Says that its memory is on a GPU, of which it can make a copy, as the arrays of Numba can."""

    def __init__(self, values, on_gpu=True):
        self._values, self._on_gpu = values, on_gpu

    @property
    def __cuda_array_interface__(self):
        if not self._on_gpu:
            raise AttributeError("it is on the CPU")
        return {
            "shape": self._values.shape,
            "typestr": self._values.dtype.str,
            "data": (0, False),
            "version": 3,
        }

    def __array__(self, dtype=None, copy=None):
        return self._values.copy()


class CudaOnly(CudaInterface):
    __array__ = None


def test_an_object_with_the_cuda_array_interface_is_an_array_on_its_device(name):
    values = edges("int32")
    source = CudaInterface(values)
    assert not source_of(source).on_host(source)
    result = convert({"x": source}, name)["x"]
    assert bits(result) == bits(values)
    with pytest.raises(SharingError, match=r'value\["x"\]'):
        convert({"x": source}, name, copy=False)


def test_one_that_nobody_here_can_read_is_an_error(name):
    with pytest.raises(UnsupportedError, match="CudaOnly does not expose its values"):
        convert(CudaOnly(edges("int32")), name)


def test_it_must_be_what_it_says_it_is(name):
    class Lies(CudaInterface):
        def __array__(self, dtype=None, copy=None):
            return self._values.astype("float32")

    with pytest.raises(UnsupportedError, match="does not expose its values"):
        convert(Lies(edges("int32")), name)


def test_torch_and_cupy_are_asked_by_their_own_functions(monkeypatch):
    torch = pytest.importorskip("torch")
    values = edges("float32")
    asked = []

    def as_tensor(array, device):
        asked.append(device)
        return torch.from_numpy(array._values)

    monkeypatch.setattr(torch, "as_tensor", as_tensor)
    source = CudaOnly(values)
    assert bits(convert(source, "numpy")) == bits(values)
    assert asked == ["cuda"]
    assert type(source_of(source).export(source)) is torch.Tensor  # which has DLPack


def test_on_the_cpu_it_is_not_an_array_on_a_gpu():
    source = CudaInterface(edges("int32"), on_gpu=False)
    assert source_of(source).on_host(source)


def test_an_image_stays_one_and_what_is_registered_does_not(name):
    image = pytest.importorskip("PIL.Image").new("RGB", (3, 2))
    assert hasattr(type(image), "__array_interface__")
    assert convert([image], name)[0] is image

    class Sensor:
        """As simulators have them: a view of their memory."""

        values = edges("float32")
        __array_interface__ = property(lambda self: self.values.__array_interface__)

    sensor = Sensor()
    assert convert([sensor], name)[0] is sensor
    register_leaf(Sensor, lambda value, convert: convert(np.asarray(value)))
    assert bits(convert([sensor], name)[0]) == bits(Sensor.values)
