"""The proof that nobody else sees an array: the catalogue of counter-examples, and the fresh cases.

Whether memory was taken over is told by its address: as long as the original lives, a copy of it
has another one. Every counter-example must be copied; a fresh array must be taken over, or else the
counter-examples would prove nothing.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import contextvars
import ctypes
import functools
import gc
import io
import itertools
import mmap
import pickle
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import RawArray, shared_memory
from pathlib import Path

import numpy as np
import pytest

from arrayferry import Converter, convert, frameworks, register_container, register_leaf
from arrayferry._core import ownership, walk
from arrayferry._core.speedups import speedups
from arrayferry.wrappers.array_conversion import array_conversion

proving = pytest.mark.skipif(not ownership.REFCOUNTS_RELIABLE, reason="reference counts prove nothing here")

TO_NUMPY = Converter("numpy")

# Each has its own fast path for what may be taken over.
targets = pytest.mark.parametrize("target", [name for name in ("numpy", "torch") if name in frameworks()])


class Maker:
    """Makes arrays, and remembers where the last one was."""

    def __init__(self):
        self.address = 0

    def __call__(self, dtype="float64"):
        return self.note(np.arange(5000).astype(dtype))  # small ones may be copied, because that is faster

    def note(self, array):
        self.address = array.__array_interface__["data"][0]
        return array


def leaf_of(value):
    """The one array in a structure."""
    while not isinstance(value, np.ndarray) or value.dtype == object:
        value = next(iter(value.values() if isinstance(value, dict) else value))
    return value


def is_taken(value, maker):
    leaf = leaf_of(convert(value, "numpy", copy=False))
    return leaf.__array_interface__["data"][0] == maker.address


# --- fresh: nobody else holds it. Each gives the value.

FRESH = {
    "array": lambda make: make(),
    "0-d": lambda make: make.note(np.array(1.5)),
    "in a dict": lambda make: {"x": make()},
    "in a list": lambda make: [make()],
    "in a tuple": lambda make: (make(), 1.0, "text"),
    "deep": lambda make: {"a": [({"b": [make()]}, None)]},
    "a view that is gone": lambda make: (array := make(), array[1:])[0],
    "a weak reference that is gone": lambda make: (array := make(), weakref.ref(array))[0],
    "uint8": lambda make: make("uint8"),
}
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    del FRESH["a weak reference that is gone"]  # after one, CPython never says unique


@proving
@pytest.mark.parametrize("case", FRESH)
@targets
def test_fresh_array_is_taken_over(target, case):
    make = Maker()
    result = Converter(target)._convert_box([FRESH[case](make)])
    is_small = case == "0-d" and Converter(target).target.small > 0
    assert is_taken(result, make) is not is_small


@proving
@pytest.mark.skipif(sys.version_info < (3, 11), reason="the caller's stack holds one reference more")
def test_fresh_argument_is_taken_over():
    make = Maker()
    result = convert(make(), "numpy")  # not in the assert: pytest keeps a reference to what it shows
    assert is_taken(result, make)
    result = convert({"x": make()}, "numpy")
    assert is_taken(result, make)


# --- the catalogue: each gives the value, and whoever sees it.


@contextlib.contextmanager
def tracing(hook, switch=sys.settrace, current=sys.gettrace):
    before = current()
    switch(hook)
    try:
        yield
    finally:
        switch(before)


class Environment:
    def __init__(self, state):
        self.state = state

    def step(self):
        return self.state


def in_closure(array):
    return lambda: array


def in_generator(array):
    def generator():
        yield 1
        yield array

    started = generator()
    next(started)
    return started


async def kept_by_coroutine(array):
    await asyncio.sleep(0)
    return array


async def kept_by_async_generator(array):
    await asyncio.sleep(0)
    yield array


def in_coroutine(array):
    coroutine = kept_by_coroutine(array)
    coroutine.send(None)
    return coroutine


def in_async_generator(array):
    generator = kept_by_async_generator(array)
    step = generator.asend(None)
    step.send(None)
    return generator, step


def in_delegating_generator(array):
    def outer(array):
        yield from in_generator(array)

    started = outer(array)
    next(started)
    return started


def in_frame(array):
    return sys._getframe()


def in_locals(array):
    return locals()


def in_frame_locals(array):
    return sys._getframe().f_locals


def in_context(array):
    context = contextvars.copy_context()
    context.run(contextvars.ContextVar("array").set, array)
    return context


def in_trace(array):
    frames = []
    with tracing(lambda frame, event, arg: frames.append(frame)):
        in_closure(array)
    return frames


def in_traceback(array):
    try:
        raise KeyError("kept")
    except KeyError as error:
        return error


def in_memo(array):
    pickler = pickle.Pickler(io.BytesIO())
    pickler.dump(array)
    return pickler


def in_cache(array):
    @functools.lru_cache
    def cached(key):
        return array

    cached(1)
    return cached


def in_thread_local(array):
    local = threading.local()
    local.array = array
    return local


def in_object_array(array):
    slots = np.empty(1, object)
    slots[0] = array
    return slots


def in_weak_dictionary(array):
    values = weakref.WeakValueDictionary()
    values[0] = array
    return values


SEEN_BY = {
    "slice": lambda a: a[1:],
    "whole slice": lambda a: a[:],
    "reshaped": lambda a: a.reshape(2, -1),
    "transposed": lambda a: a.reshape(2, -1).T,
    "view of a view": lambda a: a[1:][1:].view("u1"),
    "other dtype": lambda a: a.view("u1"),
    "memoryview": memoryview,
    "cast memoryview": lambda a: memoryview(a).cast("B"),
    "frombuffer": np.frombuffer,
    "data": lambda a: a.data,
    "PickleBuffer": pickle.PickleBuffer,
    "flat": lambda a: a.flat,
    "nditer": np.nditer,
    "bound method": lambda a: a.sum,
    "numpy dlpack": np.from_dlpack,
    "capsule": lambda a: a.__dlpack__(),
    "ctypes": lambda a: a.ctypes,
    "ctypes data_as": lambda a: a.ctypes.data_as(ctypes.c_void_p),
    "ctypes from_buffer": lambda a: (ctypes.c_double * 8).from_buffer(a),
    "as_ctypes": np.ctypeslib.as_ctypes,
    "array_struct": lambda a: a.__array_struct__,
    "list": lambda a: [a],
    "dict": lambda a: {"x": a},
    "iterator": lambda a: iter([a]),
    "array iterator": iter,
    "closure": in_closure,
    "generator": in_generator,
    "generator expression": lambda a: (row for row in a),
    "partial": lambda a: functools.partial(print, a),
    "default argument": lambda a: lambda x=a: x,
    "thread local": in_thread_local,
    "traceback": in_traceback,
    "coroutine": in_coroutine,
    "async generator": in_async_generator,
    "delegating generator": in_delegating_generator,
    "frame": in_frame,
    "locals": in_locals,
    "f_locals": in_frame_locals,
    "context": in_context,
    "frame of a trace": in_trace,
    "pickler": in_memo,
    "lru_cache": in_cache,
    "object array": in_object_array,
    "attribute": Environment,
    "weakref": weakref.ref,
    "weak proxy": weakref.proxy,
    "WeakValueDictionary": in_weak_dictionary,
    "finalize": lambda a: weakref.finalize(a, list),
    "repeat": itertools.repeat,
}


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: {"x": [(a,)]}], ids=["bare", "nested"])
@pytest.mark.parametrize("case", SEEN_BY)
@targets
def test_array_that_somebody_sees_is_copied(target, case, wrap):
    make = Maker()
    array = make()
    keep = SEEN_BY[case](array)
    box = [wrap(array)]
    del array
    result = Converter(target)._convert_box(box)
    assert not is_taken(result, make), keep


@pytest.mark.parametrize("kind", ["from_numpy", "from_dlpack", "frombuffer", "view", "detach", "storage"])
@targets
def test_array_that_torch_sees_is_copied(target, kind):
    torch = pytest.importorskip("torch")
    make = Maker()
    array = make()
    keep = {
        "from_numpy": torch.from_numpy,
        "from_dlpack": torch.from_dlpack,
        "frombuffer": lambda a: torch.frombuffer(a, dtype=torch.float64),
        "view": lambda a: torch.from_numpy(a)[1:],
        "detach": lambda a: torch.from_numpy(a).detach(),
        "storage": lambda a: torch.from_numpy(a).untyped_storage(),
    }[kind](array)
    box = [array]
    del array
    result = Converter(target)._convert_box(box)
    assert not is_taken(result, make), keep


@targets
def test_array_that_jax_sees_is_copied(target):
    jax = pytest.importorskip("jax")
    make = Maker()
    others = []  # kept, so that the next one is elsewhere
    while (array := np.arange(8, dtype="float32")).ctypes.data % 64:  # only there JAX uses the memory itself
        others.append(array)
    alias = jax.device_put(make.note(array))
    assert alias.unsafe_buffer_pointer() == make.address
    box = [array]
    del array
    result = Converter(target)._convert_box(box)
    assert not is_taken(result, make)


# --- containers that somebody else holds: the array in them looks fresh


HELD = {
    "its own dict": lambda make: {"x": make()},
    "its own list": lambda make: [make()],
    "its own tuple": lambda make: (make(), {}),
    "its own array": lambda make: make(),
    "a dict in a dict": lambda make: {"deep": {"x": make()}},
}


@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [v], lambda v: {"a": (v,)}], ids="bare list dict".split()
)
@pytest.mark.parametrize("case", HELD)
@targets
def test_environment_that_returns_what_it_keeps_is_copied(target, case, wrap):
    make = Maker()
    environment = Environment(HELD[case](make))
    result = Converter(target)._convert_box([wrap(environment.step())])
    assert not is_taken(result, make)
    assert is_taken(environment.state, make)


@pytest.mark.parametrize("see", [iter, lambda d: d.values(), lambda d: d.items(), lambda d: iter(d.values())])
@targets
def test_dict_that_somebody_looks_into_is_copied(target, see):
    make = Maker()
    value = {"x": make()}
    keep = see(value)
    box = [value]
    del value
    assert not is_taken(Converter(target)._convert_box(box), make), keep


@targets
def test_same_array_twice_is_copied(target):
    make = Maker()
    array = make()
    box = [{"x": array, "y": array}]
    del array
    result = Converter(target)._convert_box(box)
    assert result["x"] is not result["y"]
    assert not np.shares_memory(*convert(list(result.values()), "numpy", copy=False))
    assert not is_taken(result, make)


# --- memory that is not the array's own, or not as it has to be


def in_shared_memory():
    memory = shared_memory.SharedMemory(create=True, size=64)
    weakref.finalize(memory, memory.unlink)
    return np.ndarray(8, buffer=memory.buf), memory


def in_file(tmp_path, mode):
    np.save(tmp_path / "a.npy", np.arange(8.0))
    return np.load(tmp_path / "a.npy", mmap_mode=mode), None


def read_only():
    array = np.arange(8.0)
    array.flags.writeable = False
    return array, None


WITHOUT_OWNER = """
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>

