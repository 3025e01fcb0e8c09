"""Decisions by type: made once, forgotten when something is registered, also while other threads convert."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest

from arrayferry import Converter, convert
from arrayferry._core import registry
from arrayferry._core.type_cache import clear_type_caches
from arrayferry.errors import FerryError, UnknownFrameworkError
from arrayferry.testing import bits
from helpers.frameworks import TARGET, FakeFramework


def test_caches_may_be_cleared_while_other_threads_build_converters():
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
            clear_type_caches()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not errors


def test_frameworks_may_be_registered_while_others_are_looked_for(monkeypatch):
    monkeypatch.setattr(registry, "_registry", registry.registered())

    class Meanwhile(tuple):
        """While it is looked at, another thread registers something."""

        __slots__ = ()

        def __iter__(self):
            self.register()
            return super().__iter__()

        def __contains__(self, name):
            self.register()
            return False

        def register(self):
            number = len(registry.registered())
            registry.register_framework(FakeFramework(f"numpy {number}"))

    registry.register_framework(FakeFramework("slow", modules=Meanwhile(["slow"]), arrays=Meanwhile()))
    before = len(registry.registered())
    assert registry.framework_of(type("New", (), {})) is None
    with pytest.raises(UnknownFrameworkError):
        registry.find_framework("none of them")
    assert len(registry.registered()) == before + 2


def test_a_converter_from_before_a_registration_is_not_found_after_it(monkeypatch, tmp_path):
    """While its framework is imported for a converter, somebody registers it again."""
    monkeypatch.setattr(registry, "_registry", registry.registered())
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_import.py").write_text("import sys; sys.modules['slow_import_hook'].call()")

    def make(answer):
        target = TARGET._replace(take=lambda array: array + answer)
        return FakeFramework("slow_import", modules=("slow_import",), target=target)

    hook = types.SimpleNamespace(call=lambda: registry.register_framework(make(2), replace=True))
    monkeypatch.setitem(sys.modules, "slow_import_hook", hook)
    registry.register_framework(make(1))
    convert(np.zeros(1), "slow_import")
    assert convert(np.zeros(1), "slow_import").tolist() == [2]


def test_decisions_are_not_made_from_other_decisions():
    """Another thread may have emptied one table, and not yet the other."""

    class Odd:
        pass

    registry._frameworks_by_type[Odd] = registry.find_framework("numpy")  # what was true before
    assert convert(odd := Odd(), "numpy") is odd


class Reading(Mapping):
    def __init__(self, items):
        self.items_ = [*dict(items).items()]

    def __getitem__(self, key):
        return dict(self.items_)[key]

    def __iter__(self):
        return iter(dict(self.items_))

    def __len__(self):
        return len(self.items_)


def new_types():
    """Objects of types that nobody else knows."""
    yield namedtuple("Point", "x y")(np.zeros(2), 1)
    yield dataclass(type("Record", (), {"__annotations__": {"x": Any, "y": int}, "y": 3}))(np.zeros(2))
    yield dataclass(slots=True)(type("Slots", (), {"__annotations__": {"x": Any}}))(np.zeros(2))
    yield dataclass(type("Failure", (ValueError,), {"__annotations__": {"x": Any}}))(np.zeros(2))
    for base in (dict, OrderedDict, UserDict, Reading):
        yield type("Own", (base,), {})({"x": np.zeros(2)})
    for base in (list, tuple):
        yield type("Own", (base,), {})([np.zeros(2)])
    yield np.zeros(2).view(type("Own", (np.ndarray,), {}))
    yield type("Leaf", (), {"x": np.zeros(2)})()
    yield Enum("Color", "red").red


def test_types_are_not_kept_alive(name):
    converter, types = Converter(name), []
    for _ in range(20):
        for value in new_types():
            types.append(weakref.ref(type(value)))
            for convert_it in converter, lambda value: convert({"a": [value]}, name):
                with suppress(FerryError):
                    convert_it(value)
    del value
    gc.collect()
    gc.collect()
    assert [reference().__name__ for reference in types if reference() is not None] == []


def test_a_type_at_the_address_of_another_is_decided_anew():
    converter = Converter("numpy")
    for step in range(300):
        base = (dict, list, object)[step % 3]
        value = type("Own", (base,), {})()
        assert (converter(value) is value) is (base is object)


def test_registering_near_the_recursion_limit_is_an_error_and_no_hang(run_python):
    code = """
import arrayferry

class Odd:
    pass

def deep(n):
    arrayferry.register_leaf(Odd, lambda value, converter: value, replace=True)
    return deep(n + 1)

try:
    deep(0)
except RecursionError:
    print("an error")
"""
    assert run_python(code, timeout=60) == "an error\n"


def test_threads_may_share_a_converter(name):
    converter, wrong = Converter(name), []
    interval = sys.getswitchinterval()

    def work(thread):
        for step in range(100):
            source = type("Info", (dict,), {})(
                x=np.full(8, thread, "int32"), step=[step]
            )  # a new type each time
            result = converter(source)
            if type(result) is not type(source) or bits(result["x"]) != bits(source["x"]):
                wrong.append((thread, step))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
