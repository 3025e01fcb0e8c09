"""How an explanation is shown: text, and plain data."""

from __future__ import annotations

import json

import numpy as np

import arrayferry


def test_as_text_and_data():
    held = {"<x>": np.zeros(3), "s": "text"}
    found = arrayferry.explain(held, "numpy")
    text = str(found)
    assert text == repr(found)
    assert text.splitlines()[0] == "a value to numpy"
    assert "float64[3]" in text
    assert "\nadvice: float64 in" in text
    data = json.loads(json.dumps(found.as_dict()))
    assert [leaf["memory"] for leaf in data["leaves"]] == ["copied", "left alone"]
    assert data["bytes"]["copied"] == 24


def test_rich_is_not_needed(run_python):
    hidden = "import sys; sys.modules['rich'] = None; import arrayferry, numpy as np; "
    printed = run_python(hidden + "print(arrayferry.explain(np.zeros(3), 'numpy'))")
    assert printed.startswith("a value to numpy\nleaf ")
    assert "float64[3]" in printed


def test_nothing_to_convert():
    assert str(arrayferry.explain({}, "numpy")).startswith("a value to numpy\n")
