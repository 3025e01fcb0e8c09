"""The user's script, which the server that forks workers imports once, so that they need not.

Python's own way, `"__main__"` in `set_forkserver_preload`, has no effect before Python 3.14.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import process, spawn
from typing import Any

from arrayferry._frameworks.jax import has_started

__all__ = ["handing_over_script", "import_script"]

# The environment variable that has what the server needs to know.
_VARIABLE = "ARRAYFERRY_SCRIPT"
_NEEDED = ("sys_path", "sys_argv", "orig_dir", "dir", "init_main_from_name", "init_main_from_path")


@contextmanager
def handing_over_script() -> Iterator[None]:
    """Let a server that is started within this context know the script."""
    data = spawn.get_preparation_data("")
    os.environ[_VARIABLE] = json.dumps({name: data[name] for name in _NEEDED if name in data})
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def import_script() -> None:
    """Import the script in the server as a worker would, which then finds it imported.

    What it raises, it raises in the workers, too. A fork would lose threads, and break JAX and CUDA once they
    have started: then the server starts again, without the script.
    """
    if (data := os.environ.pop(_VARIABLE, None)) is None:
        return
    current: Any = process.current_process()
    current._inheriting = True  # as in a worker: whoever starts processes now has forgotten the guard
    with suppress(BaseException):
        spawn.prepare(json.loads(data))
    del current._inheriting
    torch: Any = sys.modules.get("torch")
    has_cuda = torch is not None and torch.cuda.is_initialized()
    if has_cuda or has_started() or threading.active_count() > 1:
        os.execv(sys.executable, sys.orig_argv)
