"""How an explanation is shown: text, and plain data."""

from __future__ import annotations

import json

import numpy as np
import pytest

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


def test_rich_fits_it_into_its_own_width(monkeypatch):
    console = pytest.importorskip("rich.console").Console
    monkeypatch.setenv("COLUMNS", "40")  # of another terminal
    explanation = arrayferry.explain({"[red]": np.zeros(3), "s": "text"}, "numpy")
    for width in (70, 200):
        shown = console(width=width)
        with shown.capture() as captured:
            shown.print(explanation)
        lines = captured.get().splitlines()
        assert lines[0] == "a value to numpy"
        assert any(line.startswith(' value["[red]"]') for line in lines)
        assert max(map(len, lines)) <= width
        assert (len(lines) == 6) is (width == 200)  # title, headings, two leaves, totals and advice