static double memory[8];

static PyObject *make(PyObject *self, PyObject *ignored) {
    npy_intp shape = 8;
    return PyArray_SimpleNewFromData(1, &shape, NPY_DOUBLE, memory);
}

static PyMethodDef methods[] = {{"make", make, METH_NOARGS, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "without_owner", NULL, -1, methods};

PyMODINIT_FUNC PyInit_without_owner(void) {
    import_array();
    PyObject *made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
    if (made) {
        PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED);
    }
#endif
    return made;
}
"""
COMPILER = (sysconfig.get_config_var("CC") or "cc").split()
CAN_COMPILE = sys.platform in ("linux", "darwin") and shutil.which(COMPILER[0]) is not None
CAN_COMPILE &= Path(sysconfig.get_path("include"), "Python.h").exists()


@functools.cache
def c_extension():
    """A module in C that makes an array of its own memory, without an owner that NumPy knows of."""
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "without_owner.c"), Path(folder, "without_owner.so")
        source.write_text(WITHOUT_OWNER)
        headers = [f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]
        late = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
        command = [*COMPILER, "-shared", "-fPIC", *late, *headers, str(source), "-o", str(built)]
        subprocess.run(command, check=True, capture_output=True)
        spec = spec_from_file_location("without_owner", built)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def without_owner():
    array = c_extension().make()
    assert array.base is None
    assert not array.flags.owndata
    return array, None


FOREIGN = {
    **({"C extension's": lambda tmp: without_owner()} if CAN_COMPILE else {}),
    "shared memory": lambda tmp: in_shared_memory(),
    "mmap": lambda tmp: (np.frombuffer(mmap.mmap(-1, 64)), None),
    "memmap r": lambda tmp: in_file(tmp, "r"),
    "memmap r+": lambda tmp: in_file(tmp, "r+"),
    "memmap c": lambda tmp: in_file(tmp, "c"),
    "memmap as plain array": lambda tmp: (np.asarray(in_file(tmp, "r+")[0]), None),
    "RawArray": lambda tmp: (np.frombuffer(RawArray("d", 8)), None),
    "bytearray": lambda tmp: (np.frombuffer(bytearray(64)), None),
    "bytes": lambda tmp: (np.frombuffer(bytes(64)), None),
    "pickled out of band": lambda tmp: (pickle.loads(pickle.dumps(np.arange(8.0), 5)), None),
    "subclass": lambda tmp: (type("Logged", (np.ndarray,), {})(8), None),
    "matrix column": lambda tmp: (np.eye(8)[:, 0], None),
    "fortran": lambda tmp: (np.asfortranarray(np.eye(4)), None),
    "byte-swapped": lambda tmp: (np.arange(8.0).astype(">f8"), None),
    "read-only": lambda tmp: read_only(),
    "unaligned": lambda tmp: (np.frombuffer(bytearray(65), np.uint8)[1:].view("f8"), None),
}


@pytest.mark.parametrize("case", FOREIGN)
@targets
def test_memory_that_is_not_plain_and_its_own_is_copied(target, case, tmp_path):
    make = Maker()
    box = list(FOREIGN[case](tmp_path))
    keep = box.pop()
    make.note(box[0])
    result = Converter(target)._convert_box(box)
    assert not is_taken(result, make), keep
    view = convert(result, "numpy", copy=False)
    assert view.flags.c_contiguous
    assert view.flags.writeable
    assert view.dtype.isnative
    assert type(view) is np.ndarray


@targets
def test_elements_of_a_fresh_object_array_are_copied(target):
    make = Maker()
    box = [np.array([make(), None], object)]
    result = Converter(target)._convert_box(box)
    assert not is_taken(result, make)


# --- callers


def in_a_pool(function, *args):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


SEEN = []
CALLS = {
    "converter(*args)": lambda args: TO_NUMPY(*args),
    "convert(*args)": lambda args: convert(*args, "numpy"),
    "convert(**kwargs)": lambda args: convert(**dict(zip(["value", "to"], [args[0], "numpy"], strict=True))),
    "convert(value=)": lambda args: convert(value=args[0], to="numpy"),
    "partial": lambda args: functools.partial(convert, *args, "numpy")(),
    "map": lambda args: next(map(TO_NUMPY, args)),
    "map convert": lambda args: next(map(convert, args, ["numpy"])),
    "starmap": lambda args: next(itertools.starmap(convert, [(args[0], "numpy")])),
    "filter": lambda args: list(filter(lambda a: SEEN.append(convert(a, "numpy")), args)) or SEEN.pop(),
    "min": lambda args: (min(args, key=lambda a: SEEN.append(convert(a, "numpy"))), SEEN.pop())[1],
    "comprehension": lambda args: [convert(a, "numpy") for a in args][0],  # noqa: RUF015
    "loop": lambda args: [convert(a, "numpy") for a in iter(args)].pop(),
    "reduce": lambda args: functools.reduce(lambda _, a: convert(a, "numpy"), args, None),
    "pool": lambda args: in_a_pool(convert, args[0], "numpy"),
    "apply": lambda args: Converter.__call__(TO_NUMPY, args[0]),
    "unbox of a list that somebody keeps": lambda args: TO_NUMPY.take(args[0]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("case", HELD)
def test_argument_that_the_caller_keeps_is_copied(call, case):
    make = Maker()
    args = (HELD[case](make),)
    result = call(args)
    assert not is_taken(result, make)
    assert is_taken(args[0], make)


# --- a variable of a running or suspended frame holds the value, and nothing else: from Python 3.14 on, what
# is loaded from it and handed on is not counted. Each gives the result, and where the value still is.


class Operand:
    """Is handed a value by operators, and converts it."""

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, send):
        self.send = send

    def keep(self, value):
        self.result = self.send(value)
        return self

    __radd__ = __getitem__ = __eq__ = __contains__ = __call__ = __matmul__ = keep

    @property
    def attribute(self):
        return self.result

    @attribute.setter
    def attribute(self, value):
        self.result = self.send(value)

    def __setitem__(self, key, value):
        self.result = self.send(value)

    def __getattr__(self, name):
        raise AttributeError(name)


def variable(make, send):
    value = make()
    return send(value), value


def two_variables(make, send):
    value, other = make(), 1
    return (lambda x, y: send(x))(value, other), value


def argument(make, send):
    value = make()
    return (lambda x: send(x))(value), value


def argument_given_up(make, send):
    def inner(x):
        box = [x]
        del x
        return send(box.pop())

    value = make()
    return inner(value), value


def arguments_all_the_way_down(make, send):
    def inner(x, depth):
        return inner(x, depth - 1) if depth else send(x)

    value = make()
    return inner(value, 60), value


def starred_argument(make, send):
    value = make()
    return (lambda *args, **kwargs: send(args[0]))(value, key=value), value


def keyword_argument(make, send):
    value = make()
    return (lambda *, key: send(key))(key=value), value


def walrus(make, send):
    return send(value := make()), value


def loop(make, send):
    for value in [make()]:
        result = send(value)
    return result, value


def comprehension(make, send):
    return [(send(value), value) for value in [make()]][0]  # noqa: RUF015


def context_manager(make, send):
    with contextlib.nullcontext(make()) as value:
        return send(value), value


def match_statement(make, send):
    match make():
        case value:
            return send(value), value


def cell(make, send):
    value = make()
    return (lambda: send(value))(), value


def class_body(make, send):
    class Body:
        value = make()
        result = send(value)

    return Body.result, Body


def executed(make, send):
    names = {"make": make, "send": send}
    exec("value = make(); result = send(value)", names)
    return names["result"], names


def exception(make, send):
    try:
        raise KeyError(make())
    except KeyError as error:
        return send(error.args[0]), error


def operator(make, send):
    value = make()
    return (value + Operand(send)).result, value


def subscript(make, send):
    value = make()
    return Operand(send)[value].result, value


def stored_item(make, send):
    value, operand = make(), Operand(send)
    operand[0] = value
    return operand.result, value


def stored_attribute(make, send):
    value, operand = make(), Operand(send)
    operand.attribute = value
    return operand.result, value


def comparison(make, send):
    value, operand = make(), Operand(send)
    return (operand == value).result, value


def membership(make, send):
    value, operand = make(), Operand(send)
    assert value in operand
    return operand.result, value


def called_object(make, send):
    value = make()
    return Operand(send)(value).result, value


def called_from_c(make, send):
    value, results = make(), []
    min((value,), key=lambda x: results.append(send(x)))
    return results[0], value


def generator_that_yielded_it(make, send):
    def generator():
        value = make()
        yield value

    suspended = generator()
    return send(next(suspended)), suspended


def generator_that_was_sent_it(make, send):
    def generator():
        value = yield
        yield send(value)

    value, suspended = make(), generator()
    next(suspended)
    return suspended.send(value), suspended


def coroutine(make, send):
    async def inner(value):
        return send(value)

    async def outer():
        value = make()
        return await inner(value), value

    with pytest.raises(StopIteration) as caught:
        outer().send(None)
    return caught.value.value


def suspended_coroutine(make, send):
    async def coroutine():
        value = make()
        await Awaited(value)

    class Awaited(list):
        def __init__(self, value):
            super().__init__([value])

        def __await__(self):
            yield self.pop()

    suspended = coroutine()
    return send(suspended.send(None)), suspended


def frame_locals(make, send):
    value = make()
    return send(sys._getframe().f_locals["value"]), value


def replaced_through_f_locals(make, send):
    """The variable that an argument was borrowed from gets another value while the argument is in use."""

    def inner(x):
        sys._getframe(1).f_locals["value"] = None
        return send(x), x

    value = make()
    return inner(value)


def stack(make, send):
    held = [make()]
    return (held[0], send(held[0]))[::-1]


def stack_over_a_call(make, send):
    """A value that is on the stack, while the list that it came from is emptied by a call."""
    held = [make()]
    return (held[0], send(held.pop()))[::-1]


def traced(make, send):
    def hook(frame, event, arg):
        frame.f_trace_opcodes = True
        return hook

    with tracing(hook):
        return argument(make, send)


def profiled(make, send):
    with tracing(lambda frame, event, arg: None, sys.setprofile, sys.getprofile):
        return argument(make, send)


def hot(make, send):
    """As often as it takes to specialize the code, and to compile it where there is a compiler."""
    for _ in range(300):
        found = argument_given_up(make, send)
    return found


VARIABLES = [
    *(variable, two_variables, argument, argument_given_up, arguments_all_the_way_down, starred_argument),
    *(keyword_argument, walrus, loop, comprehension, context_manager, match_statement, cell, class_body),
    *(executed, exception, operator, subscript, stored_item, stored_attribute, comparison, membership),
    *(called_object, called_from_c, generator_that_yielded_it, generator_that_was_sent_it, coroutine),
    *(suspended_coroutine, frame_locals, replaced_through_f_locals, stack, stack_over_a_call, traced),
    *(profiled, hot),
]
PYTHON_WALKER = walk.Walker(TO_NUMPY.handlers, [walk.Slot("value")])
SENDS = {
    "convert": lambda value: convert(value, "numpy"),
    "converter": TO_NUMPY,
    "take": TO_NUMPY.take,
    "a box": lambda value: TO_NUMPY._convert_box([value]),
    "the walk in Python": lambda value: PYTHON_WALKER.convert([value]),
}


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
@pytest.mark.parametrize("nested", [False, True], ids=["array", "dict"])
@pytest.mark.parametrize("case", VARIABLES, ids=lambda case: case.__name__)
def test_what_a_variable_holds_is_copied(case, nested, send):
    make = Maker()
    if nested and case is operator:
        pytest.skip("a dict is no operand")
    result, keep = case((lambda: {"x": make()}) if nested else make, send)
    assert not is_taken(result, make), keep


@proving
@pytest.mark.skipif(sys.version_info < (3, 11), reason="the caller's stack holds one reference more")
@pytest.mark.parametrize("nested", [False, True], ids=["array", "dict"])
def test_a_temporary_is_taken_over(nested):
    """Or else the counter-examples would prove nothing: what is held nowhere is taken over, in both walks."""
    make = Maker()

    def fresh():
        return {"x": make()} if nested else make()

    for _ in range(300):
        box = [fresh()]
        assert is_taken(PYTHON_WALKER.convert(box), make)
        result = TO_NUMPY.take([fresh()][0])
        assert is_taken(result, make)
        result = TO_NUMPY.take((lambda x: x)(fresh()))
        assert is_taken(result, make)


# --- weak references that become counted ones, and counted ones that become weak, at any moment


class Upgrading:
    """Has a weak reference to an array, and replaces it with a counted one when it is called."""

    def __init__(self, array, at=1):
        self.reference, self.array, self.calls, self.at = weakref.ref(array), None, 0, at

    def __call__(self, *_):
        self.calls += 1
        if self.calls == self.at:
            self.array = self.reference()
            self.reference = lambda: self.array

    def trace(self, frame, event, arg):
        frame.f_trace_opcodes = True
        self()
        return self.trace


class Weakening(Upgrading):
    """Holds an array, and replaces its counted reference with a weak one when it is called."""

    def __init__(self, array, at=1):
        self.reference, self.array, self.calls, self.at = None, array, 0, at

    def __call__(self, *_):
        self.calls += 1
        if self.calls == self.at:
            self.reference = weakref.ref(self.array)
            self.array = None


class Leaf:
    """A leaf and a key whose code calls a hook."""

    def __init__(self, hook):
        self.hook = hook

    def __hash__(self):
        self.hook()
        return 1

    def __eq__(self, other):
        self.hook()
        return self is other


class Hooked:
    """A container whose code calls a hook."""

    def __init__(self, hook, array):
        self.hook, self.array = hook, array


class Dying:
    def __init__(self, hook):
        self.hook = hook

    def __del__(self):
        self.hook()


@contextlib.contextmanager
def collecting(hook):
    before = gc.get_threshold()
    gc.callbacks.append(hook)
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(hook)


@contextlib.contextmanager
def handling(hook):
    before = signal.signal(signal.SIGVTALRM, lambda number, frame: hook())
    signal.setitimer(signal.ITIMER_VIRTUAL, 1e-5, 1e-5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Asked(abc.ABC):  # noqa: B024  (it is asked, never derived from)
    """An abstract class that the lookup of a type asks whether the type is a subclass."""

    hook = None

    @classmethod
    def __subclasshook__(cls, other):
        if cls.hook is not None:
            cls.hook()
        return NotImplemented


@contextlib.contextmanager
def abstract_class(hook):
    if Asked not in array_conversion.registry:
        array_conversion.register(Asked, lambda value, xp, device: value)
    Asked.register(type("Other", (), {}))  # so that all that was asked is asked again
    Asked.hook = hook
    try:
        yield
    finally:
        Asked.hook = None


INTERRUPTIONS = {
    "line or opcode": lambda hook: tracing(hook.trace),
    "call": lambda hook: tracing(hook, sys.setprofile, sys.getprofile),
    "garbage collection": collecting,
    **({"signal": handling} if hasattr(signal, "setitimer") else {}),
}


@pytest.mark.parametrize("holder", [Upgrading, Weakening])
@pytest.mark.parametrize("during", INTERRUPTIONS)
def test_a_holder_that_changes_its_reference_at_any_moment_is_noticed(during, holder):
    make, at, calls = Maker(), 0, 1
    while at < min(calls, 3000):
        at += 1 + at // 300  # each of the first moments, then fewer
        box = [make()]
        hook = holder(box[0], at)
        converter = Converter("numpy")  # so that every type is looked up
        with INTERRUPTIONS[during](hook):
            result = converter.take(box.pop())
        calls = hook.calls
        assert not is_taken(result, make), f"at the call {at} of the hook"


HOOKS = {
    "type lookup": (abstract_class, lambda hook, array: array),
    "type lookup, in a dict": (abstract_class, lambda hook, array: {"x": [array]}),
    "leaf before": (None, lambda hook, array: [Leaf(hook), array]),
    "leaf after": (None, lambda hook, array: [array, Leaf(hook)]),
    "key": (None, lambda hook, array: {Leaf(hook): array}),
    "equal keys": (None, lambda hook, array: {Leaf(hook): 1, Leaf(hook): array}),
    "container": (None, lambda hook, array: {"first": Hooked(hook, array), "second": [array]}),
    "finalizer": (None, lambda hook, array: {"first": Hooked(Dying(hook), None), "second": [array]}),
}


@pytest.mark.parametrize("holder", [Upgrading, Weakening])
@pytest.mark.parametrize("case", HOOKS)
@targets
def test_a_hook_that_changes_a_reference_is_noticed(target, case, holder):
    def values(old):
        if isinstance(old.hook, Upgrading):
            old.hook()
        old.hook = None  # and with it, what dies
        return [old.array]

    def build(old, new):
        return Hooked(None, *new)

    def become(leaf, converter):
        leaf.hook()
        return "leaf"

    register_container(Hooked, values, build, replace=True)
    register_leaf(Leaf, become, replace=True)
    context, wrap = HOOKS[case]
    for at in range(1, 10):
        make = Maker()
        array = make()
        hook = holder(array, 10_000)  # not yet, while the value is made
        box = [wrap(hook, array)]
        del array
        hook.at = hook.calls + at
        converter = Converter(target)
        with (context or contextlib.nullcontext)(*[hook] * (context is not None)):
            result = converter.take(box.pop())
        assert make.address not in arrays_of(result), at


def arrays_of(value):
    """The addresses of the arrays in a result."""
    if isinstance(value, (dict, list, tuple)):
        parts = value.values() if isinstance(value, dict) else value
        return [address for part in parts for address in arrays_of(part)]
    if isinstance(value, Hooked):
        return arrays_of(value.array)
    if value is None or isinstance(value, (str, int)) or not getattr(value, "shape", ()):
        return []
    return [convert(value, "numpy", copy=False).__array_interface__["data"][0]]


# --- without proof


PURE = "import os, sys, sysconfig; os.environ['ARRAYFERRY_PURE_PYTHON'] = '1'\n"
ANSWER_IN_C = """
import importlib
from sys import getrefcount
import_module = importlib.import_module

