"""Containers come back as themselves; the input is never written to; depth and cycles."""

from __future__ import annotations

import copy
import dataclasses
import enum
import os
import sys
import time
import typing
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrayferry import Converter, convert, frameworks
from arrayferry._core import convert as _convert
from arrayferry.errors import CircularError, UnsupportedError
from arrayferry.testing import SEPARATE, bits
from helpers.structures import CONTAINERS, MutableKey, zip_leaves

NAMES = [name for name, found in frameworks().items() if name not in SEPARATE and found.devices]

LEAF = np.arange(3, dtype="float32")


def snapshot(value: Any) -> list[int]:
    """The identities of all that is inside."""
    return [id(leaf) for leaf, _ in zip_leaves(value, value)]


@pytest.mark.parametrize("outer", CONTAINERS)
@pytest.mark.parametrize("inner", CONTAINERS)
def test_every_container_in_every_container(outer, inner):
    source = CONTAINERS[outer]([LEAF, CONTAINERS[inner](["text", LEAF])])
    before = snapshot(source)
    result = convert(source, "numpy")
    for old, new in zip_leaves(source, result):
        assert new is not LEAF
        assert np.array_equal(old, new)
    assert snapshot(source) == before
    assert result is not source


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_empty_container(make):
    source = make([])
    result = convert(source, "numpy")
    assert all(new is old is None for old, new in zip_leaves(source, result))
    assert result is not source or source == ()


class Settings(dict):
    def __init__(self, values, owner):
        super().__init__(values)
        self.owner = owner


class History(list):
    def __init__(self, values, owner):
        super().__init__(values)
        self.owner = owner


class Point(NamedTuple):
    x: Any
    y: Any = 0

    @property
    def length(self):
        return self.x + self.y


class Strict(namedtuple("Strict", "x y")):
    def __new__(cls, x, y):
        assert x is not None, "made by the constructor"
        return super().__new__(cls, x, y)


class Ring(deque):
    pass


class Ordered(OrderedDict):
    pass


class Defaulting(defaultdict):
    pass


