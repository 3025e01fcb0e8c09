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

__all__ = ["POLL_SECONDS", "Line", "SharedMemory", "receive_memory"]

# How often, in seconds, a waiting driver checks whether the worker is still alive.
POLL_SECONDS = 0.02
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
        end.setblocking(False)

    def send(self, number: int, data: bytes, deadline: float = math.inf) -> None:
        """Send a message; raise a `TimeoutError` if it is not through by the deadline."""
        self.send_rest(_HEADER.pack(number, len(data)) + data, deadline)

    def send_at_once(self, number: int, data: bytes) -> bytes:
        """Send as much of a message as can be sent without waiting, and return the rest of it."""
        message = _HEADER.pack(number, len(data)) + data
        try:
            return message[self.socket.send(message) :]
        except BlockingIOError:
            return message

    def send_rest(self, rest: bytes, deadline: float = math.inf) -> None:
        """Send the rest of a message, or all of it, as `send` does."""
        self._set_timeout(deadline)
        self.socket.sendall(rest)
        self.socket.setblocking(False)

    def _set_timeout(self, deadline: float) -> None:
        """Let the socket wait until then; 0 would be not to wait at all."""
        self.socket.settimeout(None if deadline == math.inf else max(deadline - time.monotonic(), 1e-6))

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
            try:
                count = self.socket.recv_into(missing)
            except BlockingIOError:
                if is_last_try:
                    raise EOFError from None
                if (seconds := deadline - time.monotonic()) <= 0:
                    raise TimeoutError from None
                if is_alive is None:
                    connection.wait([self.socket])
                else:  # a dead one may have written in between
                    is_last_try = not (
                        connection.wait([self.socket], min(seconds, POLL_SECONDS)) or is_alive()
                    )
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
    """Map the memory that is sent."""
    connection.wait([line])
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
