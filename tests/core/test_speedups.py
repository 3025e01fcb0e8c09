"""The part in C does what the part in Python does, and is never the reason why a process ends."""

import ctypes
import datetime
import gc
import itertools
import random
import shutil
import subprocess
import sys
import sysconfig
import threading
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import arrayferry
from arrayferry import Converter
from arrayferry._boundary.answers import STEP, checked
from arrayferry._core import convert, ownership, walk
from arrayferry._core.route import Route
from arrayferry._core.speedups import speedups
from arrayferry._core.walk import Slot
from helpers.compare import arrays_in
from helpers.envs import FakeFramework

ROOT = Path(__file__).parents[2]
PURE = speedups is None
IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
needs_c = pytest.mark.skipif(PURE, reason="the part in C is not built, or switched off")


COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
HAS_HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()
needs_compiler = pytest.mark.skipif(
    shutil.which(COMPILER) is None or not HAS_HEADERS, reason="there is no compiler, or no Python.h"
)


@needs_compiler
def test_it_is_built_where_it_can_be():
    from arrayferry._core import _speedups

    assert speedups in (None, _speedups)


@needs_compiler
@pytest.mark.needs("numpy>=2")  # whose headers it is built with, for older ones too
@pytest.mark.skipif(sys.platform == "win32", reason="its compiler takes other flags")
def test_it_compiles_without_a_warning(tmp_path):
    warnings = "-Wall", "-Wextra", "-Wconversion", "-Werror"
    command = [sys.executable, str(ROOT / "tools/build_c.py"), str(tmp_path), *warnings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir())


# ---- the same as in Python ----------------------------------------------------------------------------

# No two arrays have the same values, so that memory that is used again does not look like memory that was
# taken over; and many are too large to be copied because they are small.
ARRAYS = [
    lambda r: np.full(r.choice([0, 1, 1100, 2000]), r.random(), np.float32),
    lambda r: np.full((2, 600), r.random()),
    lambda r: np.full((20, 90), r.random()),
    lambda r: np.full((2, 3, 200), r.random(), np.float32),
    lambda r: np.full((2, 3), r.random()),
    lambda r: np.array(r.randint(0, 2**40)),
    lambda r: np.array([True, False]),
    lambda r: np.frombuffer(b"\2\0\1", bool).copy(),
    lambda r: np.full((3, 400), r.random(), order="F"),
    lambda r: (np.arange(600) + r.random())[::-1],
    lambda r: np.full((2, 900), r.random())[:, 1:],
    lambda r: np.full(1200, r.randint(0, 2**30), ">i4"),
    lambda r: np.full(600, r.random())[:],
    lambda r: np.array(["a", "b"]),
    lambda r: np.array([1, "two", None], object),
    lambda r: np.full(3000, r.random(), np.float16),
    lambda r: np.full(600, r.randint(0, 2**40), np.longlong),
    lambda r: np.zeros(2, [("x", "f4")]),
    lambda r: np.ma.masked_array([1, 2], [0, 1]),
    lambda r: read_only(np.full(600, r.random())),
    lambda r: np.full(3, r.random()).view(np.recarray),
]
LEAVES = [
    *(lambda r: r.randint(-5, 5), lambda r: r.random(), lambda r: r.random() < 0.5, lambda r: "text"),
    *(lambda r: None, lambda r: b"bytes", lambda r: np.float32(r.random()), lambda r: np.bool_(True)),
    *(lambda r: {1, 2}, lambda r: range(3), lambda r: 1 + 2j, lambda r: np.datetime64("2020-01-01")),
]


def read_only(array):
    array.flags.writeable = False
    return array


def structure(r, keep, depth=3):
    """A random structure, in which some parts are held by somebody else too."""
    kind = r.randrange(6 if depth else 2)
    if kind == 0:
        made = r.choice(LEAVES)(r)
    elif kind == 1:
        made = r.choice(ARRAYS)(r)
    else:
        parts = [structure(r, keep, depth - 1) for _ in range(r.randrange(4))]
        made = {2: dict(enumerate(parts)), 3: parts, 4: tuple(parts), 5: {"a": parts, "b": {"x": parts}}}[
            kind
        ]
        del parts
    if r.random() < 0.15:
        keep.append(made)
    if r.random() < 0.05 and type(made) is np.ndarray:
        keep.append(weakref.ref(made))
    return made


def address(array):
    return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data


def numbers_at(value, at_least):
    """Where the arrays of numbers in a structure are, and their bytes."""
    arrays = [
        array for array in arrays_in(value) if str(array.dtype).rpartition(".")[2].strip("1234568") in NUMBERS
    ]
    return [(address(array), np.asarray(array).tobytes()) for array in arrays if array.nbytes >= at_least]


