"""The tree of errors; each is also a builtin, says where, what and what to do, and can be pickled."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest

import arrayferry
from arrayferry import errors
from arrayferry._core.walk import Slot
from helpers.frameworks import TARGET, FakeFramework

KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.FerryError)
]

BUILTINS = {
    "UnsupportedError": TypeError,
    "SharingError": ValueError,
    "CircularError": ValueError,
    "DeviceError": ValueError,
    "UnknownFrameworkError": ValueError,
    "OptionError": ValueError,
    "NarrowingError": OverflowError,
    "TransferError": BufferError,
    "NotInstalledError": ImportError,
    "WorkerError": RuntimeError,
}


def test_every_error_is_also_the_builtin_a_caller_expects():
    assert {kind.__name__ for kind in KINDS} == {"FerryError", *BUILTINS}
    for name, builtin in BUILTINS.items():
        assert issubclass(getattr(errors, name), (arrayferry.FerryError, builtin))
        assert issubclass(getattr(errors, name), builtin)
        assert name in errors.__doc__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_error_survives_pickling(kind, again):
    error = again(kind("what", "hint", "where"))
    assert type(error) is kind
    assert (error.what, error.hint, error.where) == ("what", "hint", "where")
    assert str(error) == "where: what\nHint: hint"


def test_parts_that_are_not_there_are_not_shown():
    assert str(errors.FerryError("what")) == "what"
    assert str(errors.FerryError("what", where="here")) == "here: what"
    assert str(errors.FerryError("what", "hint")) == "what\nHint: hint"


def test_the_first_place_that_is_told_stays():
    error = errors.FerryError("what")
    assert error.at("inner") is error
    assert error.at("outer").where == "inner"


def test_raised_errors_survive_pickling():
    for value in [2**70], {"x": np.array([2**64 - 1], "u8"), "y": 2**64}:
        with pytest.raises(OverflowError) as caught:
            arrayferry.convert(value, "numpy")
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_message_says_where_what_and_what_to_do():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False), pytest.raises(OverflowError) as caught:
        arrayferry.convert({"camera": [0, 1, np.array([1, 2**40, 3])]}, "jax")
    first, second = str(caught.value).splitlines()
    assert first.startswith('value["camera"][2]: int64[3] numpy -> int32 jax: 1099511627776')
    assert second.startswith("Hint: ")
    assert "jax_enable_x64" in second
    assert 'dtypes={"int64": ' in second


def test_caller_may_name_the_root():
    walker = arrayferry.Converter("numpy").walker([Slot("obs"), Slot("info")])
    with pytest.raises(OverflowError, match=r'^obs\["x"\]: '):
        walker.unpack([({"x": 2**70}, 1)])
    with pytest.raises(OverflowError, match=r"^info: "):
        walker.unpack([(1, 2**70)])


def test_framework_that_is_not_installed_is_named_with_the_command():
    arrayferry.register_framework(FakeFramework("missing", modules=("no_such_module_anywhere",)))
    with pytest.raises(ImportError, match="missing cannot be imported") as caught:
        arrayferry.convert(1, "missing")
    assert isinstance(caught.value, arrayferry.errors.NotInstalledError)
    assert caught.value.hint == "pip install missing"
    assert "no_such_module_anywhere" in str(caught.value.__cause__)
    assert "missing" not in arrayferry.frameworks()


def test_the_command_for_mlx_installs_a_backend(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    with pytest.raises(arrayferry.errors.NotInstalledError) as caught:
        arrayferry.convert(1, "mlx")
    assert caught.value.hint == 'pip install "mlx[cpu]"'


@pytest.mark.parametrize(
    ("name", "package"),
    [
        *((name, name) for name in "numpy torch jax dask sparse tensorflow".split()),
        ("cupy", "cupy-cuda12x"),
        ("array_api_strict", "array-api-strict"),
        ("warp", "warp-lang"),
        ("paddle", "paddlepaddle"),
    ],
)
def test_every_known_framework_has_a_command(monkeypatch, name, package):
    framework = arrayferry._core.registry.registered()[name]
    monkeypatch.setitem(sys.modules, framework.modules[0], None)
    with pytest.raises(arrayferry.errors.NotInstalledError) as caught:
        framework.load()
    assert caught.value.hint == f"pip install {package}"


@pytest.mark.parametrize("to", ["no_such_framework", 3, None, "os", pytest, "", "numpy.linalg"], ids=repr)
def test_what_is_no_framework_is_an_error_that_lists_them(to):
    with pytest.raises(ValueError, match="is not an array framework") as caught:
        arrayferry.convert(1, to)
    assert isinstance(caught.value, arrayferry.errors.UnknownFrameworkError)
    for name in arrayferry.frameworks():
        assert name in caught.value.hint


def test_unknown_framework_is_not_imported(run_python):
    code = """
import sys, arrayferry
try:
    arrayferry.convert(1, "this")
except ValueError:
    print("this" in sys.modules)
"""
    assert run_python(code) == "False\n"


def test_own_error_of_a_framework_is_the_cause():
    def refuse(array):
        raise RuntimeError("out of memory")

    arrayferry.register_framework(FakeFramework("full", target=TARGET._replace(take=refuse)))
    with pytest.raises(BufferError, match="out of memory") as caught:
        arrayferry.convert({"x": np.zeros((2, 3), "f4")}, "full")
    assert isinstance(caught.value, arrayferry.errors.TransferError)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert str(caught.value).startswith('value["x"]: float32[2,3] numpy -> full: RuntimeError: ')


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_no_refusal_passes_through(interrupt):
    def stop(array):
        raise interrupt

    arrayferry.register_framework(FakeFramework("full", target=TARGET._replace(take=stop)))
    with pytest.raises(interrupt):
        arrayferry.convert({"x": np.zeros(2)}, "full")
