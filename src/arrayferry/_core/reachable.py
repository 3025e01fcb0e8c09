"""What can be reached from an object, for whoever only looks: the walk would build it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any


def reachable(root: Any, parts: Callable[[Any], Iterable[Any]], most: int) -> Iterator[Any]:
    """Yield an object and all that can be reached from it: each once, depth first, and nothing is built.

    Args:
        root: the object to begin with.
        parts: `(object)` to those that it leads to.
        most: how many objects are looked at, and how many parts of each.
    """
    stack, seen = [root], dict[int, Any]()  # what is seen is kept alive, so that no id is used twice
    while stack and len(seen) < most:
        item = stack.pop()
        if id(item) not in seen:
            seen[id(item)] = item
            yield item
            stack += [*islice(parts(item), most)][::-1]
