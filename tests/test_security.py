"""Data stays data: pickles, specs and names cause imports of registered frameworks, and nothing else."""

from __future__ import annotations

import ast
import io
import json
import pickle
import sys
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry import Converter, convert
from arrayferry._core.registry import find_framework
from arrayferry.errors import UnknownFrameworkError

SOURCES = sorted((Path(__file__).parent.parent / "src").rglob("*.py"))

# A module that says so when it is imported. It has what array libraries have.
LOUD = "print('imported')\nimport numpy\nasarray = numpy.asarray\n"


@pytest.fixture
def loud(tmp_path):
    """The lines that make a module `loud` importable."""
    (tmp_path / "loud.py").write_text(LOUD)
    return f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"


# --- names


@pytest.mark.parametrize(
    "name", ["os", "subprocess", "antigravity", "loud", "array_api_compat.loud", "loud.x"]
)
def test_a_name_that_is_no_framework_is_refused_before_it_is_imported(run_python, loud, name):
    code = f"""{loud}
import arrayferry, gymnasium as gym
before = set(sys.modules)
env = gym.make("CartPole-v1")
for use in arrayferry.convert, arrayferry.Converter, lambda *args: arrayferry.wrap(env, args[-1]):
    try:
        use(1, {name!r}) if use is arrayferry.convert else use({name!r})
    except arrayferry.errors.UnknownFrameworkError as error:
        assert error.hint
    else:
        raise AssertionError("taken for a framework")
print([name for name in ("loud", "antigravity") if name in set(sys.modules) - before])
"""
    assert run_python(code) == "[]\n"


def test_modules_that_are_imported_already_are_no_frameworks_either():
    for module in gym, json, pickle, Path, "os", "sys", "json", "builtins":
        with pytest.raises(UnknownFrameworkError):
            Converter(module)


# --- pickles


class OnlyOurs(pickle.Unpickler):
    """As careful programs do it: nothing but this library and what its wrappers hold may be called."""

    def find_class(self, module, name):
        assert module.partition(".")[0] in {"arrayferry", "gymnasium", "numpy", "builtins", "collections"}
        return super().find_class(module, name)


def test_unpickling_calls_nothing_but_this_library():
    for value in Converter("numpy", dtypes={"float64": "float32"}), wrapped():
        again = OnlyOurs(io.BytesIO(pickle.dumps(value))).load()
        assert type(again) is type(value)


def wrapped():
    return arrayferry.wrap(gym.make("CartPole-v1", disable_env_checker=True).unwrapped, "numpy")


def with_another_name(value, name):
    """A pickle in which the framework's name was replaced, as an attacker would."""
    text = pickle.dumps(value, 0)
    assert b"numpy" in text
    return text.replace(b"Vnumpy\n", b"V" + name.encode() + b"\n")


@pytest.mark.parametrize("make", [lambda: Converter("numpy"), wrapped], ids=["converter", "wrapper"])
def test_unpickling_imports_no_module_that_is_no_framework(run_python, loud, make):
    pickled = with_another_name(make(), "loud")
    assert b"Vloud\n" in pickled
    code = f"""{loud}
import pickle, arrayferry
try:
    pickle.loads({pickled!r})
except arrayferry.errors.UnknownFrameworkError as error:
    print("loud" in sys.modules, error.what)
"""
    assert run_python(code) == "False 'loud' is not an array framework\n"


def test_unpickling_may_import_the_framework_that_it_names(run_python):
    pytest.importorskip("torch")
    pickled = pickle.dumps(Converter("torch"))
    code = f"""
import sys, pickle
converter = pickle.loads({pickled!r})
print("torch" in sys.modules, type(converter(1.5)).__name__)
"""
    assert run_python(code) == "True Tensor\n"


def test_a_stranger_that_was_imported_is_found(monkeypatch):
    stranger = ModuleType("stranger")
    stranger.asarray = np.asarray
    monkeypatch.setitem(sys.modules, "stranger", stranger)
    assert find_framework("stranger").name == "stranger"
    with pytest.raises(UnknownFrameworkError, match="'os' is not an array framework"):
        find_framework("os")


# --- specs


def spec_with(**arguments):
    """The JSON of a wrapped environment, with other arguments in it."""
    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy")
    spec = json.loads(env.spec.to_json())
    spec["additional_wrappers"][-1]["kwargs"].update(arguments)
    return json.dumps(spec)


def rebuilt(text):
    return gym.make(gym.envs.registration.EnvSpec.from_json(text))


def test_a_spec_is_rebuilt_from_json():
    assert type(rebuilt(spec_with()).reset(seed=1)[0]) is np.ndarray


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"target_xp": "os"}, UnknownFrameworkError),
        ({"target_xp": "loud"}, UnknownFrameworkError),
        ({"env_xp": "__import__('os')"}, UnknownFrameworkError),
        ({"target_xp": ["numpy"]}, UnknownFrameworkError),
        ({"target_device": "__import__('os')"}, arrayferry.errors.DeviceError),
        ({"dtypes": {"float64": "__import__('os')"}}, arrayferry.errors.OptionError),
        ({"dtypes": "print(1)"}, arrayferry.errors.OptionError),
        ({"copy": "print(1)"}, arrayferry.errors.OptionError),
        ({"spaces": "__import__('os')"}, arrayferry.errors.OptionError),
        ({"scalars": "__import__('os')"}, arrayferry.errors.OptionError),
    ],
    ids=str,
)
def test_what_stands_in_a_spec_is_data(arguments, error):
    with pytest.raises(error):
        rebuilt(spec_with(**arguments))


# --- text of users


def test_no_source_file_evaluates_text():
    calls = [
        f"{file.name}:{node.lineno} {node.func.id}"
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in {"eval", "exec", "compile", "__import__"}
    ]
    assert calls == []


KEYS = [
    "'); print('evaluated'); ('",
    '"]; raise SystemExit; ["',
    "__class__",
    "{0.__class__}",
    "%s",
    "\n\0\\",
    "\U0001d518",
]


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_data_in_values_and_in_messages(key, capsys):
    value = {key: {"x": np.ones(2), key: [1]}}
    for converter in [Converter("numpy")] * 3:  # however often it has seen this structure
        assert list(converter(value)[key]) == ["x", key]
    with pytest.raises(OverflowError) as caught:
        convert({key: [2**70]}, "numpy")
    assert caught.value.where == f'value["{key}"][0]'
    assert capsys.readouterr().out == ""


def test_names_of_classes_and_fields_are_data(capsys):
    made = type("print('evaluated')", (dict,), {})
    assert type(convert(made(x=np.ones(2)), "numpy")) is made
    assert capsys.readouterr().out == ""
