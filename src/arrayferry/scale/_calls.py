"""Method calls and attributes of the environments of a vector, wherever they are."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import methodcaller
from typing import Any

from arrayferry.errors import OptionError, WorkerError
from arrayferry.scale._driver import Kind, Request, Worker, pack
from arrayferry.scale._pickling import Failure
from arrayferry.scale._rows import Rows
from arrayferry.scale._worker import call, render

__all__ = ["Calls", "InCall"]


class InCall:
    """A context that lets `close` know that it comes in the middle of something."""

    is_on = False

    def __enter__(self) -> None:
        self.is_on = True

    def __exit__(self, *_: object) -> None:
        self.is_on = False


class Calls(Rows):
    """A vector environment whose environments can be asked for more than steps."""

    @abstractmethod
    def _using_workers(self) -> InCall:
        """Check that nothing is under way."""

    @property
    def np_random_seed(self) -> Any:
        """The seed of each environment."""
        return self.get_attr("np_random_seed")

    # The base class has a setter, but Gymnasium's own vector environments have none either.
    @property  # type: ignore[misc]
    def np_random(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A copy of the random number generator of each environment."""
        return self.get_attr("np_random")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute that is not callable."""
        return self._run_on("call", None, call, name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment; unlike Gymnasium's, never call it."""
        return self._run_on("get_attr", None, methodcaller("get_wrapper_attr", name))

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each environment.

        A successor that has had no reset yet gets one first, and the same again in the next step.
        """
        return self._run_on("render", None, render)

    def run_on(
        self, indices: Iterable[int] | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Call `function(env, *args, **kwargs)` in the workers of some environments, None for all.

        Returns the results in the order of the indices. What a function changes, a successor does not have.
        """
        return self._run_on("run_on", indices, function, *args, **kwargs)

    def _run_on(
        self, what: str, indices: Iterable[int] | None, function: Any, /, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        parts = self._places(indices)
        calls = {
            worker: pack("run_on", list(part.values()), function, *args, **kwargs)
            for worker, part in parts.items()
        }
        results: dict[int, Any] = {}
        for worker, answer in self._call_workers(what, calls).items():
            results.update(zip(parts[worker], answer))
        return tuple(results[place] for place in sorted(results))

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment: one value for all, or a list with one for each."""
        self.set_attr_of(None, name, values)

    def set_attr_of(self, indices: Iterable[int] | None, name: str, values: Any) -> None:
        """Set an attribute of some environments, None for all: one value, or a list with one for each."""
        parts = self._places(indices)
        count = sum(map(len, parts.values()))
        if not isinstance(values, (list, tuple)):
            values = [values] * count
        if len(values) != count:
            raise OptionError(f"{len(values)} values for {count} environments", "pass one for each")
        calls, before = {}, {}
        for worker, part in parts.items():
            calls[worker] = pack("set_attr", name, {row: values[place] for place, row in part.items()})
        for worker in parts:  # first, so that a successor has it
            before[worker], key = worker.attributes, (name, tuple(parts[worker].values()))
            others = {other: packed for other, packed in worker.attributes.items() if other != key}
            worker.attributes = {**others, key: calls[worker]}
        self._call_workers("set_attr", calls, before)

    def _places(self, indices: Iterable[int] | None) -> dict[Worker, dict[int, int]]:
        """Return which of some environments each worker has: by place in `indices`, its row.

        A negative index counts from the end, as in a list.
        """
        places = defaultdict[Worker, dict[int, int]](dict)
        for place, row in enumerate(
            self._all if indices is None else [self._all[index] for index in indices]
        ):
            places[self._worker_of[row]][place] = row
        return places

    def _call_workers(
        self, name: str, calls: Mapping[Worker, bytes], before: Mapping[Worker, Any] | None = None
    ) -> dict[Worker, Any]:
        """Ask some workers for method calls, and return their results.

        Where one raises, the attributes of its worker are what they were before.
        """
        with self._using_workers():
            needs_reset, self._needs_reset = self._needs_reset, True  # if this is interrupted
            requests = [Request(worker, [worker.rows[0]], Kind.CALL, call) for worker, call in calls.items()]
            self._ask(requests)
            self._wait()
            self._ready.clear()
            for request in requests:
                if before is not None and isinstance(request.result, Failure):
                    request.worker.attributes = before[request.worker]
            self._needs_reset = needs_reset
        for request in requests:
            if isinstance(request.result, str):  # the next step reports it, too
                what = f"{name} of {request.worker}: {request.result}"
                raise WorkerError(what, "call reset() or step(), which replace the worker")
        for request in requests:
            if isinstance(request.result, Failure):
                raise request.result.error
        return {request.worker: request.result[0] for request in requests}
