"""A walk like that of `convert`, which writes down what becomes of each leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from arrayferry._core import ownership
from arrayferry._core.containers import container_of
from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import dtype_name
from arrayferry._core.leaf import route
from arrayferry._core.registry import framework_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import KEEP, Container, Slot, unchanged, walk
from arrayferry._explain.why import memory_of, why_copied
from arrayferry.errors import FerryError

__all__ = ["Leaf", "flat", "leaf_of", "record"]


@dataclass(frozen=True)
class Leaf:
    """One leaf, as it crossed.

    Attributes:
        path: where it is, such as `obs["camera"]`.
        shape: of an array; None for anything else.
        before: its dtype, or its type if it is no array.
        after: the same of what it became.
        route: the frameworks that it went through, such as `("jax", "numpy", "torch")`.
        memory: `taken over` without a copy, `shared`, `copied`, `cast`, `made` from a number,
            `left alone` or `refused`.
        why: the reason.
        nbytes: of the original.
        seconds: that it took, at best; of an action of many leaves, each has an equal share.
        seen: in how many steps this was so.
        hint: of a refused leaf, what to do.
    """

    path: str
    shape: tuple[int, ...] | None
    before: str
    after: str
    route: tuple[str, ...]
    memory: str
    why: str
    nbytes: int
    seconds: float
    seen: int = 1
    hint: str = ""

    @property
    def verdict(self) -> str:
        """Shared or copied, and why, in a few words."""
        return f"{'cast to ' + self.after if self.memory == 'cast' else self.memory}: {self.why}"


def record(converter: Converter, box: list[Any], names: Sequence[str], holder: str) -> list[Leaf]:
    """Convert the values in a list that alone holds them, and say what became of each leaf.

    A leaf that is refused is written down like the others, and the walk goes on.
    """
    leaves: list[Leaf] = []

    def visit(path: str, value: Any, references: int | None, action: Callable[[Any, bool], Any]) -> Any:
        source = framework_of(type(value))
        why = why_copied(converter, source, value, references, holder) if source else ""
        refusal: FerryError | None = None
        start = perf_counter()
        try:
            found = action(value, references is not None and references <= ownership.unshared)
        except FerryError as error:
            found, refusal = value, error
        seconds = perf_counter() - start
        if type(found) is not Container:
            leaves.append(leaf_of(path, value, found, converter, why, refusal, seconds))
        return found

    walk(box, [*map(Slot, names)], converter._actions, visit=visit)
    return leaves


def leaf_of(
    path: str,
    value: Any,
    found: Any,
    converter: Converter,
    why: str,
    refusal: FerryError | None,
    seconds: float,
) -> Leaf:
    """What became of a value; `why` it was copied, if it was."""
    kept = found is KEEP
    found = value if kept else found
    before, after = kind_of(value), kind_of(found)
    memory, reason = "copied", why
    source, target = framework_of(type(value)), converter.framework
    hint = ""
    if refusal is not None:
        memory, reason, hint = "refused", refusal.what, refusal.hint
    elif kept:
        memory, reason = "left alone", f"{before} has no counterpart in {target.name}"
    elif found is value and source is None:
        memory, reason = "left alone", f"a {before} is no array"
    elif source is None:
        memory, reason = "made", "a number has no memory"
    elif converter.copy is False:  # else it would have been refused
        memory, reason = "shared", "copy=False"
    elif overlap(memory_of(value, source), memory_of(found, framework_of(type(found)))):
        memory, reason = "taken over", "nobody else holds it"
    elif after != before:
        asked = before in converter.dtypes
        memory, reason = "cast", "dtypes= asks for it" if asked else f"{target.name} has no {before} here"
    crossed = memory not in ("left alone", "refused")
    through = route(value, source, target) if crossed else ()
    shape = getattr(value, "shape", None)
    shape = None if shape is None else tuple(shape)
    return Leaf(path, shape, before, after, through, memory, reason, _nbytes(value), seconds, hint=hint)


def kind_of(value: Any) -> str:
    """The dtype of an array or NumPy scalar, the type of anything else."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else dtype_name(dtype)


def overlap(one: tuple[int, int] | None, two: tuple[int, int] | None) -> bool:
    """Whether two ranges of memory have anything in common."""
    return one is not None and two is not None and one[0] < two[1] and two[0] < one[1]


def _nbytes(value: Any) -> int:
    try:
        return int(value.nbytes)
    except Exception:  # not of all frameworks, and not of all that have no values
        return 0


def flat(value: Any, name: str) -> dict[str, Any]:
    """The leaves of a value by their paths.

    >>> flat({"a": [1, 2]}, "x")
    {'x["a"][0]': 1, 'x["a"][1]': 2}
    """
    found: dict[str, Any] = {}
    actions = TypeCache(lambda cls: container_of(cls) or unchanged)

    def visit(path: str, value: Any, references: int | None, action: Any) -> Any:
        found[path] = value

    walk([value], [Slot(name)], actions, visit=visit)
    return found
