"""The leaves of a value: what each was, what it became, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.containers import container_of
from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import dtype_name
from arrayferry._core.framework import Deferred
from arrayferry._core.interruptions import ignore_errors
from arrayferry._core.messages import with_article
from arrayferry._core.registry import framework_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import KEEP, Container, Slot, unchanged, walk
from arrayferry._explain.reasons import REASONS, WAYS, reason_to_copy, route_of
from arrayferry.errors import FerryError

# How often something is repeated to measure its time.
_LAPS = 5


@dataclass(frozen=True)
class Leaf:
    """One leaf, before and after its conversion.

    Attributes:
        path: where it is, such as `obs["camera"]`.
        shape: of an array; None for anything else.
        before: its dtype, or its type if it is not an array.
        after: the same for what it became.
        route: the frameworks that it went through, such as `("jax", "numpy", "torch")`.
        memory: `taken over` without a copy, `shared`, `copied`, `cast`, `converted` from or to a number,
            `left alone` or `refused`.
        reason: why, as a code: a key of `REASONS`.
        why: why, in words.
        nbytes: the size of the original.
        seconds: the shortest time for it alone; each leaf of an action has an equal share.
        seen: in how many steps this was so.
        hint: for a refused leaf, what to do.
    """

    path: str
    shape: tuple[int, ...] | None
    before: str
    after: str
    route: tuple[str, ...]
    memory: str
    reason: str
    why: str
    nbytes: int
    seconds: float = 0.0
    seen: int = 1
    hint: str = ""

    @property
    def verdict(self) -> str:
        """What became of it and why, in a few words."""
        if self.memory == "converted":
            return f"converted {self.why}"
        return f"{'cast to ' + self.after if self.memory == 'cast' else self.memory}: {self.why}"


@dataclass(frozen=True)
class Recorder:
    """Notes what becomes of leaves on their way through a converter.

    Attributes:
        converter: the converter.
        holder: who may hold the originals, and so, such as "you still hold".
        meanings: what becomes of the memory, and the reason, where some reasons stand for others.
    """

    converter: Converter
    holder: str
    meanings: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def record(self, box: list[Any], names: Sequence[str]) -> list[Leaf]:
        """Convert the values in a list that is their only holder, and return what became of each leaf.

        A leaf that is refused is recorded like the others, and the walk goes on.
        """
        leaves: list[Leaf] = []

        def visit(path: str, value: Any, references: int | None, handler: Any) -> Any:
            try:
                route = route_of(handler, value)
                reason = reason_to_copy(self.converter, route, value, references)
                result = route(value, references is not None and references <= ownership.unshared)
            except FerryError as error:
                leaf = self._leaf(path, value, KEEP, handler, "")
                what, hint = error.what, error.hint
                leaves.append(replace(leaf, memory="refused", reason="refused", why=what, hint=hint))
                return value
            if type(result) is not Container:
                array = result
                while type(array) is Deferred:
                    array = array.array
                leaf = self._leaf(path, value, array, route, reason)
                # What was taken over is handed in as it came: in a box that is its only holder.
                is_taken = leaf.memory == "taken over" and isinstance(value, np.ndarray)
                new_box = lambda: [value.copy() if is_taken else value]  # noqa: E731
                leaves.append(replace(leaf, seconds=fastest(self.converter, new_box)))
            return result

        walk(box, [*map(Slot, names)], self.converter.handlers, visit=visit)
        return leaves

    def compare(self, name: str, value: Any, result: Any, reason: str) -> list[Leaf]:
        """Return the leaves of a value that more than the converter has changed, compared with the result.

        The reason is that of a copy, unless it is how the array gets to its device.
        """
        before, after = flat(value, name), flat(result, name)
        if before.keys() != after.keys():  # the result has another structure: both are one leaf
            before, after = {name: value}, {name: result}
        leaves = []
        for path, leaf in before.items():
            route = route_of(self.converter.handlers[type(leaf)], leaf)
            way = reason_to_copy(self.converter, route, leaf, None)
            leaves.append(self._leaf(path, leaf, after[path], route, way if way in WAYS else reason))
        return leaves

    def _leaf(self, path: str, value: Any, result: Any, route: Any, reason: str) -> Leaf:
        """Return what became of a value by a route; `reason` is why it was copied, if it was."""
        memory, reason = self._outcome(value, result, reason)
        before, after = _kind_of(value), _kind_of(value if result is KEEP else result)
        unknown = ("python", self.converter.framework.name)
        steps = () if memory == "left alone" else getattr(route, "steps", unknown)
        if reason == "number":
            steps = (*steps[:1], "numpy" if isinstance(result, np.generic) else "python")
        memory, reason = self.meanings.get(reason, (memory, reason))
        shape, nbytes, place = getattr(value, "shape", None), 0, "its device"
        with ignore_errors():  # some frameworks lack it, and some arrays have no values
            nbytes = int(value.nbytes)
        with ignore_errors():
            place = value.device
        kinds = {"before": before, "after": after, "an_after": with_article(after)}
        whose = {"source": framework_of(type(value)), "to": self.converter, "holder": self.holder}
        a_type = with_article(type(value).__name__)
        why = REASONS[reason].format(a_type=a_type, place=place, **kinds, **whose)
        shape = None if shape is None else tuple(shape)
        return Leaf(path, shape, before, after, steps, memory, reason, why, nbytes)

    def _outcome(self, value: Any, result: Any, reason: str) -> tuple[str, str]:
        """Return what became of a leaf's memory, and the code of the reason."""
        was_array, is_array = (framework_of(type(each)) is not None for each in (value, result))
        if result is KEEP:
            return "left alone", "no-counterpart"
        if not is_array:
            return ("left alone", "no-array") if result is value else ("converted", "number")
        if not was_array:
            return "converted", "array"
        if self.converter.copy is False:  # else it would have been refused
            return "shared", "copy-false"
        if ownership.have_common_memory(value, result):
            return "taken over", "unheld"
        if (before := _kind_of(value)) != _kind_of(result):
            return "cast", "dtypes" if before in self.converter.dtypes else "no-dtype"
        return "copied", reason


def fastest(converter: Converter, new_box: Callable[[], list[Any]]) -> float:
    """Return the shortest time of a conversion, in seconds: other processes only ever add to a time."""
    laps, convert = [], converter.walker([Slot("value")]).convert
    for _ in range(_LAPS):
        box = new_box()
        start = perf_counter()
        convert(box)
        laps.append(perf_counter() - start)
    return min(laps)


def _kind_of(value: Any) -> str:
    """Return the dtype of an array or NumPy scalar, the type of anything else."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else dtype_name(dtype)


def flat(value: Any, name: str) -> dict[str, Any]:
    """Return the leaves of a value by their paths.

    >>> flat({"a": [1, 2]}, "x")
    {'x["a"][0]': 1, 'x["a"][1]': 2}
    """
    leaves: dict[str, Any] = {}
    handlers = TypeCache(lambda cls: container_of(cls) or unchanged)
    walk([value], [Slot(name)], handlers, visit=lambda path, leaf, *_: leaves.update({path: leaf}))
    return leaves
