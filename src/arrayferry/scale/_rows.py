"""The environments of a vector, as rows that are asked and have answered, or were lost with their worker."""

from __future__ import annotations

import pickle
import time
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from arrayferry._boundary.autoreset import final_of
from arrayferry.errors import WorkerError
from arrayferry.scale._block import Block, index_of, map_arrays
from arrayferry.scale._driver import ClosedError, Kind, Request, Worker, pack
from arrayferry.scale._line import POLL_SECONDS
from arrayferry.scale._pickling import Failure
from arrayferry.spaces.structure import has_fixed_shape

__all__ = ["Rows"]


class _Batch(VectorEnv[Any, Any, Any]):
    """So many environments, whose infos are stacked."""

    def add_info(self, infos: dict[str, Any], info: dict[str, Any], place: int) -> dict[str, Any]:
        """Add the info of one environment to those of the others."""
        return self._add_info(infos, info, place)


class Rows(_Batch):
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
    _is_async = False  # whether `recv` returns the first that are ready

    def _init_rows(self, max_faults: int) -> None:
        self._max_faults, self._needs_reset, self._waited, self._checked = max_faults, True, 0.0, 0.0
        self._all = range(self.num_envs)
        self._seeds: list[int | None] = [None] * self.num_envs
        self._asked: dict[int, Request] = {}  # what each row has not answered yet
        self._under_way = set[int]()  # asked, and not returned to the caller
        self._ready = deque[int]()  # answered, in this order
        self._infos = defaultdict[int, list[Any]](list)  # of the last answers; pickled or not
        self._failures: list[Exception] = []
        self._reasons: dict[int, str] = {}  # why a worker was replaced, where the caller does not know of it
        self._over = set[int]()  # by a fault, and only the caller resets them
        self._faults_in_a_row: dict[int, int] = {}
        self._fresh = set[int]()  # have answered nothing since the last of these faults
        self._slow_obs: list[Any] = [None] * self.num_envs  # of spaces without a fixed shape

    # ---- requests --------------------------------------------------------------------------------------

    def _parts(self, rows: Iterable[int]) -> Iterable[tuple[Worker, Sequence[int]]]:
        """Return which of some rows are asked together."""
        if rows is self._all:
            return [(worker, worker.rows) for worker in self._workers]
        parts = defaultdict[Worker, list[int]](list)
        for row in rows:
            parts[self._worker_of[row]].append(row)
        return parts.items()

    def _ask(self, requests: Iterable[Request]) -> None:
        for request in requests:
            request.missing = len(request.rows)
            for row in request.rows:
                self._asked[row] = request
            request.worker.ask(request)

    def _begin(self, rows: Sequence[int]) -> None:
        """Prepare rows for an answer: what they showed is left as it is, for the case of a fault."""
        self._under_way.update(rows)
        self._block.half[index_of(rows)] ^= 1
        for row in rows if self._infos else ():
            self._infos.pop(row, None)

    def _ask_step(self, rows: Sequence[int], actions: Mapping[int, Any] | None) -> None:
        """Ask for a step; the actions are in the block unless they are given, by row."""
        lost = [row for row in rows if row in self._reasons] if self._reasons else []
        requests = []
        for worker, part in self._parts([row for row in rows if row not in lost] if lost else rows):
            call = None if actions is None else pack("step", {row: actions[row] for row in part})
            requests.append(Request(worker, part, Kind.STEP, call))
        self._needs_reset = True
        self._begin(rows)
        self._ask(requests)
        for worker, part in self._parts(lost) if lost else ():
            self._tell_fault(Request(worker, part, Kind.STEP))

    def _ask_reset(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._begin(request.rows)
            for row in request.rows:
                if row in self._reasons:
                    self._infos[row] = [self._fault_info(row)]
            self._set_numbers(request.rows)
            self._over.difference_update(request.rows)
        self._ask(requests)

    def _reset_requests(
        self, rows: Iterable[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> list[Request]:
        requests = []
        for worker, part in self._parts(rows):
            given = {row: seeds[row] for row in part if seeds[row] is not None}
            requests.append(Request(worker, part, Kind.RESET, pack("reset", given, options)))
        return requests

    def _set_numbers(self, rows: Sequence[int], truncated: bool = False) -> None:
        block, index = self._block, index_of(rows)
        block.rewards[index], block.terminated[index], block.truncated[index] = 0, False, truncated

    # ---- answers ---------------------------------------------------------------------------------------

    @abstractmethod
    def _answers(self) -> tuple[list[int], dict[int, Any]]:
        """Return the rows that have answered, and the rest of some answers, or why that is lost."""

    @abstractmethod
    def _rest(self, missing: int, seconds: float) -> None:
        """Sleep until so many more rows may have answered, or workers been lost."""

    def _wait(self, count: int | None = None, until: float = float("inf")) -> None:
        """Wait until so many rows have answered, or all that were asked, or it is too late."""
        needs_reset, start = self._needs_reset, time.monotonic()
        if count is None and self._asked:  # nobody has answered yet
            self._rest(len(self._asked), POLL_SECONDS)
        while True:
            self._needs_reset = True
            self._take_answers()
            self._look_after_workers()
            missing = len(self._asked) if count is None else count - len(self._ready)
            if self._failures and (missing <= 0 or count is not None):
                raise self._failures[0]
            self._needs_reset = needs_reset
            now = time.monotonic()
            if missing <= 0 or now >= until:
                self._waited += now - start
                return
            self._rest(missing, min(POLL_SECONDS, until - now))

    def _take_answers(self) -> None:
        rows, rests = self._answers()
        for row, rest in rests.items():
            if isinstance(rest, str):
                self._worker_of[row].loss = rest
                rows.remove(row)
            else:
                self._take_rest(row, rest)
        if not rows:
            return
        self._block.asked[index_of(rows)] = -1
        self._ready.extend(rows)
        for row in rows if self._faults_in_a_row else ():
            self._count_no_fault(row, self._asked[row].kind)
        if len(rows) == len(self._asked):  # all that was asked
            self._asked.clear()
            for worker in self._workers:
                worker.requests.clear()
            return
        now = time.monotonic()
        for row in rows:
            request = self._asked.pop(row)
            request.missing -= 1
            request.worker.since = now
            if not request.missing:
                request.worker.finish(request)

    def _take_rest(self, row: int, rest: Any) -> None:
        request = self._asked[row]
        if request.kind is Kind.CALL:
            request.result = rest
        elif isinstance(rest, Failure):
            self._failures.append(rest.error)
        else:
            self._slow_obs[row], infos = rest
            self._infos[row] += infos

    def _count_no_fault(self, row: int, kind: Kind) -> None:
        """End a series of faults after a good step, but not after a successor's first reset."""
        if row in self._fresh and kind is not Kind.CALL:
            self._fresh.remove(row)
        elif kind is Kind.STEP:
            self._faults_in_a_row.pop(row, None)

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
        if not self._infos:
            return infos
        batch: _Batch = self
        if size != self.num_envs:
            batch = _Batch()
            batch.num_envs = size
        for place, row in places:  # one by one, in their order, so that the dtypes are Gymnasium's
            for info in self._infos.get(row, ()):
                info = pickle.loads(info) if isinstance(info, bytes) else info
                infos = batch.add_info(infos, info, place)
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
        requests, rows = list(worker.requests), worker.rows
        for request in requests:
            request.rows = [row for row in request.rows if self._asked.get(row) is request]
        self._fresh.update(rows)
        self._renew(worker)
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
            else:
                self._tell_fault(request)

    def _renew(self, worker: Worker) -> None:
        worker.replace(self._seeds, self._layer)
        for row in worker.rows:
            self._asked.pop(row, None)
        self._block.asked[index_of(worker.rows)] = -1

    def _tell_fault(self, request: Request) -> None:
        """Show the last observations again, as those of a fault; what is to be reset is asked again."""
        block, rows, reset = self._block, request.rows, request.call
        block.half[index_of(rows)] ^= 1
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
            reset = pack("reset", {}, None)
        block.half[index_of(rows)] ^= 1
        self._ask([Request(request.worker, rows, Kind.RESET, reset)])

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
            if worker.is_in_doubt or worker.requests:
                self._renew(worker)
        self._asked.clear()  # also of rows whose worker had not got the request yet
        self._under_way.clear()
        self._ready.clear()
        self._failures.clear()

    def _check_open(self) -> None:
        if self.closed or self._workers[0].is_closed:
            raise ClosedError("the environments are closed", "make new ones")