NUMBERS = "float", "int", "uint"


def outcome(convert, seed, at_least):
    """What comes out, which arrays are the ones that went in, and what was told on the way."""
    keep, told = [], []
    box = [structure(random.Random(seed), keep)]
    before = numbers_at(box, 1)
    try:
        found = convert(box, lambda name, path, leaf: told.append((name, path(), repr(leaf))))
    except arrayferry.FerryError as error:
        return type(error), str(error), told
    return repr(found), [one in before for one in numbers_at(found, at_least)], told


@needs_c
@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("name", [one for one in ("numpy", "torch", "jax") if one in arrayferry.frameworks()])
def test_both_walks_do_the_same(name, copy):
    if name == "jax" and copy is False:
        pytest.skip("whether memory is aligned for JAX is luck")
    converter, taken, told = Converter(name, copy=copy), 0, 0
    at_least = max(1, converter.target.small)

    def in_c(box, on_keep):
        return converter.walker([Slot("value", on_keep)]).convert(box)

    def in_python(box, on_keep):
        return walk.Walker(converter.handlers, [Slot("value", on_keep)]).convert(box)

    for seed in range(1000):
        expected = outcome(in_python, seed, at_least)
        assert outcome(in_c, seed, at_least) == expected, seed
        taken += not isinstance(expected[0], type) and sum(expected[1])
        told += len(expected[2])
    assert taken > 50 or copy is True or name == "jax" or not ownership.REFCOUNTS_RELIABLE
    assert told > 20 or copy is False or name == "numpy"  # which holds all of its own dtypes


@needs_c
@pytest.mark.parametrize(
    "values",
    [
        lambda: (np.zeros(3, np.float32), 1.5, True, False, {"x": np.zeros(2)}),
        lambda: (np.zeros(3, np.float32), np.float64(1), np.bool_(True), np.array(False), {}),
        lambda: ({"a": [np.zeros(2)]}, 1, 0, None, {"s": "text"}),
        lambda: [np.zeros(3), 1.0, False, False, {}],
        lambda: (np.zeros(3), 1.0, False),
        lambda: None,
        lambda: (np.zeros(3), 1.0, np.zeros(2), False, {}),
        lambda: (2**70, 1.0, False, False, {}),
        lambda: (1, 1.0, False, False, {"deep": [2**70]}),
    ],
)
def test_both_walkers_unpack_the_same(values):
    boundary = arrayferry.wrap(FakeFramework(tuple), "numpy")._boundary
    converter, slots = boundary.outgoing, boundary._answers.step_slots()
    repack = partial(checked, "step", STEP)

    def unpack(walker):
        try:
            return repr(walker.unpack([values()]))
        except arrayferry.FerryError as error:
            return type(error), str(error)

    python = walk.Walker(converter.handlers, slots, repack)
    assert unpack(converter.walker(slots, repack)) == unpack(python)


@pytest.mark.parametrize("kind", ["C", "Python"])
def test_what_no_slot_expects_is_repacked(kind):
    if kind == "C" and speedups is None:
        pytest.skip("the part in C is not built, or switched off")
    repacked = []

    def repack(values):
        repacked.append(values)
        return 0, np.zeros(2)

    expects = [np.ndarray, np.dtype(float)]
    slots = [Slot("obs"), Slot("reward", expects=expects)]
    make = walk.Walker if kind == "Python" else convert.Walker
    walker = make(Converter("numpy").handlers, slots, repack)

    def is_repacked(*values):
        repacked.clear()
        results = walker.unpack([values])
        assert len(results) == 2
        return bool(repacked)

    assert not is_repacked(None, np.ones(3))
    assert is_repacked(None, np.ones(3, np.float32))
    assert is_repacked(None, np.ones(3, ">f8"))
    assert is_repacked(None, np.ma.ones(3))
    assert is_repacked(None, 1.0)
    assert is_repacked(None, None)
    expects[:] = np.ndarray, np.dtype(bool)
    assert is_repacked(None, np.ones(3))
    assert not is_repacked(None, np.ones(3, bool))


@pytest.mark.parametrize("kind", ["C", "Python"])
def test_what_a_dtype_raises_is_not_swallowed(kind):
    if kind == "C" and speedups is None:
        pytest.skip("the part in C is not built, or switched off")

    class Odd:
        @property
        def dtype(self):
            raise KeyboardInterrupt

    make = walk.Walker if kind == "Python" else convert.Walker
    walker = make({Odd: walk.unchanged}, [Slot("reward", expects=[Odd, None])])
    with pytest.raises(KeyboardInterrupt):
        walker.unpack([(Odd(),)])


