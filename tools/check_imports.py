"""Check that imports point in the right direction.

    errors <- _core <- _frameworks <- spaces <- wrappers <- sanitizer, _explain and others <- cli

Also: importing a module imports no framework except NumPy (and Gymnasium only where environments are
handled), and `_core` mentions no framework by name. The frameworks are the files in `_frameworks/`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = "arrayferry"
# A file may import from its own height or below; the public __init__ is exempt.
HEIGHT = {"errors": 0, "_core": 1, "_frameworks": 2, "spaces": 3, "wrappers": 4}
HEIGHT |= dict.fromkeys(["envs", "learners", "_in_jit", "scale", "sanitizer", "_explain", "testing"], 5)
HEIGHT |= {"cli": 6, "__main__": 6}
HEIGHT[""] = 5  # the package itself
HANDLES_ENVIRONMENTS = set(
    "sanitizer spaces wrappers envs learners scale _explain _in_jit cli testing".split()
)


def check(src: Path) -> list[str]:
    """Return every breach in the package under `src`, as `file:line: message`."""
    root = src / PACKAGE
    frameworks = {f.stem for f in root.glob("_frameworks/[!_]*.py")} - {"numpy"}
    found = []
    for file in sorted(root.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        breaches = set(_breaches(ast.parse(text), file.relative_to(root), frameworks))
        if file.is_relative_to(root / "_core") and frameworks:
            breaches |= set(_names(text, frameworks))
        found += [f"{file.relative_to(src.parent)}:{n}: {text}" for n, text in sorted(breaches)]
    return found


def _breaches(tree: ast.Module, file: Path, frameworks: set[str]) -> Iterator[tuple[int, str]]:
    part = "" if file == Path("__init__.py") else file.parts[0].removesuffix(".py")
    if part not in HEIGHT:
        yield 1, f"{part} has no height: give it one in tools/check_imports.py"
    for line, module in _imports(ast.walk(tree), file) if part else ():
        names = module.split(".")
        target = names[1] if names[1:] and names[1] in HEIGHT else ""
        if names[0] == PACKAGE and HEIGHT[target] > HEIGHT.get(part, 9):
            yield line, f"{part} must not import {module}: the arrow points the other way"
    banned = frameworks if part in HANDLES_ENVIRONMENTS else frameworks | {"gymnasium"}
    for line, module in _imports(_at_import_time(tree.body), file):
        if module.split(".")[0] in banned:
            yield line, f"{module} is imported with the module: import it where it is used"


def _imports(nodes: Iterable[ast.AST], file: Path) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            dots, module = getattr(node, "level", 0), getattr(node, "module", None)
            start = [PACKAGE, *file.parts[:-dots]] if dots else []
            start += [module] if module else []
            yield from ((node.lineno, ".".join([*start, alias.name])) for alias in node.names)


def _at_import_time(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _at_import_time(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
            yield from _at_import_time(ast.iter_child_nodes(node))


def _names(text: str, frameworks: set[str]) -> Iterator[tuple[int, str]]:
    word = re.compile(rf"\b({'|'.join(frameworks)})\b", re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), 1):
        for name in word.findall(line):
            yield number, f"_core names {name}: it knows no framework"


if __name__ == "__main__":
    problems = check(Path(__file__).resolve().parent.parent / "src")
    print("\n".join(problems) or "import arrows: fine")
    sys.exit(bool(problems))
