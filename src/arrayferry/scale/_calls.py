"""Method calls and attributes of the environments of a vector, wherever they are."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import methodcaller
from typing import Any

from arrayferry.errors import OptionError, WorkerError
from arrayferry.scale._driver import Worker
from arrayferry.scale._pickling import Failure
from arrayferry.scale._requests import Kind, Request
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
        if function is render and not self._needs_reset:  # asked here, or by the driver of an actor
            starts = {
                worker: self._packed_reset(worker, list(part), name="start")
                for worker, part in groupby(sorted(self._fresh), lambda row: self._worker_of[row])
            }
            self._call_workers(what, starts)
        parts = self._places(indices)
        calls = {
            worker: worker.pack("run_on", list(part.values()), function, *args, **kwargs)
            for worker, part in parts.items()
        }
        results: dict[int, Any] = {}
        for worker, answer in self._call_workers(what, calls).items():
            results.update(zip(parts[worker], answer[0]))
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
        calls, attributes = {}, {}
        for worker, part in parts.items():
            indices = list(part.values())
            calls[worker] = call = worker.pack("set_attr", name, indices, [values[place] for place in part])
            attributes[worker] = worker.attributes_with(name, indices, call)
        self._call_workers("set_attr", calls, attributes)

    def _places(self, indices: Iterable[int] | None) -> dict[Worker, dict[int, int]]:
        """Return which of some environments each worker has: by place in `indices`, which of its own it is.

        A negative index counts from the end, as in a list.
        """
        rows, places = range(self.num_envs), defaultdict[Worker, dict[int, int]](dict)
        for place, row in enumerate(rows if indices is None else [rows[index] for index in indices]):
            worker = self._worker_of[row]
            places[worker][place] = row - worker.rows.start
        return places

    def _call_workers(
        self, name: str, calls: Mapping[Worker, bytes], attributes: Mapping[Worker, Any] | None = None
    ) -> dict[Worker, Any]:
        """Ask some workers for method calls, and return their answers; remember attributes that are set."""
        with self._using_workers():
            needs_reset, self._needs_reset = self._needs_reset, True  # if this is interrupted
            before = {worker: worker.attributes for worker in calls}
            requests = [
                Request(worker, [worker.rows.start], Kind.CALL, call) for worker, call in calls.items()
            ]
            for request in requests:
                if attributes is not None:
                    request.worker.attributes = attributes[request.worker]
                request.worker.ask(request)
            self._wait()
            for request in requests:
                if isinstance(request.result, Failure):
                    request.worker.attributes = before[request.worker]
            self._needs_reset = needs_reset
        for request in requests:
            if isinstance(request.result, str):  # the next step reports it, too
                what = f"{name} of {request.worker}: {request.result}"
                raise WorkerError(what, "call reset() or step(), which replace the worker")
        for request in requests:
            if isinstance(request.result, Failure):
                raise request.result.error
        return {request.worker: request.result for request in requests}