@pytest.mark.parametrize("kind", ["C", "Python"])
def test_memory_of_what_repack_returns_is_taken_over(kind):
    if kind == "C" and speedups is None:
        pytest.skip("the part in C is not built, or switched off")
    addresses = []

    def repack(values):
        addresses.append(values[0].ctypes.data)
        return (*values, 0)

    make = walk.Walker if kind == "Python" else convert.Walker
    walker = make(Converter("numpy").handlers, [Slot("obs"), Slot("more")], repack)
    array, _ = walker.unpack([(np.zeros(100) + 1,)])
    assert (array.ctypes.data == addresses[0]) is ownership.REFCOUNTS_RELIABLE


class Ways(NamedTuple):
    """What `arrays_of` returns."""

    take: Callable
    item: Callable
    copy: Callable
    view: Callable


def ways_of(see, memory, address):
    """Return how the arrays of a framework without a table of functions are read."""
    return Ways(*speedups.arrays_of(object, None, None, None, see, int, list, memory, address))


def memory_of(array):
    start = array.__array_interface__["data"][0]
    return range(start, start + array.nbytes)


@needs_c
def test_small_arrays_are_copied():
    copy = ways_of(lambda array: array, memory_of, lambda memory: memory.start).copy
    r, copies = random.Random(0), 0
    for make in ARRAYS:
        array = make(r)
        found = copy(array)
        if found is not None:  # it may leave more to others
            assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
            assert found.flags.owndata
            assert found.flags.writeable
            copies += 1
    assert copies > 5


@needs_c
@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ([0.0, 1.5, -2.5e38, 1e-300], True),
        ([np.nan, np.inf, -np.inf], True),
        ([3.4028235677973366e38], False),  # the least that would become inf
        ([3.4028235677973362e38], True),
        ([1.0, -1e39], False),
        (np.array([2**31 - 1, -(2**31)]), True),
        (np.array([2**31]), False),
        (np.array([0, -(2**31) - 1]), False),
        (np.array([2**32 - 1], np.uint64), True),
        (np.array([2**32], np.uint64), False),
        (np.zeros((0, 3)), True),
        (np.array(7), True),
        (np.zeros(4)[::2], False),
        (np.zeros(4, ">f8"), False),
        (np.zeros(4, np.float32), False),
        (np.zeros(4, np.longdouble), False),
        (np.zeros(4, complex), False),
        (read_only(np.arange(4.0)), True),
        ("no array", False),
    ],
)
def test_half_of_the_width(values, fits):
    array = np.array(values) if isinstance(values, list) else values
    found = speedups.halved(array)
    if not fits:
        assert found is None
    else:
        with np.errstate(over="ignore"):
            expected = array.astype({"f": np.float32, "i": np.int32, "u": np.uint32}[array.dtype.kind])
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()


@needs_c
def test_a_private_copy_stays_within_its_memory():
    class Tensor:
        def __init__(self, array, held, start=None):
            self.array, self.held, self.start = array, held, start

    def take(array, held, start=None):
        where = array.ctypes.data if start is None else start
        ways = lambda t: t.array, lambda t: bytes(t.held), lambda memory: where
        return ways_of(*ways).copy(Tensor(array, held))

    array = np.arange(4.0)
    assert take(array, 32).tolist() == [0, 1, 2, 3]
    assert take(array[1:3], 16).tolist() == [1, 2]
    assert take(array[1:], 32, array.ctypes.data).tolist() == [1, 2, 3]
    assert take(array, 31) is None
    assert take(array[1:], 24, array.ctypes.data) is None
    assert take(array, 32, 0) is None
    assert take(array, 64, array.ctypes.data + 8) is None
    assert take(array[::2], 32) is None
    assert ways_of(int, int, int).copy("no number") is None
    view = ways_of(lambda t: t, memoryview.tobytes, lambda memory: array.ctypes.data).view
    assert view(array) is None  # which has no `tobytes` of a memoryview


# ---- arrays of a framework with a table of functions (DLPack 1.3) -------------------------------------


@pytest.fixture
def by_table():
    torch = pytest.importorskip("torch")
    if PURE or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("the part in C is not built, or torch has no such table")
    return make_by_table()


def make_by_table(cls=None, **others):
    """Return the functions that go by torch's table; its own functions are not expected to be called."""
    import torch

    def unexpected(*arguments):
        raise NotImplementedError("not by the table")

    ways = {
        "is_lazy": torch.Tensor.is_neg,
        "is_replaced": lambda: False,
        "see": unexpected,
        "item": unexpected,
    }
    ways |= {
        "make": unexpected,
        "memory": torch.Tensor.untyped_storage,
        "address": torch.UntypedStorage.data_ptr,
    }
    table = torch.Tensor.__dlpack_c_exchange_api__
    return Ways(*speedups.arrays_of(cls or torch.Tensor, table, *(ways | others).values()))


