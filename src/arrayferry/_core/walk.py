"""The walk through containers: the reference implementation. `_speedups.c` is the same walk in C.

Everything that is not a container is a *leaf*. The *handler* of an object's type says what becomes of it:
a `Container`, which is opened, converted and built again; or a function `(leaf, owned)` that returns the
converted leaf, `KEEP`, or a `Container`. `owned` means that nobody but this walk can reach the leaf.

There is no recursion: a structure may be as deep as memory allows. A container that is reached by several
paths is converted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from sys import getrefcount
from typing import Any, NamedTuple, TypeAlias, TypeVar

from arrayferry._core import ownership
from arrayferry._core.framework import Deferred
from arrayferry._core.interruptions import REFUSALS, describe_error, ignore_errors, is_interruption
from arrayferry._core.speedups import speedups
from arrayferry.errors import CircularError, FerryError, TransferError, UnsupportedError

_T = TypeVar("_T")

# What becomes of a type: a function, a `Container`, or a `Route`, which is a tuple that can be called.
Handler: TypeAlias = "Callable[[Any, bool], Any] | Container | tuple[Any, ...]"

# Called with the name of the value, a function that makes the path (which is slow), and the leaf.
OnKeep: TypeAlias = "Callable[[str, Callable[[], str], Any], None]"

# Called instead of a leaf's handler, to observe the walk, with the path, the leaf, the number of references
# to it, weak ones included (None if somebody else can reach its container), and the handler.
Visit: TypeAlias = "Callable[[str, Any, int | None, Callable[[Any, bool], Any]], Any]"

# Arrays whose values are under way, each with the name of its slot.
Deferrals: TypeAlias = "list[tuple[str, Deferred]]"

# By id: a container that may be reached again (kept alive, so that its id is not reused), and its result.
Memo: TypeAlias = "dict[int, tuple[Any, Any]]"


# A handler's answer: the leaf has no counterpart in the target, and stays as it is.
KEEP = object()

# In a memo, in place of a result: the container is still being converted.
IN_PROGRESS = object()


def unchanged(value: Any, owned: bool) -> Any:
    """Return the leaf itself: the handler for what is the same in all frameworks."""
    return value


class Attribute(str):
    """The name of an attribute, among the keys of a container."""

    __slots__ = ()


def key_text(key: Any) -> str:
    """Return how a key is written in a path."""
    if type(key) is Attribute:
        return f".{key}"
    with ignore_errors():  # a key whose repr fails must not hide the error
        return f'["{key}"]' if type(key) is str else f"[{key!r}]"
    return f"[<{type(key).__name__}>]"


def _format_key(keys: Any, index: int) -> str:
    """Return the text of the key at an index; empty past the last one, when the container is being built."""
    return "".join(map(key_text, islice(keys, index, index + 1)))


@dataclass(frozen=True, eq=False)
class Container:
    """How to flatten one kind of container, and how to build another like it.

    Attributes:
        flatten: `(original)` to its keys and its values, in the same order.
        unflatten: `(original, keys, new values)` to a new container of the same kind.
        format_key: `(keys, index)` to the text of a key in a path.
        counted: whether only counted references can reach it (no subclass, nothing weak): see `ownership.py`.
        copy: what to flatten instead if others can reach it, and may change it during the walk; None if they
            cannot change it, or if `flatten` itself reads it at one moment.
    """

    flatten: Callable[[Any], tuple[Iterable[Any], Iterable[Any]]]
    unflatten: Callable[[Any, Any, list[Any]], Any]
    format_key: Callable[[Any, int], str] = _format_key
    counted: bool = False
    copy: Callable[[Any], Any] | None = None


class Slot(NamedTuple):
    """One of the values that are converted together.

    Attributes:
        name: what it is called in paths.
        on_keep: called when a leaf of it has no counterpart in the target.
        scalar: turns it into a Python number; None if it is walked instead.
        kept_type: the type of numbers that stay as they are; `scalar` is called for all others.
        expects: a list of a type and a dtype, which may be changed: if a value has another one, the walker's
            `repack` is called first; None if it may be anything.
    """

    name: str
    on_keep: OnKeep | None = None
    scalar: Callable[[Any], Any] | None = None
    kept_type: type | None = None
    expects: list[Any] | None = None


# A container that is being walked: itself, its kind, its keys, the remaining children, the results so
# far (their number says how far it got), whether the walk alone can reach it, and whether it is in the memo.
#
# The first is that of the box, a list of the values to convert, which is of no kind: so a root is a leaf like
# any other, and its reference count does not depend on the caller.
_Frame: TypeAlias = "tuple[Any, Any, Any, Iterator[Any], list[Any], bool, bool]"


def walk(
    box: list[Any],
    slots: Sequence[Slot],
    handlers: Mapping[type, Any],
    visit: Visit | None = None,
) -> list[Any]:
    """Convert the values in `box`; those of slots with a `scalar` are numbers already.

    Args:
        box: a list of the values; only what it alone holds can be taken over.
        slots: the slot of each value.
        handlers: the handler of each type.
        visit: called instead of each leaf's handler.
    """
    memo: Memo = {}
    deferred: Deferrals = []
    unshared, count_holders = ownership.unshared, ownership.count_holders
    stack: list[_Frame] = [(box, None, (), iter(box), [], True, False)]
    try:
        while True:
            node, container, keys, children, results, alone, known = stack[-1]
            for child in children:
                if container is None and slots[len(results)].scalar is not None:
                    results.append(child)
                    continue
                answer = handlers[type(child)]
                references = getrefcount(child)
                if references <= unshared:  # so few that it has to be known exactly
                    references = count_holders((child,))
                if type(answer) is not Container:
                    if visit is None:
                        answer = answer(child, alone and references <= unshared)
                    else:
                        answer = visit(_path(stack, slots), child, references if alone else None, answer)
                if type(answer) is Container:
                    is_shared = references > unshared
                    if answer.counted and not child and not is_shared:  # empty, as many infos are
                        results.append(answer.unflatten(child, (), []))
                        continue
                    if is_shared and (entry := memo.get(id(child))) is not None:
                        if entry[1] is IN_PROGRESS:
                            refuse_cycle(child)
                        results.append(entry[1])
                        continue
                    if is_shared:
                        memo[id(child)] = child, IN_PROGRESS
                    alone = alone and answer.counted and not is_shared
                    keys, values = answer.flatten(child if alone or not answer.copy else answer.copy(child))
                    stack.append((child, answer, keys, iter(values), [], alone, is_shared))
                    break
                if answer is KEEP:
                    report_kept(_slot(stack, slots), _path(stack, slots), child)
                    answer = child
                while type(answer) is Deferred:
                    deferred.append((_slot(stack, slots).name, answer))
                    answer = answer.array
                results.append(answer)
            else:
                if container is None:
                    break
                if deferred and not container.counted:  # somebody else's code would see the arrays
                    complete(deferred)
                built = container.unflatten(node, keys, results)
                if known:
                    memo[id(node)] = node, built
                stack.pop()
                stack[-1][4].append(built)
    except Exception as error:
        complete(deferred, failed=True)
        if (located := locate(error, _path(stack, slots))) is error:
            raise
        raise located from error
    complete(deferred)
    return results


def complete(deferred: Deferrals, failed: bool = False) -> None:
    """Complete arrays that were deferred, those with the same `finish` at once, and empty the list.

    Args:
        deferred: the name of each array's slot, and the array.
        failed: whether the walk has failed: then another error is ignored.
    """
    if failed:
        with ignore_errors():
            complete(deferred)
    while deferred:
        name, (_, finish, _) = deferred[0]
        tasks = [each.task for _, each in deferred if each.finish is finish]
        deferred[:] = [(slot, each) for slot, each in deferred if each.finish is not finish]
        try:
            finish(tasks)
        except Exception as error:
            complete(deferred, failed=True)  # what others have sent, or have to hold
            is_refusal = isinstance(error, REFUSALS) and not isinstance(error, FerryError)
            if not is_refusal or is_interruption(error):
                raise
            what = f"in a transfer of {len(tasks)}: {describe_error(error)}"
            raise TransferError(what, "the framework itself refused; see its message", name) from error


def report_kept(slot: Slot, path: str, leaf: Any) -> None:
    """Tell the slot's `on_keep`, if it has one, that a leaf has no counterpart."""
    if slot.on_keep is not None:
        slot.on_keep(slot.name, lambda: path, leaf)


