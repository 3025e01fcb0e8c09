"""A user adds a framework, a container or a leaf with one call."""

from __future__ import annotations

import copy
import decimal
import fractions
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import arrayferry
from arrayferry import (
    Converter,
    Source,
    Target,
    convert,
    register_container,
    register_framework,
    register_leaf,
)
from arrayferry._core.registry import registered
from arrayferry._core.type_cache import clear_type_caches, registrations
from arrayferry.errors import OptionError, UnsupportedError
from arrayferry.testing import bits
from helpers.frameworks import FakeFramework

# --- a framework


@dataclass
class Wrapped:
    """The array of a framework; a dataclass, to see that arrays come before containers."""

    values: np.ndarray

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def shape(self):
        return self.values.shape


class WrappedFramework(arrayferry.Framework):
    """As the documentation shows it."""

    name, modules, arrays = "wrapped", ("wrapped_module",), (f"{__name__}:Wrapped",)

    def source(self, cls):
        return Source(read=lambda array: array.values)

    def target(self, device):
        return Target(
            take=Wrapped,
            dtypes=lambda: frozenset({"float32", "int32"}),
            defaults=lambda: {int: "int32", float: "float32", complex: "complex64"},
        )


WRAPPED = WrappedFramework()


@pytest.fixture
def module(monkeypatch):
    module = types.ModuleType("wrapped_module")
    monkeypatch.setitem(__import__("sys").modules, "wrapped_module", module)
    return module


def test_framework_by_name_by_module_and_as_itself(module):
    assert register_framework(WRAPPED) is WRAPPED
    for to in "wrapped", "wrapped_module", module, WRAPPED:
        result = convert({"x": np.arange(3.0)}, to)["x"]
        assert type(result) is Wrapped
        assert result.dtype == np.float32
    assert Converter("wrapped").framework is WRAPPED


def test_framework_is_a_source_for_all_others(module, name):
    register_framework(WRAPPED)
    source = Wrapped(np.arange(3, dtype="float32"))
    result = convert([source], name)[0]
    source.values[:] = -1
    assert bits(result) == np.arange(3, dtype="float32").tobytes()
    assert type(convert(convert(np.ones(2, "f4"), name), "wrapped")) is Wrapped


def test_framework_is_checked_by_the_narrowing_rules(module):
    register_framework(WRAPPED)
    with pytest.raises(OverflowError, match=r"int64\[1\] numpy -> int32 wrapped"):
        convert(np.array([2**40]), "wrapped")
    complex_array = np.array([1j])
    assert convert([complex_array], "wrapped")[0] is complex_array
    assert convert(0.1, "wrapped").dtype == np.float32


class Shifted(WrappedFramework):
    def target(self, device):
        return super().target(device)._replace(take=lambda array: Wrapped(array + 1))


def test_a_name_that_is_taken_is_replaced_only_if_asked_for(module):
    register_framework(WRAPPED)
    to_wrapped = Converter("wrapped")
    with pytest.raises(OptionError, match="'wrapped' is registered already\nHint: pass replace=True"):
        register_framework(Shifted())
    with pytest.raises(OptionError, match="'torch' is registered already"):
        register_framework(FakeFramework("torch"))
    register_framework(Shifted(), replace=True)
    assert convert(np.zeros(1, "f4"), "wrapped").values.tolist() == [1]
    assert to_wrapped(np.zeros(1, "f4")).values.tolist() == [0]
    assert list(registered()).count("wrapped") == 1


