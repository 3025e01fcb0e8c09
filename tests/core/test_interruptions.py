"""What others raise in the middle of a conversion passes; what keys and hooks raise is told with its path."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import signal
import sys
import threading
import warnings
from collections import OrderedDict, UserDict
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry import Converter, Target, convert, register_container, register_leaf, wrap
from arrayferry.errors import UnsupportedError
from helpers.frameworks import FakeFramework
from helpers.structures import MutableKey


class Stopped(Exception):
    """Is raised by nobody else."""


@dataclass
class Record:
    x: Any
    y: Any


class Own:
    def __init__(self, values):
        self.values = values


def everything():
    """One of each kind of container and of leaf."""
    record = Record(np.arange(3), {MutableKey(1): 1.5, MutableKey(2): [1, (2, None)]})
    objects = np.array([np.arange(2), "text", None], object)
    named = UserDict(x=np.float32(1), y=True)
    return {"records": [record, record], "ordered": OrderedDict(a=objects), "named": named, "own": Own([1])}


@contextlib.contextmanager
def traced(hook):
    before = sys.gettrace()
    sys.settrace(hook)
    try:
        yield
    finally:
        sys.settrace(before)


def raises_at(number, error):
    """A trace function that raises at a line of arrayferry's, and how many it has seen."""
    lines = [0]

    def trace(frame, event, arg):
        if event == "line" and frame.f_globals.get("__name__", "").startswith("arrayferry"):
            lines[0] += 1
            if lines[0] == number:
                raise error("now")
        return trace

    return trace, lines


ERRORS = [Stopped, TimeoutError, ValueError, KeyError, RuntimeError]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "target", [name for name in ("numpy", "torch", "jax") if name in arrayferry.frameworks()]
)
def test_what_a_tracer_raises_at_any_line_passes(target, error):
    register_container(Own, lambda own: own.values, lambda own, new: Own(new))
    convert(everything(), target)  # a framework may catch what is raised while it starts
    number, lines = 0, [1]
    while number <= lines[0]:
        number += 1 + number // 40
        trace, lines = raises_at(number, error)
        converter = Converter(target)  # so that types are looked up
        passed = False
        try:
            with traced(trace):
                converter(everything())
        except error:
            passed = True
        assert passed == (lines[0] >= number), f"swallowed at line {number}"


class Handler:
    """Raises when a signal arrives during a conversion, and counts how often."""

    def __init__(self, error):
        self.error, self.times, self.is_on = error, 0, False

    def __call__(self, number, frame):
        if self.is_on:
            self.is_on = False
            self.times += 1
            raise self.error("late")

    def method(self, number, frame):
        self(number, frame)


HANDLERS = {
    "function": lambda handler: lambda number, frame: handler(number, None),
    "any arguments": lambda handler: lambda *_: handler(0, None),
    "object": lambda handler: handler,
    "method": lambda handler: handler.method,
    "partial": lambda handler: functools.partial(lambda own, number, frame: own(number, None), handler),
}


@contextlib.contextmanager
def signals(handler):
    """Send signals to this thread, again and again."""
    main, done = threading.get_ident(), threading.Event()

    def send():
        while not done.wait(1e-4):
            signal.pthread_kill(main, signal.SIGUSR2)

    before, interval = signal.signal(signal.SIGUSR2, handler), sys.getswitchinterval()
    sender = threading.Thread(target=send)
    sys.setswitchinterval(1e-5)
    sender.start()
    try:
        yield
    finally:
        done.set()
        sender.join()
        sys.setswitchinterval(interval)
        signal.signal(signal.SIGUSR2, before)


needs_signals = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads here")


@pytest.fixture
def lost(monkeypatch):
    """What was raised where Python cannot pass it on, as in the callback of a weak reference."""
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: lost.append(info.exc_type))
    return lost


@needs_signals
@pytest.mark.parametrize("kind", HANDLERS)
@pytest.mark.parametrize("error", [TimeoutError, ValueError])
def test_what_a_signal_handler_raises_passes(error, kind, lost):
    register_container(Own, lambda own: own.values, lambda own, new: Own(new))
    handler, value, passed = Handler(error), [everything() for _ in range(20)], 0
    target = next(name for name in ("torch", "jax", "numpy") if name in arrayferry.frameworks())
    with signals(HANDLERS[kind](handler)):
        for _ in range(40):
            try:
                handler.is_on = True
                convert(value, target)
                handler.is_on = False
            except error:
                passed += 1
    assert passed + len(lost) == handler.times


def test_what_a_handler_raises_within_the_code_of_others_passes():
    """In that of a key, a container, a registered function, a framework's, and an attempt to show a key."""

    class Alarm(MutableKey):
        def __hash__(self):
            if calls and calls.pop():
                signal.raise_signal(signal.SIGINT)
            return 1

        def __repr__(self):
            signal.raise_signal(signal.SIGINT)
            return "alarm"

    def alarm(*_):
        signal.raise_signal(signal.SIGINT)
        return []

    def handle(number, frame):
        raise Stopped

    register_container(Own, alarm, lambda own, new: Own(new))
    register_leaf(set, alarm)
    framework = FakeFramework("alarm", target=Target(take=alarm, dtypes=lambda: frozenset({"float64"})))
    calls = []
    keys = [{Alarm(1): 1.0}, OrderedDict({Alarm(1): 1.0})]
    cases = [*keys, {Alarm(1): 2**70}, [Own([])], [{1}], np.zeros(2)]
    before = signal.signal(signal.SIGINT, handle)
    try:
        for value in cases:
            calls[:] = [True] * (value in keys[:1] or value is keys[1] if isinstance(value, dict) else 0)
            with pytest.raises(Stopped):
                convert(value, framework if isinstance(value, np.ndarray) else "numpy")
    finally:
        signal.signal(signal.SIGINT, before)


