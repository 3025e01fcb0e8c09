"""TensorFlow and Paddle pass the kit, each in a process of its own: `make test-with NAME=tf-paddle`."""

from __future__ import annotations

import sys

import pytest

import arrayferry
from arrayferry.testing import CHECKS, SEPARATE

# Paddle first: TensorFlow before it ends the process.
LOAD = "".join(f"import {name}\n" for name in ("paddle", "tensorflow") if name in arrayferry.frameworks())

CODE = """
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
{load}
from arrayferry.testing import CHECKS
for check in CHECKS:
    try:
        check({name!r})
    except Exception as error:
        print(check.__name__, repr(error), flush=True)
    else:
        print(check.__name__, flush=True)
"""


@pytest.mark.parametrize("name", sorted(SEPARATE))
def test_framework_conforms_in_a_process_of_its_own(run_python, name):
    if name not in arrayferry.frameworks():
        pytest.skip(f"{name} is not installed: make test-with NAME=tf-paddle")
    load = "\n".join(f"    {line}" for line in LOAD.splitlines())
    printed = run_python(CODE.format(load=load, name=name), timeout=280, TF_CPP_MIN_LOG_LEVEL="2")
    lines = [line for line in printed.splitlines() if line.startswith("check_")]
    assert lines == [check.__name__ for check in CHECKS]


def test_they_are_not_in_this_process():
    assert not SEPARATE & set(sys.modules)