REAL = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3), (1, 1), (1,) * 30])
@pytest.mark.parametrize("name", REAL)
def test_a_table_makes_arrays(by_table, name, shape):
    array = np.array(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2, name)
    tensor = by_table.take(array)
    assert (str(tensor.dtype), tuple(tensor.shape)) == (f"torch.{name}", shape)
    assert tensor.is_contiguous()
    assert tensor.numpy().tobytes() == array.tobytes()
    assert tensor.data_ptr() == array.ctypes.data or not array.size


@pytest.mark.parametrize("name", "uint8 int8 int16 int32 int64 float16 float32 float64".split())
def test_a_table_reads_arrays(by_table, name):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    for value in (tensor, tensor[1], tensor[1, 1]):
        copy, view = by_table.copy(value), by_table.view(value)
        assert (copy.dtype.name, copy.tolist()) == (view.dtype.name, view.tolist()) == (name, value.tolist())
        assert view.ctypes.data == value.data_ptr() != copy.ctypes.data
        assert copy.flags.owndata
        assert view.base is value
    assert by_table.view(tensor.new_ones(1, 3).expand(1, 3)[:, :1]).tolist() == [[1]]


def test_a_table_is_not_asked_for_what_it_would_get_wrong(by_table):
    torch = pytest.importorskip("torch")
    asked = []
    ways = make_by_table(see=lambda tensor: asked.append(tensor) or np.zeros(1), item=lambda tensor: 7)
    tensors = [
        torch.ones(2, dtype=torch.complex64).conj().imag,  # whose memory has the other sign
        *(torch.ones(2, dtype=torch.complex64).conj(), torch.ones(2, dtype=torch.bfloat16)),
        *(torch.arange(6).reshape(2, 3).T, torch.arange(6)[::2], torch.ones(1).expand(3), torch.ones(0)),
        *(torch.ones(2, device="meta"), torch.nn.Parameter(torch.ones(1)), torch.ones(2).to_sparse()),
        *(torch._efficientzerotensor((3,)), np.zeros(3), None),
    ]
    for count, tensor in enumerate(tensors, 1):
        assert ways.copy(tensor) is None  # because of the memory
        assert asked[-1] is tensor
        assert len(asked) == count
        assert ways.item(tensor) == 7
    for tensor in torch.tensor(1.5), torch.tensor(True), torch.ones(1).int():
        assert ways.item(tensor) == 7
    assert by_table.item(torch.tensor(-(2**63))) == -(2**63)
    assert by_table.copy(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    made = []
    ways = make_by_table(make=made.append)
    arrays = np.arange(3.0)[::-1], np.zeros((2, 2)).T[:1], np.zeros(3, ">f4"), read_only(np.zeros(2)), "text"
    for array in arrays:
        ways.take(array)
    make_by_table(make=made.append, is_replaced=lambda: True).take(np.zeros(2))
    assert len(made) == len(arrays) + 1
    with pytest.raises(ZeroDivisionError):
        make_by_table(is_replaced=lambda: 1 // 0).take(np.zeros(2))


def test_memory_that_a_table_does_not_tell_of_is_not_read(by_table):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(100)
    parts = tensor, tensor[1:], tensor[1]
    tensor.untyped_storage().resize_(0)
    seen = make_by_table(see=lambda tensor: None, item=lambda tensor: None)
    for part in parts:
        assert seen.copy(part) is seen.view(part) is seen.item(part) is None
    shrunk = torch.arange(100)
    head, tail = shrunk[:2], shrunk[1:3]
    shrunk.untyped_storage().resize_(16)
    assert by_table.copy(head).tolist() == [0, 1]
    assert by_table.copy(shrunk) is by_table.view(tail) is None


def test_what_a_table_makes_keeps_its_memory_and_gives_it_back(by_table):
    freed = []

    def tensor_on(array):
        weakref.finalize(array, freed.append, 1)
        return by_table.take(array)

    tensors = [tensor_on(np.full(3, number)) for number in range(20)]
    gc.collect()
    assert not freed
    assert [tensor.tolist() for tensor in tensors] == [[number] * 3 for number in range(20)]
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    assert len(freed) == 20


def test_a_capsule_is_checked():
    if PURE:
        pytest.skip("the part in C is not built, or switched off")
    ways = [int] * 7
    for capsule in (1, "text", datetime.datetime_CAPI, types.SimpleNamespace()):
        with pytest.raises(TypeError, match="capsule"):
            speedups.arrays_of(object, capsule, *ways)


def test_a_table_of_another_version_is_not_used():
    if PURE:
        pytest.skip("the part in C is not built, or switched off")
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    table = (ctypes.c_uint32 * 32)(2, 0)
    capsule = new(ctypes.addressof(table), b"dlpack_exchange_api", None)
    made = speedups.arrays_of(float, capsule, bool, bool, None, hex, list, None, None)
    assert made[0](np.zeros(2)) == [0, 0]
    with pytest.raises(TypeError):
        made[1](1.5)  # by `hex`
    assert made[2](1.5) is None


def test_tensors_outlive_the_interpreter(run_python):
    pytest.importorskip("torch")
    code = """
import builtins, threading, time
import numpy as np, torch, arrayferry
made = [arrayferry.convert(np.zeros(4), "torch") for _ in range(1000)]
builtins.kept = made[:500]
torch.kept = made[500:]
cycle = [made]
cycle.append(cycle)
thread = threading.Thread(target=lambda: (time.sleep(1e9), made), daemon=True)
thread.start()
print("done")
"""
    assert run_python(code) == "done\n"


JAX_DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
)


@needs_c
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3), (1, 1)])
@pytest.mark.parametrize("name", JAX_DTYPES.split())
def test_buffers_are_copied(name, shape):
    array = np.array(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2, name)
    jax = sys.modules.get("jax")
    for value in [array] + ([] if jax is None else [jax.numpy.asarray(array)]):
        found = speedups.copy_buffer(value)
        if found is None:  # int64 of NumPy is a `long`, whose size is not the same everywhere
            assert value is array
            assert name in ("int64", "uint64")
            continue
        assert (found.dtype, found.shape, found.tobytes()) == (
            value.dtype,
            shape,
            np.asarray(value).tobytes(),
        )
        assert found.dtype.num == np.dtype(found.dtype.name).num
        assert found.flags.owndata
        assert found.flags.writeable


