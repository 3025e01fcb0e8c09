"""What a driver and a worker share: a line, through which numbered messages go, and memory."""

from __future__ import annotations

import math
import mmap
import os
import socket
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

__all__ = ["POLL_SECONDS", "Bell", "Line", "SharedMemory", "receive_memory"]

# How often, in seconds, a waiting driver checks whether the worker is still alive.
POLL_SECONDS = 0.02
# macOS cannot say how often a semaphore was released.
_COUNTS = sys.platform != "darwin"
# The number of a request, and the size of what follows.
_HEADER = struct.Struct("<qq")
# The size of the memory and, on Windows, its name.
_MEMORY = struct.Struct("<q32s")


class Line:
    """One end of a socket pair. A message carries the number of the request that it belongs to.

    With a deadline, nothing waits longer than that, even in the middle of a message; after a `TimeoutError`,
    the line is of no more use.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def send(self, number: int, data: bytes, deadline: float = math.inf) -> None:
        """Send a message; raise a `TimeoutError` if it is not through by the deadline."""
        self.socket.settimeout(_seconds_until(deadline))
        self.socket.sendall(_HEADER.pack(number, len(data)) + data)

    def receive(
        self, deadline: float = math.inf, is_alive: Callable[[], bool] | None = None
    ) -> tuple[int, bytearray]:
        """Return the next message and its number.

        Raises a `TimeoutError` at the deadline, and an `EOFError` when the other end is closed, or whoever
        has it `is_alive` no more: another process may have inherited it, and keep it open.
        """
        number, size = _HEADER.unpack(self._read(_HEADER.size, deadline, is_alive))
        return number, self._read(size, deadline, is_alive)

    def _read(self, size: int, deadline: float, is_alive: Callable[[], bool] | None) -> bytearray:
        data = bytearray(size)
        missing, is_last_try = memoryview(data), False
        while missing:
            wait = _seconds_until(deadline)
            if wait is not None and is_alive is not None:
                wait = 0.0 if is_last_try else min(wait, POLL_SECONDS)
            self.socket.settimeout(wait)
            try:
                count = self.socket.recv_into(missing)
            except (TimeoutError, BlockingIOError):
                if is_last_try:
                    raise EOFError from None
                if time.monotonic() >= deadline:
                    raise TimeoutError from None
                is_last_try = is_alive is not None and not is_alive()  # it may have written in between
                continue
            if not count:
                raise EOFError
            missing = missing[count:]
        return data

    def has_message(self) -> bool:
        """Return whether there is something to read, or the other end is closed."""
        return bool(connection.wait([self.socket], 0))

    def close(self) -> None:
        """Close this end."""
        self.socket.close()


def _seconds_until(deadline: float) -> float | None:
    """Return a timeout for a socket: None to wait forever, and never 0, which would be not to wait at all."""
    return None if deadline == math.inf else max(deadline - time.monotonic(), 1e-6)


class Bell:
    """Wakes a driver when as many workers have answered as it waits for.

    It may ring too early, and never tells who has answered.
    """

    def __init__(self, context: Any) -> None:
        self._count, self._wake = context.Semaphore(0), context.Semaphore(0)
        self._wanted = context.RawValue("q", 1)

    def ring(self) -> None:
        """Tell, in a worker, that it has answered."""
        self._count.release()
        if not _COUNTS or self._count.get_value() >= self._wanted.value:
            self._wake.release()

    def listen(self) -> None:
        """Forget who has rung; what is answered from now on is not missed, even before `rest` is called."""
        self._wanted.value = 1
        for semaphore in (self._count, self._wake):
            while semaphore.acquire(block=False):
                pass

    def rest(self, missing: int, seconds: float) -> None:
        """Wait until so many more have rung."""
        self._wanted.value = missing
        self._wake.acquire(timeout=seconds)


class SharedMemory:
    """A file without a name, or on Windows memory with one: nothing is left when nobody has mapped it.

    It is shared with workers that have already started: only then is its size known.
    """

    def __init__(self, size: int) -> None:
        self._message, self._file = _MEMORY.pack(size, uuid.uuid4().hex.encode()), _make_file(size)
        self.map = _map(self._message, self._file)

    def send(self, line: socket.socket) -> None:
        """Let the process at the other end of a socket map it."""
        if sys.platform == "win32":
            line.sendall(self._message)
        else:
            socket.send_fds(line, [self._message], [self._file])

    def __del__(self) -> None:
        os.close(self._file)


def receive_memory(line: socket.socket) -> mmap.mmap:
    """Map the memory that was sent."""
    if sys.platform == "win32":
        return _map(line.recv(_MEMORY.size, socket.MSG_WAITALL), -1)
    message, [file], _, _ = socket.recv_fds(line, _MEMORY.size, 1)
    try:
        return _map(message, file)
    finally:
        os.close(file)


def _map(message: bytes, file: int) -> mmap.mmap:
    size, name = _MEMORY.unpack(message)
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=name.decode())
    return mmap.mmap(file, size)


def _make_file(size: int) -> int:
    if hasattr(os, "memfd_create"):  # not limited to what /dev/shm holds, which may be little
        file = os.memfd_create("arrayferry")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.truncate(file, size)
    return file
