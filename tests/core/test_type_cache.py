"""Decisions by type: made once, forgotten when something is registered, also while other threads convert."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from arrayferry import Converter
from arrayferry._core import registry
from arrayferry._core.type_cache import TypeCache
from arrayferry.errors import UnknownFrameworkError
from arrayferry.testing import bits


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
            TypeCache.clear_all()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not errors


def test_frameworks_may_be_registered_while_others_are_looked_for(monkeypatch):
    monkeypatch.setattr(registry, "_registry", registry.registered())
    numpy = registry.find_framework("numpy")

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
            registry.register_framework(replace(numpy, name=f"numpy {number}", modules=(), arrays=()))

    registry.register_framework(replace(numpy, name="slow", modules=Meanwhile(), arrays=Meanwhile()))
    before = len(registry.registered())
    assert registry.framework_of(type("New", (), {})) is None
    with pytest.raises(UnknownFrameworkError):
        registry.find_framework("none of them")
    assert len(registry.registered()) == before + 2


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