def locate(error: Exception, path: str) -> Exception:
    """Return the error to raise, with its path."""
    if isinstance(error, FerryError):
        return error.at(path)
    if is_interruption(error):
        return error
    what = f"while it was converted: {describe_error(error)}"  # what a key or a hook raised
    return UnsupportedError(what, "if something modifies it during the conversion, convert a copy", path)


def _slot(frames: list[_Frame], slots: Sequence[Slot]) -> Slot:
    return slots[min(len(frames[0][4]), len(slots) - 1)]  # a tracer may raise after the last one


def _path(frames: list[_Frame], slots: Sequence[Slot]) -> str:
    steps = [(container, keys, len(results)) for _, container, keys, _, results, _, _ in frames[1:]]
    return path_of(_slot(frames, slots).name, steps)


def path_of(name: str, steps: Iterable[tuple[Container, Any, int]]) -> str:
    """Return the path that begins at a name; each step has a container's kind, its keys and an index."""
    return name + "".join(container.format_key(keys, index) for container, keys, index in steps)


def refuse_cycle(container: Any) -> None:
    """Raise the error for a container that was reached from itself."""
    raise CircularError(f"this {type(container).__name__} contains itself", "break the cycle")


def guarded(context: Callable[[], AbstractContextManager[Any]], method: Callable[..., _T], *args: Any) -> _T:
    """Call a method in a context."""
    with context():
        return method(*args)


