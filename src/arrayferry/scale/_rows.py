"""The environments of a vector, as rows that are asked and have answered, or were lost with their worker."""

from __future__ import annotations

import pickle
import time
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from arrayferry._boundary.autoreset import final_of
from arrayferry._boundary.seeds import successor_seed
from arrayferry.errors import WorkerError
from arrayferry.scale._block import Block, index_of, map_arrays, rows_of
from arrayferry.scale._driver import ClosedError, Worker
from arrayferry.scale._line import POLL_SECONDS
from arrayferry.scale._pickling import Failure
from arrayferry.scale._requests import Kind, Request, Reset
from arrayferry.spaces.structure import has_fixed_shape

__all__ = ["Rows"]


class Rows(VectorEnv[Any, Any, Any]):
    """A vector environment whose workers may die, and which asks some of its environments, or all.

    Whatever interrupts a call (Ctrl-C, a signal handler that raises), the state that it leaves behind was
    recorded before: `_needs_reset` is True while something changes, and a worker that is in doubt then is
    replaced by the next call, so that nobody ever reads what it answers. To wait changes nothing.
    """

    _block: Block
    autoreset_mode: AutoresetMode
    _worker_of: Sequence[Worker] = ()
    _workers: Sequence[Worker] = ()  # here, because `close` is called even if the options were refused
    _layer = 0  # so that workers within workers get other seeds
    _is_async = False  # each request is for a single environment; otherwise, for all of a worker

    def _init_rows(self, max_faults: int) -> None:
        self._max_faults, self._needs_reset, self._waited, self._checked = max_faults, True, 0.0, 0.0
        self._seeds: list[int | None] = [None] * self.num_envs
        self._under_way = set[int]()  # asked, and not returned to the caller
        self._ready = deque[int]()  # answered, in this order
        self._infos = defaultdict[int, list[Any]](list)  # of the last answers; pickled or not
        self._failures: list[Exception] = []
        self._fresh = set[int]()  # have had no episode since their worker was replaced
        self._reasons: dict[int, str] = {}  # why it was, where the caller does not know of it yet
        self._over = set[int]()  # by a fault, and only the caller resets them
        self._faults_in_a_row: dict[int, int] = {}
        self._slow_obs: list[Any] = [None] * self.num_envs  # of spaces without a fixed shape

    # ---- requests --------------------------------------------------------------------------------------

    def _parts(self, rows: Iterable[int]) -> list[tuple[Worker, Sequence[int]]]:
        """Return which of some rows are asked together."""
        if self._is_async:
            return [(self._worker_of[row], [row]) for row in rows]
        if isinstance(rows, range):  # all of them
            return [(worker, range(worker.rows.start, worker.rows.stop)) for worker in self._workers]
        return [(worker, list(part)) for worker, part in groupby(rows, lambda row: self._worker_of[row])]

    def _begin(self, rows: Sequence[int]) -> None:
        """Prepare rows for an answer: what they showed is left as it is, for the case of a fault."""
        self._under_way.update(rows)
        self._block.half[index_of(rows)] ^= 1
        for row in rows if self._infos else ():
            self._infos.pop(row, None)

    def _ask_step(self, rows: Sequence[int], actions: Any = None) -> None:
        """Ask for a step, or for the first observation of a new worker's environment.

        Args:
            rows: the environments.
            actions: one for each; None if they are in the block.
        """
        place_of = {row: place for place, row in enumerate(rows)} if actions is not None else {}
        requests = []
        for worker, part in self._parts(rows):
            fresh = [row for row in part if row in self._fresh] if self._fresh else []
            if ready := [row for row in part if row not in self._fresh] if fresh else part:
                call = None
                if actions is not None:
                    places = [place_of[row] for row in ready]
                    call = worker.pack_step(ready, rows_of(self.single_action_space, actions, places))
                requests.append(Request(worker, ready, Kind.STEP, call))
            if new := [row for row in fresh if row not in self._reasons]:
                packed = self._packed_reset(worker, new)
                requests.append(Request(worker, new, Kind.STEP, packed, is_reset=True))
        self._needs_reset = True
        self._begin(rows)
        for request in requests:
            if request.is_reset:
                self._set_numbers(request.rows)
            request.worker.ask(request)
        lost = [row for row in rows if row in self._reasons] if self._reasons else []
        for worker, part in self._parts(lost):
            self._tell_fault(Request(worker, part, Kind.STEP))

    def _ask_reset(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._begin(request.rows)
            self._set_numbers(request.rows)
            for row in request.rows:
                if row in self._reasons:
                    self._infos[row] = [self._fault_info(row)]
            self._over.difference_update(request.rows)
            request.worker.ask(request)

    def _reset_requests(self, rows: Iterable[int], reset: Reset) -> list[Request]:
        return [
            Request(worker, part, Kind.RESET, self._packed_reset(worker, part, reset), reset, is_reset=True)
            for worker, part in self._parts(rows)
        ]

    def _packed_reset(
        self, worker: Worker, rows: Sequence[int], reset: Reset | None = None, name: str = "reset"
    ) -> bytes:
        """Return the call that resets some of a worker's environments: as the caller asks, or a successor's.

        The seeds of a successor are its own, unless they are given: no other one, whatever it replaced, has
        had them.
        """
        given, options = reset or Reset([None] * self.num_envs)
        seeds = [self._new_seed(worker, row) if given[row] is None else given[row] for row in rows]
        return worker.pack(name, [row - worker.rows.start for row in rows], seeds, options)

    def _new_seed(self, worker: Worker, row: int) -> int | None:
        seed = self._seeds[row]
        if seed is None or row not in self._fresh:
            return None
        return successor_seed(seed, row, worker.successors, self._layer)

    def _set_numbers(self, rows: Sequence[int], truncated: bool = False) -> None:
        block, index = self._block, index_of(rows)
        block.rewards[index], block.terminated[index], block.truncated[index] = 0, False, truncated

    # ---- answers ---------------------------------------------------------------------------------------

    @abstractmethod
    def _answered(self) -> Iterator[Worker]:
        """Return the workers that have answered the first of their requests, once for each."""

    @abstractmethod
    def _rest(self, missing: int, seconds: float) -> None:
        """Sleep until so many more requests may have been answered, or workers been lost."""

    def _wait(self, count: int | None = None, until: float = float("inf")) -> None:
        """Wait until so many rows have answered, or all that was asked, or it is too late."""
        needs_reset, start = self._needs_reset, time.monotonic()
        while True:
            self._needs_reset = True
            self._take_answers()
            self._look_after_workers()
            asked = sum(len(worker.requests) for worker in self._workers) if count is None else 0
            missing = asked if count is None else count - len(self._ready)
            if self._failures and (missing <= 0 or count is not None):
                raise self._failures[0]
            self._needs_reset = needs_reset
            now = time.monotonic()
            if missing <= 0 or now >= until:
                self._waited += now - start
                return
            self._rest(missing, min(POLL_SECONDS, until - now))

    def _take_answers(self) -> None:
        for worker in self._answered():
            if (request := worker.finish()) is not None:
                self._take(request)

    def _take(self, request: Request) -> None:
        if isinstance(request.result, Failure):
            if request.kind is not Kind.CALL:
                self._failures.append(request.result.error)
            return
        if request.kind in (Kind.CALL, Kind.SET):
            return
        for place, (obs, infos) in (request.result or {}).items():
            row = request.worker.rows.start + place
            self._slow_obs[row] = obs
            if infos:
                self._infos[row] += infos
        if request.is_reset:
            self._fresh.difference_update(request.rows)
        elif self._faults_in_a_row:
            for row in request.rows:
                self._faults_in_a_row.pop(row, None)
        self._ready.extend(request.rows)

    def _returned(self, rows: Sequence[int], size: int) -> tuple[Any, ...]:
        """Return what some rows have answered, which the caller then has, as a batch of some size."""
        block, kept = self._block, rows
        if missing := size - len(rows):
            kept = [*rows, *[rows[0]] * missing]
        index = index_of(kept)
        numbers = [array[index].copy() for array in (block.rewards, block.terminated, block.truncated)]
        for array in numbers if missing else ():
            array[-missing:] = 0
        obs, infos = self._observations(kept), self._stacked_infos(enumerate(rows), size)
        self._under_way.difference_update(rows)
        return obs, *numbers, infos

    def _observations(self, rows: Sequence[int]) -> Any:
        if self._block.observations is not None:
            return self._block.observation_rows(rows)
        space = self.single_observation_space
        each = [self._slow_obs[row] for row in rows]
        if not has_fixed_shape(space):
            each = deepcopy(each)  # others are copied into the batch
        empty: Any = create_empty_array(space, len(rows))
        return concatenate(space, each, empty)

    def _stacked_infos(self, places: Iterable[tuple[int, int]], size: int) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        stack: VectorEnv[Any, Any, Any] = self
        if size != self.num_envs:
            stack = VectorEnv()
            stack.num_envs = size
        if not self._infos:
            return infos
        for place, row in places:  # one by one, in their order, so that the dtypes are Gymnasium's
            for info in self._infos.get(row, ()):
                info = pickle.loads(info) if isinstance(info, bytes) else info
                infos = stack._add_info(infos, info, place)
        return infos

    # ---- faults ----------------------------------------------------------------------------------------

    def _look_after_workers(self) -> None:
        now = time.monotonic()
        if now - self._checked < POLL_SECONDS:
            return
        self._checked = now
        for worker in self._workers:
            if not worker.requests or now - worker.since < POLL_SECONDS:
                continue
            if (trouble := worker.look_after(now)) is None:
                continue
            self._check_open()  # those that another thread or a signal handler has closed have no fault
            if isinstance(trouble, Failure):
                raise trouble.error
            self._take_answers()  # it may have answered before it died
            if worker.requests:
                self._lose(worker, trouble)

    def _lose(self, worker: Worker, reason: str) -> None:
        """Replace a worker, and report the fault; raise if there were too many."""
        requests, rows = list(worker.requests), range(worker.rows.start, worker.rows.stop)
        self._fresh.update(rows)
        worker.replace()
        self._reasons.update(dict.fromkeys(rows, reason))
        for row in rows:
            self._faults_in_a_row[row] = self._faults_in_a_row.get(row, 0) + 1
        if max(self._faults_in_a_row[row] for row in rows) >= self._max_faults:
            for row in rows:
                del self._faults_in_a_row[row], self._reasons[row]
            often = f" {self._max_faults} times in a row, the last time" if self._max_faults > 1 else ""
            what = f"the worker of {worker} failed{often}: {reason}"
            raise WorkerError(what, "step these environments alone to see why, or raise max_faults")
        for request in requests:
            if request.kind is Kind.CALL:
                request.result = reason
            elif request.kind is not Kind.SET:
                self._tell_fault(request)

    def _tell_fault(self, request: Request) -> None:
        """Show the last observations again, as those of a fault; what is to be reset is asked again."""
        worker, rows = request.worker, request.rows
        self._block.half[index_of(rows)] ^= 1
        for row in rows:
            self._infos[row].append(self._fault_info(row))
        if request.kind is Kind.STEP:
            self._set_numbers(rows, truncated=True)
            if self.autoreset_mode is not AutoresetMode.SAME_STEP:
                self._ready.extend(rows)
                self._over.update(rows if self.autoreset_mode is AutoresetMode.DISABLED else ())
                return
            for row in rows:
                self._infos[row].append(final_of(self._last_of(row), {}))
        self._block.half[index_of(rows)] ^= 1
        packed = self._packed_reset(worker, rows, request.detail)
        worker.ask(Request(worker, rows, Kind.RESET, packed, request.detail, is_reset=True))

    def _fault_info(self, row: int) -> dict[str, Any]:
        return {"fault": True, "fault_reason": self._reasons.pop(row)}

    def _last_of(self, row: int) -> Any:
        if self._block.observations is None:
            return deepcopy(self._slow_obs[row])
        return map_arrays(lambda array: array[0], self._block.observation_rows([row]))

    # ---- interrupts ------------------------------------------------------------------------------------

    def _abandon(self) -> None:
        """Forget what is under way, and replace the workers that are in doubt."""
        for worker in self._workers:
            if worker.is_in_doubt:
                self._fresh.update(range(worker.rows.start, worker.rows.stop))
                worker.replace()
        self._under_way.clear()
        self._ready.clear()
        self._failures.clear()

    def _check_open(self) -> None:
        if self.closed or self._workers[0].is_closed:
            raise ClosedError("the environments are closed", "make new ones")