@needs_c
@pytest.mark.parametrize(
    "value",
    [
        *(np.zeros((3, 4), order="F"), np.arange(6)[::-1], np.zeros(3, ">f4"), np.zeros(2, [("x", "f4")])),
        *(np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"), np.longdouble(1), None, "text", [1.0]),
    ],
)
def test_other_buffers_are_not(value):
    assert speedups.copy_buffer(value) is None


# ---- threads and interpreters -------------------------------------------------------------------------


@needs_c
@pytest.mark.skipif(not IS_FREE_THREADED, reason="not a free-threaded build")
def test_importing_it_does_not_switch_the_gil_on(run_python):
    code = f"import sys, numpy; sys.path.append({str(Path(speedups.__file__).parent)!r}); import _speedups"
    assert run_python(f"{code}; print(sys._is_gil_enabled())") == "False\n"


@needs_c
def test_other_threads_run_while_much_is_copied():
    """A thread that waits for the GIL gets it, though nobody is made to give it up."""
    copy = Converter("numpy")
    much, lock, ran = np.zeros(8 << 20, np.uint8), threading.Lock(), threading.Event()
    interval = sys.getswitchinterval()

    def wait():
        with lock:
            ran.set()

    lock.acquire()
    thread = threading.Thread(target=wait)
    thread.start()
    sys.setswitchinterval(1000)
    try:
        lock.release()
        tries = 0
        while not ran.is_set() and tries < 2000:  # it takes a while to wake up
            copy(much)
            tries += 1
        has_run = ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert has_run


@needs_c
@pytest.mark.skipif(IS_FREE_THREADED, reason="there, `resize` takes no care")
def test_what_is_being_copied_cannot_be_resized():
    """Whoever copies without the GIL holds a reference, so that `resize` refuses to free the memory."""
    arrays, stop = [np.ones(2 << 20, np.uint8)], threading.Event()

    def resize():
        size = itertools.cycle([2 << 20, 3 << 20])
        while not stop.is_set():
            with suppress(ValueError):  # it is referenced
                arrays[0].resize(next(size))

    thread = threading.Thread(target=resize)
    thread.start()
    try:
        for _ in range(50):
            assert Converter("numpy")(arrays[0])[: 2 << 20].all()
    finally:
        stop.set()
        thread.join()


def test_threads_may_change_what_others_convert():
    """It is converted as it was at some time; the process lives on."""
    value = {"items": [np.arange(3.0) for _ in range(20)], 0: {"x": 1.0}}
    stop, errors = threading.Event(), []

    def change():
        for number in itertools.count():
            if stop.is_set():
                break
            value[number % 50] = {"x": [np.arange(3.0)]}
            value.pop((number + 25) % 50, None)
            value["items"].append(np.arange(3.0))
            del value["items"][:1]

    def convert_it():
        converter = Converter("numpy")
        try:
            for _ in range(100):
                assert all(one.tolist() == [0, 1, 2] for one in converter(value)["items"])
        except Exception as error:
            errors.append(error)

    changing = [threading.Thread(target=change) for _ in range(2)]
    converting = [threading.Thread(target=convert_it) for _ in range(2)]
    for thread in changing + converting:
        thread.start()
    for thread in converting:
        thread.join()
    stop.set()
    for thread in changing:
        thread.join()
    assert not errors


def load_again():
    spec = spec_from_file_location("_speedups", speedups.__file__)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_c
def test_each_module_has_its_own_types():
    again, value = load_again(), {"x": [np.arange(3.0)]}
    assert again.Walker is not speedups.Walker
    converter = Converter("numpy")
    with pytest.raises(TypeError, match="configure"):
        again.Walker((), converter.handlers, [Slot("value")])
    shared = again.configure(convert.for_c)
    walkers = [module.Walker(shared, converter.handlers, [Slot("value")]) for module in (again, speedups)]
    kinds = weakref.ref(again.Walker)
    del again
    gc.collect()
    for walker in walkers:
        assert repr(walker.convert([value])) == repr(value)
    del walkers, walker
    gc.collect()
    if not IS_FREE_THREADED or sys.version_info >= (
        3,
        14,
    ):  # 3.13t keeps types for good once a thread has run
        assert kinds() is None


IN_SUBINTERPRETERS = """
import arrayferry, numpy as np
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
for _ in range(2):
    interpreter = interpreters.create()
    assert run(interpreter, THERE) is None
    interpreters.destroy(interpreter)
assert arrayferry.convert([np.arange(3)], "numpy")[0].tolist() == [0, 1, 2]
"""
THERE = """
import sys, importlib.util, warnings
sys.path[:] = PATH
warnings.simplefilter("ignore")  # an older NumPy only warns
def has_numpy():
    try:
        import numpy
    except ImportError:
        return False
    return True
def has_c():
    try:
        spec = importlib.util.spec_from_file_location("_speedups", FILE)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except ImportError:
        return False
    return True
print("alike" if has_numpy() == has_c() else "apart", flush=True)
"""


@needs_c
def test_a_subinterpreter_has_all_of_it_or_nothing(run_python):
    """Where NumPy refuses to be imported, the part in C must not be there without it."""
    there = f"PATH, FILE = {sys.path!r}, {speedups.__file__!r}\n{THERE}"
    code = f"THERE = {there!r}\n{IN_SUBINTERPRETERS}"
    assert run_python(code) == "alike\n" * 2


# ---- never the reason why a process ends --------------------------------------------------------------


class Evil:
    """A leaf whose conversion changes what it is in."""


def rotate(items):
    items.insert(0, items.pop())


CHANGES = {
    "grow": lambda value: value.update({f"new {i}": np.zeros(100) for i in range(1000)}),
    "shrink": lambda value: [value.pop(key, None) for key in range(6, 20)],
    "replace": lambda value: value.update({key: np.ones(100) for key in range(20)}),
    "move one": lambda value: value.update({0: value.pop(0)}),
    "move all": lambda value: [value.update({key: value.pop(key)}) for key in range(20)],
    "exchange": lambda value: value.update({"new": value.pop(19)}),
}
LIST_CHANGES = {"grow": lambda value: value.insert(0, 1.0), "shrink": list.clear, "rotate": rotate}
KINDS = [dict, OrderedDict, partial(defaultdict, None), type("Own", (dict,), {}), list]
CASES = [(kind, change) for kind in KINDS for change in (LIST_CHANGES if kind is list else CHANGES)]


@pytest.mark.parametrize("depth", [0, 60])
@pytest.mark.parametrize(("kind", "change"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_container_that_changes_while_it_is_walked_is_read_at_one_moment(kind, change, depth):
    items = [np.full(100, i) for i in range(20)]
    items[5] = Evil()
    value = kind(items if kind is list else enumerate(items))

    def become(leaf, converter):
        (LIST_CHANGES if kind is list else CHANGES)[change](value)
        gc.collect()
        return "evil"

    arrayferry.register_leaf(Evil, become)
    outer = value
    for _ in range(depth):
        outer = [outer]
    converter = Converter("numpy")
    python = walk.Walker(converter.handlers, [Slot("value")])
    for convert_it in converter, lambda value: python.convert([value]):
        value.clear()
        value.extend(items) if kind is list else value.update(enumerate(items))
        found = convert_it(outer)
        for _ in range(depth):
            found = found[0]
        pairs = enumerate(found) if kind is list else found.items()
        assert [(key, one if type(one) is str else one[0]) for key, one in pairs] == [
            (i, "evil" if i == 5 else i) for i in range(20)
        ]


LOOKS_AROUND = """
import gc, arrayferry, gymnasium as gym

class Leaf:
    pass

def look_around(leaf, converter):  # as a memory profiler does
    return sum(len(list(one)) for one in gc.get_objects() if type(one) is tuple) > 0

class Env(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 1.0, False, False, {"leaf": Leaf()}

arrayferry.register_leaf(Leaf, look_around)
env = arrayferry.wrap(Env(), "numpy")
env.reset()
print(env.step(0)[4])
"""


def test_a_hook_that_looks_at_all_tuples_sees_none_that_is_not_complete(run_python):
    assert run_python(LOOKS_AROUND) == "{'leaf': True}\n"


def test_what_raises_while_it_is_told_of_a_leaf_is_located():
    def on_keep(name, path, leaf):
        raise RuntimeError("no ink")

    pytest.importorskip("array_api_strict")
    converter = Converter("array_api_strict")
    slots = [Slot("value", on_keep)]
    walkers = [converter.walker(slots), walk.Walker(converter.handlers, slots)]
    for walker in walkers:
        with pytest.raises(arrayferry.errors.UnsupportedError, match=r'^value\["day"\]\[0\]: .*no ink'):
            walker.convert([{"day": [np.array(["text"])]}])


def test_a_type_that_is_gone_while_it_is_looked_up(run_python):
    """The hash of a metaclass gives the value another class, and nothing else holds its old one."""
    code = """
import gc, arrayferry

class Other:
    pass

def convert_one():
    class Meta(type):
        def __hash__(cls):
            if box and type(box[0]) is cls:
                box[0].__class__ = Other
                gc.enable()
                gc.set_threshold(1, 1, 1)
            return 5

    class Fleeting(metaclass=Meta):
        pass

    box = [Fleeting()]
    del Fleeting
    gc.disable()
    return arrayferry.convert(box, "numpy")[0]

for _ in range(20):
    print(type(convert_one()).__name__)
"""
    assert set(run_python(code, PYTHONMALLOC="debug").split()) == {"Other"}


# ---- references ---------------------------------------------------------------------------------------


@needs_c
def test_no_reference_is_leaked():
    """Neither to what a walker holds, nor to what it makes on the way, whether it succeeds or not."""
    pytest.importorskip("array_api_strict")
    converter = Converter("array_api_strict")
    arrayferry.register_leaf(Evil, lambda leaf, converter: [][0])
    walkers = [converter.walker([Slot("value", on_keep)]) for on_keep in (None, lambda *told: told[1]())]
    kept, nested = np.zeros(2, [("x", "f4")]), [1.0]
    for _ in range(60):
        nested = [nested]
    circular = {"x": []}
    circular["x"].append(circular)
    values = [
        {"a": [np.zeros(3), 1.0, "text", (kept, {})]},
        nested,
        {"x": [Evil()]},
        circular,
        OrderedDict(a=kept),
    ]

    def run(times):
        for walker, value in itertools.product(walkers * times, values):
            with suppress(arrayferry.FerryError):
                walker.convert([value])

    def grown():
        gc.collect()
        watched = [*gc.get_referents(*walkers), *converter.handlers.items(), kept]
        before = [sys.getrefcount(one) for one in watched], sys.getallocatedblocks()
        run(100)
        gc.collect()
        after = [sys.getrefcount(one) for one in watched], sys.getallocatedblocks()
        return max(new - old for old, new in zip(before[0], after[0])), after[1] - before[1]

    run(10)
    references, blocks = zip(*(grown() for _ in range(5)))
    assert min(references) < 100
    assert min(blocks) < 100


def test_hooks_that_convert_again_and_again_do_not_end_the_process(run_python):
    code = """
import arrayferry
class Leaf:
    def __init__(self, inner):
        self.inner = inner
arrayferry.register_leaf(Leaf, lambda leaf, converter: converter(leaf.inner))
value = 1
for _ in range(150):
    for _ in range(190):
        value = [value]
    value = Leaf(value)
try:
    arrayferry.convert(value, "numpy")
except RecursionError:
    print("too deep")
"""
    assert run_python(code) in ("too deep\n", "")


@pytest.mark.filterwarnings("ignore:Setting the strides:DeprecationWarning")
def test_odd_strides_are_copied():
    for target in ("numpy", "torch", "jax"):
        if target not in arrayferry.frameworks():
            continue
        for strides in ((-12, 4), (5, 4)):
            array = np.ones((1, 3), np.float32)
            array.strides = strides
            box = [array]
            del array
            assert arrayferry.convert(box.pop(), target).tolist() == [[1, 1, 1]]


def test_a_type_that_cannot_be_asked_is_told_with_its_path():
    class Meta(type):
        __hash__ = None

    class Odd(metaclass=Meta):
        pass

    with pytest.raises(arrayferry.FerryError, match=r'^value\["a"\]\[0\]'):
        arrayferry.convert({"a": [Odd()]}, "numpy")


@needs_c
def test_as_deep_as_memory_allows(run_python):
    code = """
import sys, numpy as np, arrayferry
sys.setrecursionlimit(10**7)
value = array = np.arange(3.0)
for i in range(200_000):
    value = {"x": value} if i % 2 else [value]
found = arrayferry.convert(value, "numpy")
while not isinstance(found, np.ndarray):
    found = found["x"] if isinstance(found, dict) else found[0]
print(found.tolist())
import os
sys.stdout.flush()
os._exit(0)  # to free such a structure is Python's own affair
"""
    assert run_python(code) == "[0.0, 1.0, 2.0]\n"


@needs_c
@pytest.mark.parametrize("depth", [1, 15, 16, 17, 100, 1000])
def test_no_depth_is_special(depth):
    """The path of a leaf is known at any depth, and what is at fault there is told."""

    def nested(leaf):
        for i in range(depth):
            leaf = {"x": leaf} if i % 2 else [leaf]
        return leaf

    path = "".join('["x"]' if i % 2 else "[0]" for i in reversed(range(depth)))
    arrayferry.register_leaf(Evil, lambda leaf, converter: [][0])
    converter, kept = Converter("numpy"), []
    with pytest.raises(arrayferry.FerryError) as caught:
        converter(nested(Evil()))
    assert caught.value.where == f"value{path}"
    box = [nested(np.arange(3.0))]
    found = converter.walker([Slot("value", lambda *told: kept.append(told))]).convert(box)
    while not isinstance(found, np.ndarray):
        [found] = found.values() if isinstance(found, dict) else found
    assert (found.tolist(), kept) == ([0, 1, 2], [])


@needs_c
def test_what_is_made_must_be_of_the_known_type():
    """What `take` returns is refused if it is of another type; it is not tried again."""
    calls = []

    def refuse(result):
        raise arrayferry.errors.UnsupportedError(f"{result} has no values")

    def take(array):
        calls.append(array)
        return "no array"

    def follow(leaf, owned):
        raise AssertionError

    as_is = bytes(number == np.dtype(float).num for number in range(64))
    fields = {"take": take, "result_type": int, "refuse": refuse, "as_is": as_is}
    table = {**Converter("numpy").handlers, np.ndarray: Route(("numpy", "toy"), follow, **fields)}
    walker = convert.Walker(table, [Slot("value")])
    with pytest.raises(arrayferry.errors.UnsupportedError, match=r"^value: no array has no values"):
        walker.convert([np.zeros(3)])
    assert len(calls) == 1


@needs_c
def test_a_guard_that_is_on_is_left_for_the_walk():
    is_on, entered = [True], []

    @contextmanager
    def off():
        entered.append(True)
        is_on[0] = False
        try:
            yield
        finally:
            is_on[0] = True

    guard = (lambda: is_on[0]), off
    table = Converter("numpy").handlers
    for walker in (kind(table, [Slot("value")], tuple, guard) for kind in (walk.Walker, convert.Walker)):
        assert walker.convert([{"x": "text"}]) == {"x": "text"}
        assert walker.unpack([({"x": 1.5},)]) == ({"x": 1.5},)
        assert is_on[0]
        with pytest.raises(TypeError):
            walker.convert(None)
    assert len(entered) >= 4


@needs_c
def test_wrong_use_is_an_error():
    converter = Converter("numpy")
    walker = converter.walker([Slot("value")])
    now = types.SimpleNamespace(action_space=1), "action_space", 1, int
    functions = [
        *(speedups.member_caster({}, int, [1], None, None, *now), *ways_of(int, int, int)),
        *(speedups.member_caster({}, *[None] * 4, *now), *ways_of(None, None, None)),
    ]
    for one in (walker, converter.walker([Slot("obs"), Slot("reward", scalar=float, kept_type=float)])):
        functions += [one.convert, one.unpack]
    for function in functions:
        for value in ((), [], [1, 2], [1], [(1, 2, 3, 4, 5)], None, np.zeros(2), walker):
            with suppress(TypeError, ValueError, KeyError):
                function(value)
    for make in (speedups.Walker, speedups.member_caster, speedups.arrays_of):
        for arguments in ((), (None,) * 3, (None,) * 5, (None,) * 9, (None,) * 20, (walker, 1)):
            with pytest.raises(TypeError):
                make(*arguments)
    for slots in ([], [Slot("x")] * 9, [("x",)], [1], None):
        with pytest.raises(TypeError):
            converter.walker(slots)
    for guard in (1, (), (bool,), (bool, bool, bool)):
        with pytest.raises((TypeError, SystemError)):
            convert.Walker({}, [Slot("value")], tuple, guard)
    for shared in ({}, {"unchanged": 1}, None):
        with pytest.raises(TypeError):
            speedups.configure(shared)
    for function in (speedups.copy_buffer, speedups.halved):
        assert function(None) is None
        with pytest.raises(TypeError):
            function()