class Walker:
    """Converts boxes, all with the same slots and handlers. The C extension has one like it.

    Args:
        handlers: the handler of each type.
        slots: the slots of the values in a box.
        repack: turns what `unpack` gets into a tuple with a value for each slot, or raises. It is called for
            anything else, and if a value is not what its slot expects.
        guard: as in `Target`.
    """

    def __init__(
        self,
        handlers: Mapping[type, Any],
        slots: Sequence[Slot],
        repack: Callable[[Any], tuple[Any, ...]] = tuple,
        guard: tuple[Callable[[], bool], Callable[[], AbstractContextManager[Any]]] | None = None,
    ) -> None:
        self._handlers, self._slots, self._repack, self._guard = handlers, slots, repack, guard

    def convert(self, box: list[Any]) -> Any:
        """Return the one value in the box, converted."""
        if self._guard is not None and self._guard[0]():
            return guarded(self._guard[1], self.convert, box)
        return walk(box, self._slots, self._handlers)[0]

    def unpack(self, box: list[Any]) -> tuple[Any, ...]:
        """Return the values of the tuple in the box, converted."""
        if self._guard is not None and self._guard[0]():
            return guarded(self._guard[1], self.unpack, box)
        values = box.pop()
        as_expected = type(values) is tuple and len(values) == len(self._slots)
        value = None
        for slot, value in zip(self._slots, values if as_expected else ()):
            if (known := slot.expects) is not None:
                as_expected &= type(value) is known[0] and value.dtype is known[1]
        if not as_expected:
            values = self._repack(values)
        results = [*values]
        del values, value  # so that the list alone holds them
        for index, slot in enumerate(self._slots):
            if slot.scalar is not None and type(results[index]) is not slot.kept_type:
                results[index] = slot.scalar(results[index])
        return tuple(walk(results, self._slots, self._handlers))


def _count(box: list[Any]) -> int:
    """Return the reference count of the one object in the box, as the walk sees it."""
    counts: list[int | None] = []
    slots = (Slot("value"),)
    walk(box, slots, {object: unchanged}, visit=lambda path, leaf, count, handler: counts.append(count))
    return counts[0] or -1


if ownership.REFCOUNTS_RELIABLE:
    # At most its container, `child`, the tuple, and `map`, which passes it on. A tracer that keeps local
    # variables adds to it; once it was off, as many holders would go unnoticed.
    ownership.unshared = 4
    ownership.unshared = min(_count([object()]), 4)
    if not ownership.has_proof(lambda box: _count(box) <= ownership.unshared):
        ownership.REFCOUNTS_RELIABLE, ownership.unshared = speedups is not None, -1
