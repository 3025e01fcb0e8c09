"""The examples in the docstrings of Gymnasium's wrappers print the same with the import changed."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import re
from typing import Any

import gymnasium.wrappers
import pytest

THEIRS, OURS = "gymnasium.wrappers", "arrayferry.wrappers"
# Videos take half a minute; those wrappers are Gymnasium's own.
LEFT_OUT = ("utils", "rendering")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(gymnasium.wrappers.__path__, f"{THEIRS}.")
    if not module.ispkg and not module.name.endswith(LEFT_OUT)
]


class Printed(doctest.DocTestRunner):
    """Keeps what each line prints or raises."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def report_success(self, out: Any, test: Any, example: Any, got: str) -> None:
        self.lines.append((example.source.replace(THEIRS, OURS), got))

    report_failure = report_success

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, error: Any) -> None:
        self.lines.append((example.source.replace(THEIRS, OURS), f"{error[0].__name__}: {error[1]}"))


def printed(text: str, *modules: str) -> list[tuple[str, str]]:
    """Run an example with the names of modules, the last of which count."""
    runner, space = Printed(), {}
    for module in modules:
        space |= vars(importlib.import_module(module))
    runner.run(doctest.DocTestParser().get_doctest(text, space, "example", None, 0))
    # Where something is in memory, whose class it is, and what pytest makes of assertions, which it rewrites
    # in packages that have a plugin.
    changing = r"0x\w+|(gymnasium|arrayferry)\.wrappers\S*|(?<=AssertionError: )assert[\s\S]*"
    return [(source, re.sub(changing, "", got)) for source, got in runner.lines]


@pytest.mark.needs("gymnasium>=1.4")  # whose numbers the wrappers have
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", MODULES)
def test_examples_print_the_same(module, monkeypatch, tmp_path):
    for framework in ("jax", "torch"):
        if framework in module:
            pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)
    for found in doctest.DocTestFinder().find(importlib.import_module(module)):
        text = found.docstring or ""
        changed = text.replace(THEIRS, OURS).replace("gym.wrappers", "arrayferry.wrappers")
        first = ">>> import arrayferry.wrappers.vector\n" if "arrayferry" in changed else ">>> pass\n"
        theirs = printed(">>> pass\n" + text, module)
        ours = printed(first + changed, module, module.replace(THEIRS, OURS))
        assert [got for _, got in ours] == [got for _, got in theirs], found.name


def test_there_are_examples_and_none_is_the_same_by_failing():
    if not all(importlib.util.find_spec(name) for name in ("torch", "pygame")):
        pytest.skip("torch and pygame are not installed")
    module = f"{THEIRS}.vector.numpy_to_torch"
    text = importlib.import_module(module).NumpyToTorch.__doc__
    lines = printed(text.replace(THEIRS, OURS), module.replace(THEIRS, OURS))
    assert any("torch.Tensor" in got for _, got in lines)
    assert len(MODULES) > 20