def with_another_answer(name):
    module = import_module(name)
    module.is_unshared = {}
    return module

importlib.import_module = with_another_answer
"""

# What an interpreter looks like on which a count proves nothing.
UNPROVING = {
    "not CPython": "import sys; sys.implementation.name = 'pypy'",
    "free-threaded, without C": PURE + "sysconfig.get_config_var = lambda name: 1",
    "all counts are alike": PURE + "sys.getrefcount = lambda value: 2",
}
# A tracer at import holds references that are gone when it is off: they must not be taken as the usual ones.
TRACED = """
import sys
kept = []

def keep_variables(frame, event, argument):
    if frame.f_code.co_name != "<module>":
        kept.append(dict(frame.f_locals))
    return keep_variables

sys.settrace(keep_variables)
import arrayferry
sys.settrace(None)
kept.clear()
"""
if not sysconfig.get_config_var("Py_GIL_DISABLED"):
    UNPROVING |= {"traced, without C": PURE + TRACED}
if speedups is not None:
    UNPROVING |= {
        "all is unshared in C": ANSWER_IN_C.format("lambda box: True"),
        "nothing is unshared in C": ANSWER_IN_C.format("lambda box: False"),
        "variables are not counted": ANSWER_IN_C.format("lambda box: getrefcount(box[0]) <= 3"),
    }

ALL_IS_COPIED = """
import arrayferry
from arrayferry._core import ownership
assert not ownership.REFCOUNTS_RELIABLE
assert ownership.unshared < 0
converter = arrayferry.Converter("numpy")
array = np.arange(8.0)
address = array.__array_interface__["data"][0]
box = [array]
del array
result = converter._convert_box(box)
assert result.__array_interface__["data"][0] != address
print("copied")
"""


@pytest.mark.parametrize("interpreter", UNPROVING.values(), ids=UNPROVING)
def test_where_counts_prove_nothing_all_is_copied(run_python, interpreter):
    assert run_python(f"import numpy as np\n{interpreter}\n{ALL_IS_COPIED}") == "copied\n"


@pytest.mark.skipif(speedups is None, reason="without C, the walk is in Python")
@pytest.mark.skipif(not ownership.REFCOUNTS_RELIABLE, reason="reference counts prove nothing here")
@pytest.mark.parametrize("interpreter", [TRACED, "import sys; sys.getrefcount = lambda value: 2"])
def test_the_walk_in_c_needs_nothing_of_python_to_prove(run_python, interpreter):
    code = (
        "import numpy as np\n"
        f"{interpreter}\n"
        "import arrayferry\n"
        "array = np.arange(8.0)\n"
        "address = array.__array_interface__['data'][0]\n"
        "box = [array]\n"
        "del array\n"
        "result = arrayferry.Converter('numpy').take(box.pop())\n"
        "print(result.__array_interface__['data'][0] == address)\n"
    )
    assert run_python(code) == f"{sys.version_info >= (3, 11)}\n"


def test_here_the_proof_is_on_as_documented():
    is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    can_ask = not is_free_threaded or (speedups is not None and sys.version_info >= (3, 14))
    assert (sys.implementation.name == "cpython" and can_ask) == ownership.REFCOUNTS_RELIABLE
    assert (ownership.unshared > 0) == ownership.REFCOUNTS_RELIABLE
