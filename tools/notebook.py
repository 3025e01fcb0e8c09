"""Write docs/tutorial.ipynb from docs/tutorial.md: text stays text, and examples lose their prompts.

python tools/notebook.py
"""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, NOTEBOOK = ROOT / "docs/tutorial.md", ROOT / "docs/tutorial.ipynb"


def cells_of(page: str) -> list[tuple[str, str]]:
    """Return the cells of a page, each with its kind. One that shows something ends there."""
    cells = []
    for index, text in enumerate(re.split(r"^```pycon\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)):
        if index % 2:
            code = ""
            for example in doctest.DocTestParser().get_examples(text):
                code += example.source
                if example.want:
                    cells.append(("code", code))
                    code = ""
            cells.append(("code", code))
        else:
            text = re.sub(r"^:::.*?^:::$", "", text, flags=re.MULTILINE | re.DOTALL)  # what only Sphinx reads
            cells.append(("markdown", text))
    return [(kind, text.strip("\n")) for kind, text in cells if text.strip()]


def notebook(page: str) -> str:
    """Return a page as a notebook, in JSON."""
    cells: list[dict[str, Any]] = []
    for index, (kind, text) in enumerate(cells_of(page)):
        cell = {
            "cell_type": kind,
            "id": f"cell-{index}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
