"""The table of bad inputs and that of refusals: complete, true, and the same in the docs."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from reliability.pages import BEGIN, DOCS, END, RESULTS, put, reliability
from reliability.trials import SOURCE, TESTS

for needed in ("torch", "jax", "dask", "sparse", "array_api_strict", "mlx", "tensordict"):
    pytest.importorskip(needed)


def run(*command):
    """In a process of its own, where JAX is asked for two devices before it starts."""
    return subprocess.run(
        [sys.executable, *command],
        env={"PYTHONPATH": f"{SOURCE}:{TESTS}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


@pytest.mark.needs("numpy>=2")  # StringDType, and jax.new_ref
def test_every_bad_input_becomes_what_the_table_says():
    from reliability.inputs import INPUTS, TARGETS

    done = run("-m", "reliability.outcomes")
    assert done.stdout == f"{len(INPUTS) * len(TARGETS)} looked at\n", done.stdout + done.stderr
    assert len(INPUTS) >= 90


# All rows run in one process, which then has what it takes to write the page.
REFUSALS = """
import json, reliability.inputs
from reliability.pages import DOCS, put, refusals
from reliability.raise_statements import raised_in, runs_elsewhere, sites
from reliability.refusals import SECTIONS, refused
errors = {what: refused(call) for rows in SECTIONS.values() for what, call in rows.items()}
seen = {raised_in(error) for error in errors.values()}
places = {(one.file, one.function) for one in sites() if not runs_elsewhere(one)}
print(json.dumps({
    "places": len(places),
    "without a row": sorted(places - seen),
    "without a hint": [what for what, error in errors.items() if not error.hint],
    "page": put(DOCS / "refusals.md", refusals()),
}))
"""


@pytest.fixture(scope="module")
def refusals():
    done = run("-c", REFUSALS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.needs("jax>=0.8")  # jax.new_ref
def test_every_refusal_in_the_source_has_a_row(refusals):
    assert refusals["without a row"] == []
    assert refusals["without a hint"] == []
    assert refusals["places"] > 50


@pytest.mark.needs("jax>=0.8")
def test_page_of_refusals_is_current(refusals):
    page = (DOCS / "refusals.md").read_text(encoding="utf-8")
    if f"With torch {version('torch')} and JAX {version('jax')}." not in page:
        pytest.skip("messages of other versions of the frameworks")
    assert refusals["page"] == page, "python -m reliability.pages"


def test_page_of_figures_is_made_of_the_file():
    page = DOCS / "reliability.md"
    assert put(page, reliability()) == page.read_text(encoding="utf-8")
    assert RESULTS.exists()


def test_another_part_replaces_the_one_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert put(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(AssertionError, match="no place"):
        put(page, "new")
