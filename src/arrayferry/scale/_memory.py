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

_SIZE = struct.Struct("<q")
_NAME_SIZE = 32  # of a UUID in hexadecimal digits

if sys.platform == "win32":

    class SharedMemory:
        """Memory with a name of its own, which vanishes with the last process that has mapped it."""

        def __init__(self, size: int) -> None:
            self._name, self.size = uuid.uuid4().hex, size
            self.map = mmap.mmap(-1, size, tagname=self._name)

        def send(self, line: socket.socket) -> None:
            """Let the process at the other end of a socket map it."""
            line.sendall(_SIZE.pack(self.size) + self._name.encode())

    def receive_memory(line: socket.socket) -> mmap.mmap:
        """Map the memory that was sent."""
        (size,) = _SIZE.unpack(line.recv(_SIZE.size, socket.MSG_WAITALL))
        return mmap.mmap(-1, size, tagname=line.recv(_NAME_SIZE, socket.MSG_WAITALL).decode())

else:

    class SharedMemory:
        """A file without a name, so that nothing is left of it when nobody has it open."""

        def __init__(self, size: int) -> None:
            self.size, self._file = size, _make_file()
            os.truncate(self._file, size)
            self.map = mmap.mmap(self._file, size)

        def send(self, line: socket.socket) -> None:
            """Let the process at the other end of a socket map it."""
            socket.send_fds(line, [_SIZE.pack(self.size)], [self._file])

        def __del__(self) -> None:
            os.close(self._file)

    def receive_memory(line: socket.socket) -> mmap.mmap:
        """Map the memory that was sent."""
        data, [file], _, _ = socket.recv_fds(line, _SIZE.size, 1)
        try:
            return mmap.mmap(file, *_SIZE.unpack(data))
        finally:
            os.close(file)

    def _make_file() -> int:
        if hasattr(os, "memfd_create"):  # not limited to what /dev/shm holds, which may be little
            return os.memfd_create("arrayferry")
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