class Number:
    """A number during whose conversion a signal arrives."""

    def __float__(self):
        signal.raise_signal(signal.SIGINT)
        return 1.0

    def __index__(self):
        signal.raise_signal(signal.SIGINT)
        return 1

    def __array__(self, dtype=None, copy=None):
        signal.raise_signal(signal.SIGINT)
        return np.ones(())


class Numbers(gym.Env):
    """Its rewards and flags are what it is made of."""

    observation_space = gym.spaces.Discrete(2)

    def __init__(self, reward=0.0, terminated=False, action_space=observation_space):
        self.result, self.action_space = (0, reward, terminated, False, {}), action_space

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return self.result


ONE_OF = gym.spaces.OneOf([gym.spaces.Discrete(2)] * 2)
BOX = gym.spaces.Box(0, 1, (1,))


@pytest.mark.parametrize("error", [TypeError, ValueError, RuntimeError])
@pytest.mark.parametrize(
    ("made_of", "action"),
    [
        ({"reward": Number()}, 0),
        ({"reward": {"a": Number()}}, 0),
        ({"terminated": Number()}, 0),
        ({"terminated": [Number()]}, 0),
        ({"action_space": ONE_OF}, (Number(), 0)),
        ({"action_space": BOX}, [Number()]),
    ],
    ids=["reward", "rewards", "flag", "flags", "action of a OneOf", "action as a list"],
)
def test_what_a_handler_raises_during_the_conversion_of_numbers_passes(made_of, action, error):
    def handle(number, frame):
        raise error("stopped")

    env = wrap(Numbers(**made_of), "numpy")
    env.reset()
    before = signal.signal(signal.SIGINT, handle)
    try:
        with pytest.raises(error, match=r"^stopped$") as caught:
            env.step(action)
        assert type(caught.value) is error
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_another_thread_raises_into_the_conversion_passes(lost):
    identifier, value = threading.get_ident(), everything()
    stop = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def after(number):
        lines = [0]

        def profile(frame, event, arg):
            lines[0] += 1
            if lines[0] == number:
                sys.setprofile(None)
                stop(ctypes.c_ulong(identifier), ctypes.py_object(Stopped))

        return profile

    for number in range(1, 200, 3):
        try:
            sys.setprofile(after(number))
            convert(value, "numpy")
        except Stopped:
            pass
        finally:
            sys.setprofile(None)


class Exhausted(Own):
    """Raises when its values are read."""

    def read(self):
        raise self.values


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("full"),
        RecursionError("deep"),
        KeyboardInterrupt(),
        DeprecationWarning("old"),
        SystemExit(1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_not_about_the_value_passes_from_hooks_too(error):
    register_container(Exhausted, Exhausted.read, lambda own, new: own)

    def become(value, converter):
        raise error

    register_leaf(frozenset, become)
    for value in {"a": [Exhausted(error)]}, {"a": [frozenset()]}:
        with pytest.raises(type(error)) as caught:
            convert(value, "numpy")
        assert caught.value is error


def test_warnings_that_are_errors_pass():
    class Old(Own):
        def read(self):
            warnings.warn("old", DeprecationWarning, stacklevel=2)
            return [1]

    register_container(Old, Old.read, lambda own, new: Old(new))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning, match="old"):
            convert([Old([])], "numpy")


@pytest.mark.parametrize("kind", [*ERRORS, OSError])
def test_what_a_hook_raises_has_a_path(kind):
    error = kind("broken")

    class Failing(MutableKey):
        def __hash__(self):
            if self.number < 0:
                raise error
            return 1

    register_container(Exhausted, Exhausted.read, lambda own, new: own)

    def become(value, converter):
        raise error

    register_leaf(frozenset, become)
    key = Failing(1)
    keyed = {key: 1.0}
    key.number = -1
    for value in Exhausted(error), frozenset(), keyed, OrderedDict(a=Exhausted(error)):
        with pytest.raises(UnsupportedError) as caught:
            convert({"a": [value]}, "numpy")
        assert caught.value.where.startswith('value["a"][0]')
        assert caught.value.__cause__ is error


class Slow(gym.Env[Any, Any]):
    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 1.0, False, False, {"log": [everything() for _ in range(20)]}


@needs_signals
def test_a_limit_on_the_time_of_a_step_is_told_as_it_is(lost):
    env = wrap(Slow(), next(name for name in ("torch", "jax", "numpy") if name in arrayferry.frameworks()))
    env.reset()
    handler, passed = Handler(TimeoutError), 0
    with signals(handler):
        for _ in range(40):
            try:
                handler.is_on = True
                env.step(0)
                handler.is_on = False
            except TimeoutError:
                passed += 1
    assert passed + len(lost) == handler.times
    assert env.step(0)[1] == 1.0