WRONG = {
    "no framework": (3, "3 is not a framework"),
    "a class": (WrappedFramework, "is not a framework"),
    "no name": (FakeFramework(None), "FakeFramework has name=None"),
    "an empty name": (FakeFramework(""), "FakeFramework has name=''"),
    "a text for modules": (FakeFramework(modules="ring"), "modules='ring', not a tuple of names"),
    "no modules": (FakeFramework(modules=()), r"modules=\(\), not a tuple of names"),
    "modules that are not names": (FakeFramework(modules=(np,)), "not a tuple of names"),
    "a text for arrays": (FakeFramework(arrays="ring:Ring"), "arrays='ring:Ring', not a tuple of names"),
    "an array without a module": (FakeFramework(arrays=("Ring",)), r"arrays=\['Ring'\]"),
    "a text for distributions": (
        FakeFramework(distributions="ring"),
        "distributions='ring', not a tuple of names",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_framework_is_checked_where_it_is_registered(case):
    framework, what = WRONG[case]
    before = registered()
    with pytest.raises(OptionError, match=what) as caught:
        register_framework(framework)
    assert caught.value.hint
    assert registered() == before


def test_a_framework_needs_a_source_and_a_target():
    class Half(arrayferry.Framework):
        name, modules, arrays = "half", ("numpy",), ()

    with pytest.raises(TypeError, match=r"source.*target"):
        Half()


def test_converter_that_was_there_before_learns_of_it(module):
    to_numpy = Converter("numpy")
    wrapped = Wrapped(np.ones(2, "f4"))
    assert type(to_numpy(wrapped)) is Wrapped
    register_framework(WRAPPED)
    assert type(to_numpy(wrapped)) is np.ndarray


def test_array_api_compat_namespaces_mean_what_they_wrap():
    compat = pytest.importorskip("array_api_compat.numpy")
    assert Converter(compat).framework.name == "numpy"
    if "torch" in arrayferry.frameworks():
        assert Converter(pytest.importorskip("array_api_compat.torch")).framework.name == "torch"
    if "dask" in arrayferry.frameworks():
        assert Converter(pytest.importorskip("array_api_compat.dask.array")).framework.name == "dask"


def test_every_framework_by_each_of_its_modules(name):
    for module in registered()[name].modules:
        imported = __import__(module, fromlist=["x"])
        assert Converter(module).framework is Converter(imported).framework is registered()[name]


ENTRY_POINT = """
import arrayferry, numpy as np
assert arrayferry.frameworks()["mylib"].version == "1.0"
print(type(arrayferry.convert(np.zeros(2), "mylib")).__name__)
assert arrayferry.convert(arrayferry.convert(np.ones(2), "mylib"), "numpy").tolist() == [1, 1]
"""
MYLIB = """
import arrayferry
class Mine:
    def __init__(self, values):
        self.values = values
class Mylib(arrayferry.Framework):
    name, modules, arrays = "mylib", ("mylib",), ("mylib:Mine",)
    def source(self, cls):
        return arrayferry.Source(read=lambda array: array.values)
    def target(self, device):
        return arrayferry.Target(take=Mine, dtypes=lambda: frozenset({"float64"}))
FRAMEWORK = Mylib()
"""


def test_framework_of_an_installed_package(run_python, tmp_path):
    (tmp_path / "mylib.py").write_text(MYLIB)
    info = tmp_path / "mylib-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[arrayferry.frameworks]\nmylib = mylib:FRAMEWORK\n")
    assert run_python(f"import sys; sys.path.append({str(tmp_path)!r})\n{ENTRY_POINT}") == "Mine\n"


@pytest.mark.parametrize(
    ("registers_itself", "printed"),
    [
        ("", "the entry point 'tiny' (mylib:FRAMEWORK): 'torch' is registered already\n"),
        ("arrayferry.register_framework(FRAMEWORK, replace=True)\n", "mylib\n"),
    ],
)
def test_framework_of_an_installed_package_whose_name_is_taken(
    run_python, tmp_path, registers_itself, printed
):
    """It is refused, and says so, unless the package itself has registered it on purpose."""
    (tmp_path / "mylib.py").write_text(MYLIB.replace('= "mylib"', '= "torch"') + registers_itself)
    info = tmp_path / "mylib-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[arrayferry.frameworks]\ntiny = mylib:FRAMEWORK\n")
    code = """
try:
    print(arrayferry.Converter("tiny").framework.modules[0])
except arrayferry.errors.OptionError as error:
    print(error.what)
"""
    start = f"import sys; sys.path.append({str(tmp_path)!r})\nimport arrayferry"
    assert run_python(start + code) == printed