@pytest.mark.parametrize(
    "source",
    [
        Settings({"x": LEAF}, "me"),
        History([LEAF], "me"),
        Point(LEAF, "y"),
        Strict(LEAF, 1),
        Ring([LEAF], maxlen=3),
        Ordered(x=LEAF),
        Defaulting(list, x=LEAF),
        Counter({"x": 2}),
        type("Triple", (tuple,), {})([LEAF, 1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_subclass_comes_back_with_all_it_has(source):
    result = convert(source, "numpy")
    for old, new in zip_leaves(source, result):
        assert np.array_equal(old, new)
    assert getattr(result, "__dict__", None) == getattr(source, "__dict__", None)
    assert result is not source


def test_struct_sequence_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(UnsupportedError, match=r"register_container\(max"):
        convert({"best": torch.max(torch.eye(2), 0)}, "numpy")


def test_defaultdict_keeps_its_factory():
    result = convert(defaultdict(list, x=LEAF), "numpy")
    assert result["missing"] == []


def test_deque_keeps_its_length():
    result = convert(deque([0, LEAF, LEAF], maxlen=2), "numpy")
    result.append("new")
    assert result.maxlen == len(result) == 2


def test_order_is_kept():
    names = [str(n) for n in (3, 1, 2)]
    for cls in dict, OrderedDict, UserDict:
        assert list(convert(cls((name, LEAF) for name in names), "numpy")) == names


def test_keys_of_any_type_are_the_same_objects():
    keys = [1, "1", 1.5, None, (1, "a"), frozenset({1}), object(), True + 1, b"x", np.int64(7), int]
    source = dict.fromkeys(keys, LEAF)
    for mapping in source, UserDict(source), OrderedDict(source):
        result = convert(mapping, "numpy")
        assert all(new is old for old, new in zip(mapping, result, strict=True))


# --- dataclasses


@dataclasses.dataclass
class Plain:
    x: Any
    name: str = "plain"
    hidden: Any = dataclasses.field(default=1.5, init=False, repr=False)
    shared: typing.ClassVar[Any] = LEAF


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    name: str = "frozen"


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    x: Any
    name: str = "slots"


def with_private_slots(base):
    class Private(base):
        __slots__ = ("__hidden", "shadowed", "unset")

        def parts(self):
            return self.__hidden, Private.shadowed.__get__(self)

        def hide(self, value):
            self.__hidden = value
            Private.shadowed.__set__(self, value)

    class Shadowing(Private):
        __slots__ = ("own",)
        shadowed = property(lambda self: 1 / 0)

        def __getattr__(self, name):
            return getattr(self, name + "_")

    class Again(Shadowing):
        __slots__ = ("shadowed",)

    return dataclasses.dataclass(init=False)(Again) if base is object else Again


@pytest.mark.parametrize("base", [dict, list, deque, UserDict, object])
def test_slots_of_bases_with_private_and_shadowed_names(base, name):
    source = with_private_slots(base)()
    source.hide(LEAF)
    source.own, source.shadowed = LEAF, "again"
    result = convert(source, name)
    for part in *result.parts(), result.own:
        assert type(part) is type(convert(LEAF, name))
    assert source.parts() == (LEAF, LEAF)
    assert result.shadowed == "again"
    with pytest.raises(RecursionError):  # it is still not set
        _ = result.unset


@dataclasses.dataclass(kw_only=True)
class Checked(Plain):
    extra: dataclasses.InitVar[int] = 0

    def __post_init__(self, extra):
        assert isinstance(self.x, np.ndarray), "built by the constructor, with a tensor in x"


Weak = dataclasses.make_dataclass(
    "Weak",
    ["x", ("name", str, "weak")],
    slots=True,
    **({"weakref_slot": True} if sys.version_info >= (3, 11) else {}),
)


@pytest.mark.parametrize("cls", [Plain, Frozen, Slots, Checked, Weak])
def test_dataclass(cls, name):
    source = cls(x=LEAF)
    result = convert(source, name)
    assert type(result) is cls
    assert result is not source
    assert type(result.x) is type(convert(LEAF, name))
    assert result.name is source.name
    assert source.x is LEAF


def test_dataclass_keeps_attributes_that_are_no_fields():
    source = Plain(LEAF)
    source.note = "kept"
    result = convert(source, "numpy")
    assert (result.note, result.hidden) == ("kept", np.array(1.5))
    assert source.hidden == 1.5


def test_dataclass_with_an_unset_field():
    source = Plain(LEAF)
    del source.x
    result = convert(source, "numpy")
    assert not hasattr(result, "x")
    assert result.name == "plain"


@dataclasses.dataclass
class Failure(ValueError):
    x: Any
    code: str = "E1"


def test_dataclass_with_native_state_is_refused():
    @dataclasses.dataclass
    class Missing(OSError):
        x: Any

    @dataclasses.dataclass(eq=False)
    class Names(set):
        x: Any

    for source in Missing(LEAF), Names(LEAF), Failure(LEAF):
        with pytest.raises(UnsupportedError, match="register_container"):
            convert([source], "numpy")


@dataclasses.dataclass(init=False)
class Output(OrderedDict):
    """A dataclass that is a dict, as models return them."""

    loss: Any = None
    logits: Any = None

    def __init__(self, **values):
        super().__init__(values)
        vars(self).update(values)


def test_dataclass_that_is_a_dict(name):
    result = convert(Output(loss=LEAF), name)
    assert type(result.loss) is type(result["loss"]) is type(convert(LEAF, name))
    assert result.logits is None


def test_dataclass_itself_is_a_leaf():
    assert convert([Plain], "numpy")[0] is Plain


def test_flax_dataclass():
    struct = pytest.importorskip("flax.struct")

    @struct.dataclass
    class State:
        position: Any
        label: str = struct.field(pytree_node=False, default="run")

    source = State(LEAF)
    result = convert(source, "jax")
    assert type(result) is State
    assert type(result.position) is type(convert(LEAF, "jax"))
    assert result.replace(label="x").label == "x"
    assert source.position is LEAF


# --- other mappings


class Squares(Mapping):
    """A Mapping that computes: nobody can put values into it."""

    def __getitem__(self, key):
        return key**2

    def __iter__(self):
        return iter(range(3))

    def __len__(self):
        return 3


class Pairs(Mapping):
    """Its items are in no dict, and keys that are numbers would become arrays."""

    def __init__(self, values):
        self.pairs, self.note = [*values.items()], ""

    def __getitem__(self, key):
        return dict(self.pairs)[key]

    def __iter__(self):
        return iter([key for key, _ in self.pairs])

    def __len__(self):
        return len(self.pairs)


def with_note(mapping, note="lost"):
    mapping.note = note
    return mapping


class Other:
    """An object that can be held weakly."""


KEPT_ALIVE = Other()


class Tied(dict):
    """Holds something that would go on with the original."""

    def __init__(self, tie):
        super().__init__(x=LEAF)
        self.tie = tie(self)


@pytest.mark.parametrize(
    "source",
    [
        UserDict({"x": LEAF, 1: "one"}),
        ChainMap({"x": LEAF}, {1: "one", "x": "hidden"}),
        with_note(UserDict({"x": LEAF, 1: "one"})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_mapping_comes_back_as_itself(source):
    result = convert(source, "numpy")
    assert type(result) is type(source)
    assert dict(result).keys() == dict(source).keys()
    assert result[1] == "one"
    assert np.array_equal(result["x"], LEAF)
    assert result["x"] is not LEAF
    assert source["x"] is LEAF
    assert getattr(result, "note", None) == getattr(source, "note", None)


def test_chain_has_as_many_maps():
    source = ChainMap({"x": LEAF}, UserDict(x="hidden"), ChainMap({}, OrderedDict(y=LEAF)))
    result = convert(source, "numpy")
    assert [type(one) for one in result.maps] == [dict, UserDict, ChainMap]
    assert result.maps[1]["x"] == "hidden"
    assert type(result.maps[2].maps[1]) is OrderedDict


class Lines(UserList):
    pass


def test_list_of_the_standard_library():
    source = with_note(Lines([LEAF, "text"]), LEAF)
    result = convert(source, "numpy")
    assert type(result) is Lines
    assert result[0] is not LEAF
    assert result.note is not LEAF
    assert result[1] == "text"


def test_flax_frozen_dict():
    FrozenDict = pytest.importorskip("flax.core").FrozenDict
    source = FrozenDict({"layer": {"kernel": LEAF}, "step": 1})
    result = convert(source, "jax")
    assert type(result) is FrozenDict
    assert type(result["layer"]["kernel"]) is type(convert(LEAF, "jax"))
    assert source["layer"]["kernel"] is LEAF


@pytest.mark.parametrize(
    "source",
    [
        Squares(),
        Pairs({1: LEAF}),
        MappingProxyType({"x": LEAF}),
        MappingProxyType({}),
        time.struct_time([*range(9), "UTC", 0]),
        os.stat_result(range(19)),
        WeakValueDictionary(a=KEPT_ALIVE),
        WeakKeyDictionary({KEPT_ALIVE: LEAF}),
        WeakKeyDictionary(),
        Tied(lambda tied: tied.update),
        Tied(lambda tied: lambda: tied),
        Tied(weakref.ref),
        Tied(lambda tied: partial(print, tied)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_lose_something_is_refused(source):
    with pytest.raises(UnsupportedError) as caught:
        convert({"a": [source]}, "numpy")
    assert caught.value.where == 'value["a"][0]'
    assert f"register_container({type(source).__name__}" in caught.value.hint
    assert caught.value.__cause__ is not None


def test_functions_among_attributes_stay():
    for function in print, dict.fromkeys, lambda x, n=3: x[n], partial(print, 1):
        source = Settings({"x": LEAF}, function)
        source.n = 3
        assert convert(source, "numpy").owner is function


def test_mapping_of_omegaconf_is_refused():
    OmegaConf = pytest.importorskip("omegaconf").OmegaConf
    for config in OmegaConf.create({"a": "x", "b": "${a}"}), OmegaConf.create({"a": 1}):
        with pytest.raises(UnsupportedError, match="register_container"):
            convert([config], "numpy")


@pytest.mark.parametrize("name", ["Dict", "Tuple", "Discrete"])
def test_space_is_no_container(name):
    spaces = pytest.importorskip("gymnasium").spaces
    part = spaces.Discrete(2)
    space = {"Dict": spaces.Dict({"b": part, "a": part}), "Tuple": spaces.Tuple([part]), "Discrete": part}[
        name
    ]
    assert convert({"space": space}, "numpy")["space"] is space


def test_shape_of_torch_is_no_container():
    shape = pytest.importorskip("torch").Size([2, 3])
    for target in "torch", "numpy":
        assert convert([shape], target)[0] is shape


def test_other_collections_are_leaves():
    for leaf in SimpleNamespace(x=LEAF), WeakSet([KEPT_ALIVE]), {1, 2}, {"x": 1}.keys(), np.nditer(LEAF):
        assert convert([leaf], "numpy")[0] is leaf


# --- the input is never written to


class CopiesAreMe:
    """What an immutable class may do, since nobody should notice."""

    def __copy__(self):
        return self


class MyDict(CopiesAreMe, dict):
    pass


class MyList(CopiesAreMe, list):
    pass


class MyDeque(CopiesAreMe, deque):
    pass


@dataclasses.dataclass(frozen=True)
class MyData(CopiesAreMe):
    x: Any


@pytest.mark.parametrize(
    "source",
    [MyDict(x=LEAF), MyList([LEAF]), MyDeque([LEAF]), MyData(LEAF)],
    ids=lambda value: type(value).__name__,
)
def test_input_is_not_written_to_even_if_it_copies_as_itself(source):
    assert copy.copy(source) is source
    try:
        result = convert(source, "numpy")
    except UnsupportedError:
        result = None
    assert snapshot(source) == [id(LEAF)]
    assert result is not source


# --- depth, cycles, sharing


@pytest.mark.parametrize("depth", [1_000, 5_000])
@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_depth(make, depth):
    source = LEAF
    for _ in range(depth):
        source = make([source])
    result = convert(source, "numpy")
    for _ in range(depth):
        assert type(result) is type(source)
        result, source = (first(result), first(source))
    assert np.array_equal(result, LEAF)


def first(container):
    if isinstance(container, Mapping):
        return container["a"]
    return container.left if dataclasses.is_dataclass(container) else container[0]


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_cycle_is_an_error(make):
    loop: list[Any] = []
    loop.append(make([loop, 1]))
    with pytest.raises(CircularError, match=r"^value\[.*contains itself") as caught:
        convert({"ok": 1, "bad": [1, loop]}["bad"], "numpy")
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 1_000


def test_cycle_is_named_where_it_closes():
    loop: dict[str, Any] = {}
    loop["me"] = [loop]
    with pytest.raises(CircularError) as caught:
        convert({"x": loop}, "numpy")
    assert str(caught.value).startswith('value["x"]["me"][0]: this dict contains itself')


def test_the_same_object_twice_is_no_cycle():
    shared = {"x": LEAF}
    result = convert([shared, [shared, (shared,)]], "numpy")
    assert np.array_equal(result[1][1][0]["x"], LEAF)


def test_path_of_every_kind_of_step():
    bad = np.full((2, 2), None, object)
    bad[1, 0] = OrderedDict({("k", 1): deque([0, {"it's": {3: 2**70}}])})
    source = {"camera": [0, Point(0, Plain(bad))]}
    path = 'value["camera"][1].y.x[1, 0][(\'k\', 1)][1]["it\'s"][3]'
    with pytest.raises(OverflowError) as caught:
        convert(source, "numpy")
    assert caught.value.where == path
    assert str(caught.value).startswith(path + ": ")


# --- what a container's own code raises


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("it cannot even be shown")


class Failing(Mapping):
    def __init__(self, method):
        self.method = method

    def _maybe_fail(self, method):
        if self.method == method:
            raise Unspeakable

    def __iter__(self):
        self._maybe_fail("iter")
        return iter("ab")

    def __len__(self):
        self._maybe_fail("len")
        return 2

    def __getitem__(self, key):
        self._maybe_fail("getitem")
        return LEAF


@pytest.fixture(params=["C", "Python"])
def converter(request):
    """A converter to NumPy; its walk, and that of others that the test makes, is in C or in Python."""
    with patch.object(_convert, "speedups", _convert.speedups if request.param == "C" else None):
        yield Converter("numpy")


@pytest.mark.parametrize("method", ["iter", "len", "getitem"])
def test_what_a_mapping_raises_is_told_with_its_path(converter, method):
    with pytest.raises(UnsupportedError, match="register_container") as caught:
        converter({"a": [Failing(method)]})
    assert caught.value.where == 'value["a"][0]'
    assert type(caught.value.__cause__) is Unspeakable


class Key:
    """Fails to be hashed after some times, and to be shown."""

    def __init__(self, times=1):
        self.times = times

    def __hash__(self):
        self.times -= 1
        if self.times < 0:
            raise Unspeakable
        return 1

    def __repr__(self):
        raise RuntimeError("it cannot be shown")


@pytest.mark.parametrize("cls", [dict, OrderedDict, MyDict])
def test_what_a_key_raises_is_told_with_its_path(converter, cls):
    source = cls()
    source[Key(2 if cls is OrderedDict else 1)] = LEAF
    with pytest.raises(UnsupportedError) as caught:
        converter({"a": [source]})
    assert caught.value.where.startswith('value["a"][0]')
    assert type(caught.value.__cause__) is Unspeakable


@pytest.mark.parametrize("cls", [dict, OrderedDict, MyDict, UserDict, partial(defaultdict, None)])
def test_keys_that_became_equal_are_an_error(converter, cls):
    keys = [MutableKey(number) for number in range(3)]
    source = cls(dict.fromkeys(keys, LEAF))
    keys[1].number = 2
    with pytest.raises(UnsupportedError, match=r"two of its keys are equal|KeyError") as caught:
        converter({"a": [source]})
    assert caught.value.where.startswith('value["a"][0]')


def test_key_that_cannot_be_shown_does_not_hide_the_error(converter):
    with pytest.raises(OverflowError) as caught:
        converter({"a": {Key(9): 2**70}})
    assert caught.value.where == 'value["a"][<Key>]'


class Broken(dict):
    """None of its own methods is needed."""

    def _fail(self, *args):
        raise Unspeakable

    __iter__ = __len__ = __getitem__ = __setitem__ = __contains__ = __eq__ = keys = values = items = get = (
        _fail
    )
    __hash__ = object.__hash__


def test_methods_of_a_subclass_are_not_called(converter):
    result = converter([Broken(x=LEAF)])[0]
    assert dict.__len__(result) == 1
    assert dict.__getitem__(result, "x") is not LEAF


# --- properties


def noted(make):
    def build(values):
        container = make(values)
        if hasattr(container, "__dict__"):
            vars(container)["note"] = [LEAF, "text"]
        return container

    return build


NOTED = {
    **{name: noted(make) for name, make in CONTAINERS.items()},
    "ChainMap": noted(lambda values: ChainMap(*[{"a": value} for value in values])),
    "UserList": noted(Lines),
    "private slots": lambda values: with_note(Settings({"a": values}, LEAF)),
}


@st.composite
def graphs(draw):
    """A structure whose containers are reached by many paths: each takes from those before it."""
    made = [LEAF, "text", None, 7]
    for _ in range(draw(st.integers(1, 12))):
        make = draw(st.sampled_from(list(NOTED.values())))
        made.append(make(draw(st.lists(st.sampled_from(made), max_size=3))))
    return made[-1]


def check(old, new, array, pairs, arrays):
    """Compare two structures: types, keys, order, attributes, leaves; and what is shared in them."""
    if isinstance(old, np.ndarray) and old.dtype != object:
        assert type(new) is array
        assert id(new) not in arrays, "an array that is reached twice has to become two"
        arrays[id(new)] = new
        assert bits(new) == bits(old)
        return
    if type(old) is int:
        assert type(new) is array
        assert int(new) == old
        return
    if id(old) in pairs:
        assert new is pairs[id(old)] or new == () == old, "a container that is reached twice has to stay one"
        return
    pairs[id(old)] = new
    assert type(new) is type(old)
    if old is None or isinstance(old, str):
        assert new is old
        return
    for before, after in zip(parts_of(old), parts_of(new), strict=True):
        assert before[0] == after[0]
        check(before[1], after[1], array, pairs, arrays)


def parts_of(container):
    """The keys and values of a container, and of its attributes."""
    own = getattr(container, "__dict__", {})
    if isinstance(container, np.ndarray):
        return [(container.shape, None), *enumerate(container.flat)]
    if isinstance(container, Mapping) and not isinstance(container, UserDict | ChainMap):
        items = [*container.items()]
        return [*items, (getattr(container, "default_factory", None), None), *own.items()]
    if isinstance(container, list | tuple | deque):
        return [*enumerate(container), (getattr(container, "maxlen", None), None), *own.items()]
    fields = dataclasses.fields(container) if dataclasses.is_dataclass(container) else ()
    shown = {field.name: getattr(container, field.name) for field in fields}
    return [*{**shown, **own}.items()]


@pytest.mark.parametrize("name", NAMES)
@given(source=graphs())
@settings(max_examples=150)
def test_graph_comes_back_with_all_it_has_and_shared_as_it_was(name, source):
    with patch.object(_convert, "speedups", None):
        in_python = Converter(name)
    for to in Converter(name), in_python:
        before = copy_of_ids(source)
        array = type(to(LEAF))
        check([source], to([source]), array, {}, {})
        assert copy_of_ids(source) == before, "the input was written to"


def copy_of_ids(value, seen=None):
    """The identities of all parts, in order."""
    seen = {} if seen is None else seen
    if id(value) in seen or value is None or isinstance(value, str | int | np.number):
        return id(value)
    seen[id(value)] = value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return id(value), value.tobytes()
    return id(value), [(key, copy_of_ids(part, seen)) for key, part in parts_of(value)]


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_sixty_levels_that_share_their_parts(converter, make):
    source = LEAF
    for _ in range(60):
        source = make([source, source])
    result = converter(source)
    if isinstance(source, Mapping):
        assert result["a"] is result[1]
    elif dataclasses.is_dataclass(source):
        assert result.left is result.right
    else:
        assert result[0] is result[1]


@pytest.mark.parametrize(
    "hold", [lambda x: x, lambda x: [x], lambda x: Settings({}, x)], ids=["self", "list", "other"]
)
@pytest.mark.parametrize(
    "make", [lambda: Settings({"x": LEAF}, 0), lambda: with_note(Plain(LEAF)), lambda: Lines([LEAF])]
)
def test_cycle_through_an_attribute_is_an_error(converter, make, hold):
    source = make()
    source.owner = hold(source)
    with pytest.raises(CircularError) as caught:
        converter({"a": [source]})
    assert caught.value.where.startswith('value["a"][0].owner')  # which is what closes it


# --- TensorDict


@pytest.fixture
def tensordict():
    return pytest.importorskip("tensordict")


def a_tensordict(tensordict, batch=(2,), **options):
    torch = pytest.importorskip("torch")
    inner = tensordict.TensorDict({"b": torch.zeros(*batch, 3)}, batch)
    td = tensordict.TensorDict({"a": torch.ones(batch), "inner": inner}, batch, **options)
    td.set_non_tensor("mission", "go left")
    return td


@pytest.mark.parametrize("batch", [(2,), (0,), (), (2, 1)])
@pytest.mark.parametrize("lock", [False, True])
def test_tensordict_stays_one(tensordict, converter, batch, lock):
    source = a_tensordict(tensordict, batch, names=[f"d{i}" for i in range(len(batch))], device="cpu")
    source = source.lock_() if lock else source
    result, again = Converter("torch")({"x": [source, source]})["x"]
    assert result is again
    assert type(result) is tensordict.TensorDict
    assert [*result.keys(True)] == [*source.keys(True)]
    assert (result.batch_size, result.names, result.device) == (
        source.batch_size,
        source.names,
        source.device,
    )
    assert result.is_locked == result["inner"].is_locked == lock
    assert result["mission"] == "go left"
    for key in "a", ("inner", "b"):
        assert result[key].equal(source[key])
        assert not source[key].numel() or result[key].data_ptr() != source[key].data_ptr()


def test_tensordict_goes_to_the_device(tensordict):
    for device, expected in ("cpu", "cpu"), (None, None):
        result = convert(a_tensordict(tensordict, device=device), "torch", "cpu")
        assert str(result.device) == str(expected)
        assert {tensor.device.type for tensor in (result["a"], result["inner", "b"])} == {"cpu"}


@pytest.mark.parametrize("target", ["numpy", "jax"])
def test_tensordict_holds_tensors_only(tensordict, target):
    with pytest.raises(UnsupportedError, match="holds tensors") as caught:
        convert({"x": a_tensordict(tensordict)}, target)
    assert caught.value.where == 'value["x"]["inner"]'
    assert "to_dict()" in caught.value.hint
    plain = convert({"x": a_tensordict(tensordict).to_dict()}, target)["x"]
    assert type(plain["inner"]["b"]) is type(convert(LEAF, target))


def test_tensordict_of_another_kind_is_refused(tensordict):
    td = a_tensordict(tensordict)
    lazy = tensordict.LazyStackedTensorDict(td, td.clone(), stack_dim=0)
    for target in "torch", "numpy":
        with pytest.raises(UnsupportedError, match=r"register_container\(LazyStackedTensorDict"):
            convert([lazy], target)


def test_tensorclass(tensordict):
    torch = pytest.importorskip("torch")

    class State(tensordict.TensorClass):
        position: torch.Tensor
        name: str

    source = State(position=torch.ones(2), name="cart", batch_size=[2])
    result = convert([source], "torch")[0]
    assert type(result) is State
    assert result.position.equal(source.position)
    assert result.position.data_ptr() != source.position.data_ptr()
    assert result.name == "cart"


# --- attributes that are items, and reading that changes a container


class AttrDict(dict):
    """Items are attributes, too."""

    def __init__(self, *args, **items):
        super().__init__(*args, **items)
        self.__dict__ = self


class Index(dict):
    """Writes to a log that a copy would share."""

    def __init__(self, *args):
        super().__init__(*args)
        self.log = {}

    def __setitem__(self, key, value):
        self.log[key] = value
        super().__setitem__(key, value)


class LeastRecent(OrderedDict):
    def __getitem__(self, key):
        self.move_to_end(key)
        return super().__getitem__(key)


class MostRecent(Mapping):
    """Reading changes the order."""

    def __init__(self, items):
        self.items_ = dict(items)

    def __getitem__(self, key):
        self.items_[key] = self.items_.pop(key)
        return self.items_[key]

    def __iter__(self):
        return iter(list(reversed(self.items_)))

    def __len__(self):
        return len(self.items_)


def test_items_that_are_attributes_are_converted_once():
    source = AttrDict(x=np.ones(3))
    result = convert(source, "numpy")
    assert result.x is result["x"]
    assert not np.shares_memory(result.x, source.x)


def test_a_log_that_a_copy_would_share_is_not_written_to():
    source = Index({"x": np.ones(2)})
    assert convert(source, "numpy")["x"].tolist() == [1, 1]
    assert source.log == {}


@pytest.mark.parametrize("kind", [LeastRecent, MostRecent])
def test_values_stay_with_their_keys_though_reading_moves_them(kind):
    result = convert(kind({"a": np.array(1), "b": np.array(2)}), "numpy")
    assert {key: int(result[key]) for key in ("a", "b")} == {"a": 1, "b": 2}


def test_attributes_that_a_dataclass_set_on_itself_are_converted():
    @dataclasses.dataclass
    class Cached:
        x: np.ndarray

        def __post_init__(self):
            self.view = self.x[:1]

    source = Cached(np.ones(3))
    result = convert(source, "numpy")
    assert not np.shares_memory(result.view, source.x)


def test_members_of_enums_stay_members():
    class Move(tuple, enum.Enum):
        UP = (0, 1)

    assert convert(Move.UP, "numpy") is Move.UP


def test_attributes_of_named_tuples_stay():
    class Point(namedtuple("Point", "x y")):
        pass

    point = Point(1, 2)
    point.name = "home"
    assert convert(point, "numpy").name == "home"
