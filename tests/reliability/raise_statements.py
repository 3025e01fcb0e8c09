"""Where the source refuses something: read from it, so that no refusal is without a row in the table."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import arrayferry
from arrayferry import errors

ROOT = Path(arrayferry.__file__).resolve().parent
FOLDERS = ("_core", "_frameworks", "spaces", "_boundary", "_in_jit", "wrappers", "envs")


def raised_in(error: BaseException) -> tuple[str, str]:
    """The file and the function in which an error was raised."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return Path(os.path.relpath(code.co_filename, ROOT)).as_posix(), code.co_name


class Site(NamedTuple):
    """Where the source refuses something: the file, the function, the kind of error, and its two texts."""

    file: str
    function: str
    kind: str
    texts: tuple[str, ...]


def sites() -> Iterator[Site]:
    """All places in the source that raise one of the library's errors."""
    for file in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        yield from _sites_in(tree, file.relative_to(ROOT).as_posix(), "", {})


def _sites_in(node: ast.AST, file: str, function: str, texts: dict[str, str]) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            texts[child.targets[0].id] = _text(child.value, texts)
        if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call):
            kind = getattr(child.exc.func, "id", getattr(child.exc.func, "attr", ""))
            if kind in errors.__all__ or kind in ("refusal", "no_device", "narrowing"):
                yield Site(file, function, kind, tuple(_text(one, texts) for one in child.exc.args))
        inner = child.name if isinstance(child, ast.FunctionDef) else function
        yield from _sites_in(child, file, inner, texts)


def _text(node: ast.expr, texts: dict[str, str]) -> str:
    """What a string in the source says, with the names of what is filled in."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value for part in node.values if isinstance(part, (ast.Constant, ast.FormattedValue)))
        return "".join(part if isinstance(part, str) else f"{{{ast.unparse(part)}}}" for part in parts)
    if isinstance(node, ast.Name) and node.id in texts:
        return texts[node.id]
    return str(node.value) if isinstance(node, ast.Constant) else f"{{{ast.unparse(node)}}}"


# What needs a device, a process or a program of its own, and cannot be run for the page.
ELSEWHERE = {
    "_frameworks/cupy.py": "needs a GPU",
    "_frameworks/tensorflow.py": "needs a process of its own",
    "_frameworks/paddle.py": "needs a process of its own",
    "_frameworks/warp.py": "needs warp-lang, which `make test-with NAME=packages` has",
    "_frameworks/_containers.py": "needs tensordict",
    "_boundary/rows/torch.py": "needs several processes, which tests/scale has",
    "_frameworks/jax.py put_on": "needs several processes",
    "_frameworks/jax.py _refuse_if_elsewhere": "needs several processes",
    "_frameworks/_torch_devices.py refuse_capture": "needs a device, which `make test-with NAME=late` has",
    "_core/walk.py complete": "needs a device, which `make test-with NAME=late` has",
    "_boundary/rows/jax.py read": "needs several processes",
    "_boundary/seeds.py _process": "needs several processes of two frameworks",
    "_core/route.py _alias": "needs a device, which `make test-with NAME=late` has",
    "envs/dm_env.py __init__": "needs Shimmy, which `make test-with NAME=packages` has",
}


def runs_elsewhere(site: Site) -> bool:
    """Whether a refusal cannot be run where the others are."""
    return site.file in ELSEWHERE or f"{site.file} {site.function}" in ELSEWHERE