# --- a container


class Pair:
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


def test_container(name):
    pair = Pair(np.ones(2, "f4"), "text")
    assert convert(pair, name) is pair
    register_container(Pair, values=lambda p: (p.left, p.right), build=lambda _, new: type(_)(*new))
    result = convert([pair], name)[0]
    assert type(result) is Pair
    assert type(result.left) is type(convert(pair.left, name))
    assert result.right == "text"
    assert type(pair.left) is np.ndarray


def test_container_of_a_base_class():
    register_container(Pair, values=lambda p: (p.left, p.right), build=lambda old, new: type(old)(*new))
    Special = type("Special", (Pair,), {})
    assert type(convert(Special(1, 2), "numpy")) is Special


def test_container_names_its_keys():
    register_container(Pair, lambda p: (p.left, p.right), lambda _, new: Pair(*new))
    with pytest.raises(OverflowError, match=r"^value\[1\]: "):
        convert(Pair(0, 2**70), "numpy")
    register_container(
        Pair,
        lambda p: (p.left, p.right),
        lambda _, new: Pair(*new),
        lambda p: ("left", "right"),
        replace=True,
    )
    with pytest.raises(OverflowError, match=r'^value\["right"\]: '):
        convert(Pair(0, 2**70), "numpy")


def test_container_comes_before_the_built_in_ones():
    class Config(dict):
        def __setitem__(self, key, value):
            raise TypeError("it is frozen")

    assert type(convert(Config(x=1), "numpy")) is Config  # built without its own methods
    register_container(Config, lambda c: [*c.values()][1:], lambda c, new: Config(x=c["x"], y=new[0]))
    assert type(convert(Config(x=1, y=2), "numpy")["x"]) is int
    assert type(convert(Config(x=1, y=2), "numpy")["y"]) is np.ndarray


def test_container_is_not_taken_over():
    # Whoever holds a Pair may look into it, and is not counted.
    register_container(Pair, lambda p: (p.left, p.right), lambda _, new: Pair(*new))
    array = np.arange(3.0)
    address = array.ctypes.data
    box = [Pair(array, None)]
    del array
    result = Converter("numpy")._convert_box(box)
    assert result.left.ctypes.data != address


WRONG_BUILDS = {
    "list": ("build returned a list", lambda old, new: list(new)),
    "None": ("build returned None", lambda old, new: None),
    "original": ("build returned the original", lambda old, new: setattr(old, "left", new[0]) or old),
    "base class": ("build returned a Pair", lambda old, new: Pair(*new)),
    "original value": ("its values are not those", lambda old, new: type(old)(new[0], old.right)),
    "swapped": ("its values are not those", lambda old, new: type(old)(new[1], new[0])),
    "too few": ("its values are not those", lambda old, new: type(old)(new[0], None)),
}


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("case", WRONG_BUILDS)
def test_what_build_returns_is_checked(case, target):
    class Special(Pair):
        pass

    if target not in arrayferry.frameworks():
        pytest.skip("not installed")
    values = lambda pair: [part for part in (pair.left, pair.right) if part is not None]  # noqa: E731
    what, build = WRONG_BUILDS[case]
    register_container(Special, values, build)
    with pytest.raises(UnsupportedError, match=r"register_container\(.*Special") as caught:
        convert({"a": [Special(np.zeros(2), np.ones(2))]}, target)
    assert caught.value.where == 'value["a"][0]'
    assert what in caught.value.what


def test_build_may_change_what_it_is_given():
    """As it may hold numbers, or arrays of its own."""
    register_container(
        Pair, lambda p: (p.left, p.right), lambda old, new: Pair(int(new[0]), np.stack([new[1], new[1]]))
    )
    result = convert(Pair(3, np.zeros(2)), "numpy")
    assert result.left == 3
    assert result.right.shape == (2, 2)


