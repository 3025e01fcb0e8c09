"""The walk through containers. It knows the path to each leaf, and who else could reach it.

There is no recursion: a structure may be as deep as memory allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from sys import getrefcount
from typing import Any, TypeAlias

from arrayferry._core import ownership
from arrayferry.errors import CircularError, FerryError

__all__ = ["KEEP", "MANY", "Container", "Handler", "OnKeep", "unchanged", "walk"]

# What a type's handler gets: the object, and how many references there are to it (or MANY, when
# somebody could reach it through its container). It gives back what the leaf becomes; or a
# Container, to be walked; or KEEP, for a leaf that has no counterpart and stays as it is.
Handler = Callable[[Any, int], Any]
MANY = 1 << 62

# Told the name of the value, how to get the path in it (which takes time), and the leaf that is kept.
OnKeep: TypeAlias = "Callable[[str, Callable[[], str], Any], None]"


@dataclass(frozen=True, eq=False)
class Container:
    """How to look into one kind of container, and how to build another like it.

    Attributes:
        keys: its keys, in the order of its values.
        values: its values.
        build: `(original, new values)` to a new container of the same kind.
        step: how a key is written in a path.
        counted: whether only references can reach it (nothing weak, no subclass): see ownership.
    """

    keys: Callable[[Any], Iterable[Any]]
    values: Callable[[Any], Iterable[Any]]
    build: Callable[[Any, list[Any]], Any]
    step: Callable[[Any], str] = lambda key: f'["{key}"]' if type(key) is str else f"[{key!r}]"
    counted: bool = False


KEEP = Container(keys=lambda _: (), values=lambda _: (), build=lambda original, _: original)

# The values to convert arrive in a list of their own: so a root is a leaf like any other, and the
# count of its references is the same whoever called. In a path, it goes by its name.
_BOX = Container(keys=range, values=iter, build=lambda _, values: values, counted=True)

# A cycle gets arbitrarily deep: it is looked for at this depth, and each time the depth has doubled.
_CYCLE_CHECK = 64


def unchanged(value: Any, references: int) -> Any:
    """The handler for what is the same everywhere."""
    return value


def walk(
    box: list[Any],
    handlers: Mapping[type, Handler],
    names: Sequence[str] = ("value",),
    on_keep: OnKeep | None = None,
) -> list[Any]:
    """Convert the values in `box`.

    Args:
        box: a list that holds the values; alone, if their memory may be taken over.
        handlers: what to do with each type.
        names: what the values are called in paths.
        on_keep: told when a leaf has no counterpart in the target.
    """
    stack: list[_Frame] = []
    node: Any = box
    container, children, alone = _BOX, iter(box), True
    results: list[Any] = []
    try:
        while True:
            for child in children:
                references = getrefcount(child) if alone else MANY
                found = handlers[type(child)](child, references)
                if type(found) is not Container:
                    results.append(found)
                elif found is KEEP:
                    if on_keep is not None:
                        frames: list[_Frame] = [*stack, (node, container, children, results, alone)]
                        on_keep(_name(frames, names), partial(_path, frames, names), child)
                    results.append(child)
                else:
                    depth = len(stack)
                    if depth >= _CYCLE_CHECK and not depth & (depth - 1):
                        _refuse_cycle(child, stack, names)
                    stack.append((node, container, children, results, alone))
                    alone = alone and found.counted and references <= ownership.unshared
                    node, container, children, results = child, found, iter(found.values(child)), []
                    break
            else:
                if not stack:
                    return results
                built = container.build(node, results)
                node, container, children, results, alone = stack.pop()
                results.append(built)
    except FerryError as error:
        here = node, container, children, results, alone
        error.at(_path([*stack, here], names))
        raise


# A container that is being walked: itself, its kind, the children to come, the results so far (their
# number says how far it got), and whether the walk alone can reach it.
_Frame: TypeAlias = "tuple[Any, Container, Iterator[Any], list[Any], bool]"


def _name(frames: list[_Frame], names: Sequence[str]) -> str:
    index = len(frames[0][3])
    return names[index] if index < len(names) else f"value[{index}]"


def _path(frames: list[_Frame], names: Sequence[str]) -> str:
    path = _name(frames, names)
    for node, container, _, results, _ in frames[1:]:
        current = islice(container.keys(node), len(results), len(results) + 1)
        path += "".join(map(container.step, current))
    return path


def _refuse_cycle(child: Any, stack: list[_Frame], names: Sequence[str]) -> None:
    for depth, (node, *_) in enumerate(stack):
        if node is child:
            what = f"this {type(child).__name__} contains itself"
            raise CircularError(what, "break the cycle", _path(stack[:depth], names))


if ownership.COUNTS_PROVE:
    ownership.unshared = walk([object()], {object: lambda _, references: references})[0]
