"""Compile the part in C with custom flags: `python tools/build_c.py FOLDER FLAG...`.

The folder is that of the package, or any other, in which the extensions get the folders that they have there.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np

PACKAGE = Path(__file__).parent.parent / "src/arrayferry"


def build(folder: Path, *flags: str) -> list[Path]:
    """Compile each extension into a folder, for the interpreter that runs this, and return the files."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    # As system headers, because they may cause warnings of their own.
    headers = ["-isystem", sysconfig.get_path("include"), "-isystem", np.get_include()]
    late = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    built = []
    for source in sorted(PACKAGE.rglob("*.c")):
        file = folder / source.relative_to(PACKAGE).with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX")))
        file.parent.mkdir(parents=True, exist_ok=True)
        command = [*compiler, "-shared", "-fPIC", *flags, *late, *headers, str(source), "-o", str(file)]
        subprocess.run(command, check=True)
        built.append(file)
    return built


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:])