def test_containers_and_leaves_are_checked_where_they_are_registered():
    values, build = lambda pair: (), lambda old, new: Pair(1, 2)
    for cls, functions in [
        ("Pair", {"values": values, "build": build}),
        (Pair(1, 2), {"values": values, "build": build}),
        (Pair, {"values": [1], "build": build}),
        (Pair, {"values": values, "build": None}),
        (Pair, {"values": values, "build": build, "keys": ["left"]}),
    ]:
        with pytest.raises(TypeError, match=r"is not a class|is not callable") as caught:
            register_container(cls, **functions)
        assert isinstance(caught.value, UnsupportedError)
    for cls, become in [("Q", values), (None, values), (Pair, "text")]:
        with pytest.raises(TypeError, match=r"is not a class|is not callable"):
            register_leaf(cls, become)
    pair = Pair(1, 2)
    assert convert(pair, "numpy") is pair  # nothing was registered


def test_what_is_taken_is_replaced_only_if_asked_for():
    def become(value, converter):
        return "leaf"

    arguments = Pair, lambda p: (p.left, p.right), lambda _, new: Pair(*new)
    register_container(*arguments)
    for again in lambda: register_container(*arguments), lambda: register_leaf(Pair, become):
        with pytest.raises(ValueError, match="Pair is registered already\nHint: pass replace=True"):
            again()
    assert type(convert(Pair(1, 2), "numpy").left) is np.ndarray
    register_leaf(Pair, become, replace=True)
    assert convert(Pair(1, 2), "numpy") == "leaf"
    with pytest.raises(ValueError, match="registered already"):
        register_container(*arguments)
    register_container(*arguments, replace=True)
    assert type(convert(Pair(1, 2), "numpy").left) is np.ndarray
    Special = type("Special", (Pair,), {})
    register_leaf(Special, become)  # which is another class
    assert convert([Special(1, 2)], "numpy") == ["leaf"]


# --- a leaf


def test_leaf(name):
    half = fractions.Fraction(1, 2)
    assert convert([half], name)[0] is half
    register_leaf(fractions.Fraction, lambda value, converter: converter(float(value)))
    result = convert({"odds": half}, name)["odds"]
    assert type(result) is type(convert(0.5, name))
    assert float(result) == 0.5


def test_leaf_of_a_base_class_and_what_was_there_before():
    to_numpy = Converter("numpy")
    price = type("Price", (decimal.Decimal,), {})("1.5")
    assert to_numpy(price) is price
    register_leaf(decimal.Decimal, lambda value, converter: str(value))
    assert to_numpy(price) == "1.5"


def test_leaf_comes_before_everything():
    register_leaf(bool, lambda value, converter: converter(np.bool_(value)))
    register_leaf(np.ndarray, lambda value, converter: "an array")
    assert convert(True, "numpy").dtype == bool
    assert convert([np.zeros(3)], "numpy") == ["an array"]


def test_leaf_may_refuse_and_is_named():
    def refuse(value, converter):
        raise UnsupportedError("no sets", "make it a list")

    register_leaf(set, refuse)
    with pytest.raises(TypeError, match=r'^value\["x"\]\[1\]: no sets\nHint: make it a list$'):
        convert({"x": [1, {1}]}, "numpy")


def test_a_leaf_that_asks_the_converter_is_not_asked_over_and_over():
    class Node:
        def __init__(self, inner):
            self.inner = inner

    asked = []

    def become(node, converter):
        asked.append(1)
        return Node(converter(node.inner))

    register_leaf(Node, become)
    for bottom in (1.5, 2**70):
        value = bottom
        for _ in range(30):
            value = Node([value])
        asked.clear()
        if bottom == 1.5:
            assert isinstance(convert(value, "numpy"), Node)
            assert len(asked) == 30
        else:
            with pytest.raises(arrayferry.errors.NarrowingError, match="does not fit"):
                convert(value, "numpy")
            assert len(asked) <= 30 * 31


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("cls", [np.ndarray, dict])
def test_what_is_registered_before_a_converter_is_made(cls, copy):
    register_leaf(cls, lambda value, converter: converter(len(value)))
    try:
        assert Converter("numpy", copy=copy)([cls((2,)) if cls is np.ndarray else {"a": 1, "b": 2}]) == [2]
    finally:
        registrations.pop(cls)
        clear_type_caches()


