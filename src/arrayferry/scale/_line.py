"""A line between a driver and a worker, through which numbered messages go."""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Callable

__all__ = ["POLL_SECONDS", "Line"]

# How often, in seconds, a waiting driver checks whether the worker is still alive.
POLL_SECONDS = 0.02
# The number of a request, and the size of what follows.
_HEADER = struct.Struct("<qq")


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

    def close(self) -> None:
        """Close this end."""
        self.socket.close()


def _seconds_until(deadline: float) -> float | None:
    """Return a timeout for a socket: None to wait forever, and never 0, which would be not to wait at all."""
    return None if deadline == math.inf else max(deadline - time.monotonic(), 1e-6)
