"""Check that imports point in the right direction.

    errors <- _core <- _frameworks <- spaces <- _boundary <- envs <- wrappers <- sanitizer and others <- cli

Also: importing a module imports no framework except NumPy (and Gymnasium only where environments are
handled), and `_core` mentions no framework by name. The frameworks are the files in `_frameworks/`.

No arrow is hidden: a module of another room is not named in a string, nor is something that only another room
defines looked up by its name. A leading underscore is not used outside the folder of the file that has it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = "arrayferry"
# A file may import from its own height or below; the public __init__ is exempt.
HEIGHT = {"errors": 0, "_core": 1, "_frameworks": 2, "spaces": 3, "_boundary": 4, "envs": 5, "wrappers": 6}
HEIGHT |= dict.fromkeys(["learners", "_in_jit", "scale", "sanitizer", "_explain", "testing"], 7)
HEIGHT |= {"cli": 8, "__main__": 8}
HEIGHT[""] = 7  # the package itself
# The one arrow that points up: `wrap(sanitize=)` imports the sanitizer when it is switched on.
UPWARDS = {("wrappers/watch.py", "arrayferry.sanitizer.wrapper.watch")}
# What arrays, Gymnasium's environments and others have, too, whose classes cannot be asked.
THEIRS = set(
    "dtype shape key name asarray n_items num_envs spec spaces single_action_space max_episode_steps".split()
)
THEIRS |= set("id sys items __dict__ __len__ __bool__ __getstate__ add_note _registry item".split())
THEIRS |= {"num_actions", "max_episode_length", "extras", "get_observations", "device"}  # simulators
HANDLES_ENVIRONMENTS = set(
    "sanitizer spaces _boundary wrappers envs learners scale _explain _in_jit cli testing".split()
)


def check(src: Path) -> list[str]:
    """Return every breach in the package under `src`, as `file:line: message`."""
    root = src / PACKAGE
    frameworks = {f.stem for f in root.glob("_frameworks/[!_]*.py")} - {"numpy"}
    texts = {file.relative_to(root): file.read_text(encoding="utf-8") for file in root.rglob("*.py")}
    trees = {file: ast.parse(text) for file, text in texts.items()}
    homes = _homes(trees)
    found = []
    for file, tree in sorted(trees.items()):
        breaches = {*_breaches(tree, file, frameworks), *_hidden(tree, file, homes)}
        if file.parts[0] == "_core" and frameworks:
            breaches |= set(_names(texts[file], frameworks))
        found += [f"{(root / file).relative_to(src.parent)}:{n}: {text}" for n, text in sorted(breaches)]
    return found


def _homes(trees: dict[Path, ast.Module]) -> dict[str, set[Path]]:
    """Return, for each name that a class or a module defines, the folders that define it."""
    homes: dict[str, set[Path]] = {}
    for file, tree in trees.items():
        for name in _defined(tree):
            homes.setdefault(name, set()).add(file.parent)
    return homes


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield functions, classes, attributes of classes and of objects, and names with an underscore."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        for target in _targets(node):
            for part in ast.walk(target):
                if isinstance(part, (ast.Attribute, ast.Name)):
                    yield part.attr if isinstance(part, ast.Attribute) else part.id


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what an assignment to an attribute or in a class assigns to; local variables are nobody's."""
    if isinstance(node, ast.ClassDef):
        return [target for child in node.body for target in _assigned(child)]
    return [target for target in _assigned(node) if not isinstance(target, ast.Name) or target.id[0] == "_"]


def _assigned(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def _hidden(tree: ast.Module, file: Path, homes: dict[str, set[Path]]) -> Iterator[tuple[int, str]]:
    """Yield what hides an arrow: names in strings, and underscores that are used in another folder."""
    room = file.parts[0].removesuffix(".py")
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree) if file != Path("__init__.py") else ():
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                module = re.fullmatch(rf"{PACKAGE}\.(\w+)[.:\w]*", text)
                if module and module[1] in HEIGHT and module[1] != room:
                    yield node.lineno, f"{text} is named in a string: import it, in a function if need be"
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                if name not in THEIRS and _is_elsewhere(homes.get(name), file):
                    yield node.lineno, f"{name} is looked up by name: ask a record, or the class"
            case ast.Attribute(value=value, attr=name) if re.match("_(?!_)", name):
                # A subclass may use what it inherits.
                if ast.unparse(value) not in ("self", "cls") and _is_elsewhere(homes.get(name), file):
                    yield node.lineno, f"{ast.unparse(node)}: {name} belongs to another folder"
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == PACKAGE:
                for names in ([*module.split(".")[1:], alias.name] for alias in node.names):
                    for depth, name in enumerate(names):
                        if name[0] == "_" and file.parts[:depth] != tuple(names[:depth]):
                            yield node.lineno, f"{'.'.join(names)}: {name} belongs to another folder"


def _is_elsewhere(homes: set[Path] | None, file: Path) -> bool:
    """Return whether some folders define a name, and not the one of this file, nor one above or below it."""
    near = {file.parent, *file.parents}
    return bool(homes) and not any(home in near or file.parent in home.parents for home in homes or ())


def _breaches(tree: ast.Module, file: Path, frameworks: set[str]) -> Iterator[tuple[int, str]]:
    part = "" if file == Path("__init__.py") else file.parts[0].removesuffix(".py")
    if part not in HEIGHT:
        yield 1, f"{part} has no height: give it one in tools/check_imports.py"
    for line, module in _imports(ast.walk(tree), file) if part else ():
        names = module.split(".")
        target = names[1] if names[1:] and names[1] in HEIGHT else ""
        is_allowed = (file.as_posix(), module) in UPWARDS
        if names[0] == PACKAGE and HEIGHT[target] > HEIGHT.get(part, 9) and not is_allowed:
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