def test_path_goes_through_registered_leaves():
    class Boxed:
        def __init__(self, inside):
            self.inside = inside

    register_leaf(Boxed, lambda value, converter: converter(value.inside))
    with pytest.raises(OverflowError) as caught:
        convert({"obs": [Boxed({"k": 2**70})]}, "numpy")
    assert caught.value.where == 'value["obs"][0]["k"]'


OTHER_NAME = """
import arrayferry, numpy as np, mylib
assert arrayferry.convert(mylib.Mine(np.ones(2)), "numpy").tolist() == [1, 1]
class Unknown: pass
Unknown.__module__ = "mylib"
unknown = Unknown()
assert arrayferry.convert(unknown, "numpy") is unknown
for name in "tiny", "mylib", "tiny":
    assert type(arrayferry.convert(np.zeros(2), name)) is mylib.Mine
assert mylib.loaded == 1, mylib.loaded
assert "mylib" in arrayferry.frameworks() and "tiny" not in arrayferry.frameworks()
print("once")
"""


def test_framework_whose_entry_point_has_another_name(run_python, tmp_path):
    """It is loaded and registered once, whatever is looked up."""
    loads = (
        "loaded = 0\n"
        + MYLIB.replace("FRAMEWORK =", "MYLIB =")
        + (
            "def __getattr__(name):\n"
            "    global loaded\n"
            "    if name != 'FRAMEWORK':\n"
            "        raise AttributeError(name)\n"
            "    loaded += 1\n"
            "    return MYLIB\n"
        )
    )
    (tmp_path / "mylib.py").write_text(loads)
    info = tmp_path / "mylib-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[arrayferry.frameworks]\ntiny = mylib:FRAMEWORK\n")
    assert run_python(f"import sys; sys.path.append({str(tmp_path)!r})\n{OTHER_NAME}") == "once\n"


def test_converter_of_a_framework_that_is_not_registered_can_be_copied(module):
    to_wrapped = Converter(WRAPPED, copy=True, dtypes={"float64": "float32"})
    for copied in copy.copy(to_wrapped), copy.deepcopy(to_wrapped), copy.deepcopy([to_wrapped])[0]:
        assert copied is to_wrapped  # which does not change
        assert repr(copied) == repr(to_wrapped)
        assert copied.framework is WRAPPED
        assert type(copied(np.zeros(2))) is Wrapped


def test_plugins_are_known_as_sources_before_they_are_named(run_python, tmp_path):
    (tmp_path / "shelf.py").write_text(
        "import numpy as np\n"
        "class Shelf:\n"
        "    dtype, shape = np.dtype('float64'), (2,)\n"
        "def framework():\n"
        "    from arrayferry import Framework, Source, Target\n"
        "    class ShelfFramework(Framework):\n"
        "        name, modules, arrays = 'shelf', ('shelf',), ('shelf:Shelf',)\n"
        "        def source(self, cls):\n"
        "            return Source(read=lambda shelf: np.ones(2))\n"
        "        def target(self, device):\n"
        "            return Target(take=lambda array: Shelf(), dtypes=lambda: frozenset({'float64'}))\n"
        "    return ShelfFramework()\n"
        "def __getattr__(name):\n"
        "    if name == 'FRAMEWORK':\n"
        "        return framework()\n"
        "    raise AttributeError(name)\n"
    )
    info = tmp_path / "shelf-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[arrayferry.frameworks]\nshelf = shelf:FRAMEWORK\n")
    printed = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import arrayferry, shelf\n"
        "print(arrayferry.convert([shelf.Shelf()], 'numpy'), arrayferry.frameworks()['shelf'].version)\n"
    )
    assert printed == "[array([1., 1.])] 1.2\n"
