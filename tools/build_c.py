"""Compile the part in C with custom flags: `python tools/build_c.py FOLDER FLAG...`."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parent.parent / "src/arrayferry/_core/_speedups.c"


def build(folder: Path, *flags: str) -> Path:
    """Compile it into a folder, for the interpreter that runs this, and return the file."""
    built = folder / f"_speedups{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    # As system headers, because they may cause warnings of their own.
    headers = ["-isystem", sysconfig.get_path("include"), "-isystem", np.get_include()]
    late = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [*compiler, "-shared", "-fPIC", *flags, *late, *headers, str(SOURCE), "-o", str(built)]
    subprocess.run(command, check=True)
    return built


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:])
