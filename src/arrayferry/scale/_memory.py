"""Memory that a driver shares with its workers after they have started: only then is its size known."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
import tempfile
import uuid

__all__ = ["SharedMemory", "receive_memory"]

# Its size and, on Windows, its name.
_MESSAGE = struct.Struct("<q32s")


class SharedMemory:
    """A file without a name, or on Windows memory with one: nothing is left when nobody has mapped it."""

    def __init__(self, size: int) -> None:
        name = uuid.uuid4().hex
        self._message = _MESSAGE.pack(size, name.encode())
        if sys.platform == "win32":
            self.map = mmap.mmap(-1, size, tagname=name)
        else:
            self._file = _make_file()
            os.truncate(self._file, size)
            self.map = mmap.mmap(self._file, size)

    def send(self, line: socket.socket) -> None:
        """Let the process at the other end of a socket map it."""
        if sys.platform == "win32":
            line.sendall(self._message)
        else:
            socket.send_fds(line, [self._message], [self._file])

    def __del__(self) -> None:
        if sys.platform != "win32":
            os.close(self._file)


def receive_memory(line: socket.socket) -> mmap.mmap:
    """Map the memory that was sent."""
    if sys.platform == "win32":
        size, name = _MESSAGE.unpack(line.recv(_MESSAGE.size, socket.MSG_WAITALL))
        return mmap.mmap(-1, size, tagname=name.decode())
    data, [file], _, _ = socket.recv_fds(line, _MESSAGE.size, 1)
    try:
        return mmap.mmap(file, _MESSAGE.unpack(data)[0])
    finally:
        os.close(file)


def _make_file() -> int:
    if sys.platform == "linux":  # not limited to what /dev/shm holds, which may be little
        return os.memfd_create("arrayferry")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
