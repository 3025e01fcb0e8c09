"""The pages of the docs made of tests: `python -m reliability.pages` writes them.

Each has a part between two marks; what stands around it is written by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
RESULTS = DOCS / "reliability.json"
BEGIN, END = "<!-- made by reliability.pages: begin -->", "<!-- end -->"


def put(page: Path, part: str) -> str:
    """The page with another part between its marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    assert rest, f"{page.name} has no place for it"
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{rest.partition(END)[2]}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


# --- the figures


def reliability() -> str:
    """The table of the last published run."""
    run = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows = [
        [
            goal["name"],
            goal["title"],
            f"{goal['trials']:,}",
            str(goal["failures"]),
            goal["bound"],
            _peer(goal),
        ]
        for goal in run["goals"]
    ]
    head = ["goal", "what must hold", "trials", "failures", "at most, with 95 %", "Gymnasium 1.4: failures"]
    units = [f"- **{goal['name']}**: {goal['unit']}." for goal in run["goals"]]
    taken = [f"{name} {hits}" for name, hits in run["taken_over"].items()]
    made = f"Made on {run['date']} in {run['minutes']} minutes, on {run['machine']}, with {run['versions']}."
    later: dict[str, list[str]] = {}
    for goal in run["goals"]:
        if (date := goal.get("date", run["date"])) != run["date"]:
            later.setdefault(date, []).append(goal["name"])
    made = " ".join([made, *(f"Made on {date}: {', '.join(names)}." for date, names in later.items())])
    return "\n\n".join(
        [
            made,
            table(head, rows),
            "A trial is:",
            "\n".join(units),
            f"Observations that were taken over without a copy (R16), in 50 steps each: {', '.join(taken)}.",
        ]
    )


def _peer(goal: dict[str, Any]) -> str:
    return f"{goal['peer']['failures']:,} of {goal['peer']['trials']:,}" if goal["peer"] else ""


# --- the refusals


def refusals() -> str:
    """The table of all refusals, with what each really says."""
    from reliability.raise_statements import ELSEWHERE, runs_elsewhere, sites
    from reliability.refusals import SECTIONS, refused

    parts = [f"With torch {version('torch')} and JAX {version('jax')}."]
    for title, rows in SECTIONS.items():
        cells = []
        for what, call in rows.items():
            error = refused(call)
            cells.append([what, f"`{type(error).__name__}`", _code(error.what), _code(error.hint)])
        parts += [f"## {title}", table(["what", "error", "it says", "what to do"], cells)]
    others = [
        [one.file, f"`{one.kind}`", *(_code(text) for text in (*one.texts, "", "")[:2])]
        for one in sites()
        if runs_elsewhere(one)
    ]
    why = "; ".join(f"`{name}` {reason}" for name, reason in ELSEWHERE.items())
    parts += ["## Not run for this page", f"Read from the source: {why}."]
    return "\n\n".join([*parts, table(["where", "error", "it says", "what to do"], others)])


def _code(text: str) -> str:
    """A message as it is, but for what is another on each machine."""
    start, devices, _ = text.partition("the devices here are: ")
    text = f"{start}{devices}..." if devices else text
    return f"`` {text} ``" if text else ""


PAGES: dict[str, Callable[[], str]] = {"refusals.md": refusals, "reliability.md": reliability}


def main() -> None:
    """Write the pages that are named, or all of them."""
    for name in [one for one in PAGES if one in sys.argv] or PAGES:
        (DOCS / name).write_text(put(DOCS / name, PAGES[name]()), encoding="utf-8")


if __name__ == "__main__":
    import reliability.inputs  # before JAX starts: it asks for two devices

    main()
