"""Build the sdist and the wheels, and install each of them into empty environments: `make wheel`.

For every Python, the sdist is installed without extras, and a wheel with some; without a compiler, the sdist
installs without the part in C, and where that is required, it does not. The pure wheel has none.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTHING: dict[str, str] = {}
NO_COMPILER = {"CC": "/bin/false", "PIP_NO_CACHE_DIR": "1"}  # pip keeps what it built from an sdist
REQUIRED = {"ARRAYFERRY_REQUIRE_SPEEDUPS": "1"}
PURE = {"ARRAYFERRY_PURE_WHEEL": "1"}
BUILT = re.compile(r"\.(so|pyd|dylib)$")
BEGIN = time.monotonic()


def main() -> int:
    """Do all of it; the exit code is 0 if all of it worked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=find_pythons(), help="the interpreters (default: all)")
    parser.add_argument("--extras", default="jax", help="those that the wheels are installed with")
    parser.add_argument("--workers", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arrayferry-") as folder:
        work = Path(folder)
        sdist, pure = build(work / "dist")
        with ThreadPoolExecutor(arguments.workers) as pool:
            jobs = [
                pool.submit(install_each, python, sdist, pure, work / f"python{number}", arguments.extras)
                for number, python in enumerate(arguments.pythons)
            ]
            jobs.append(pool.submit(without_compiler, arguments.pythons[0], sdist, work / "no-compiler"))
            wheels = [wheel for job in jobs for wheel in job.result()]
        audit(wheels)
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        (ROOT / "dist").mkdir()
        for file in [sdist, pure, *wheels]:
            shutil.copy(file, ROOT / "dist")
    say("in dist/: " + ", ".join(sorted(file.name for file in (ROOT / "dist").iterdir())))
    return 0


def find_pythons() -> list[str]:
    """Return one interpreter of each version that there is, from the path or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = []
    for minor in range(10, 20):
        there = [
            shutil.which(f"python3.{minor}"),
            *sorted(pyenv.glob(f"3.{minor}.*/bin/python"), reverse=True),
        ]
        found += [next((str(one) for one in there if one and is_python(one)), "")]
    return [one for one in found if one]


def is_python(command: str | Path) -> bool:
    """Return whether this is an interpreter, and not the stub of one that is switched off."""
    return subprocess.run([command, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def say(text: str) -> None:
    """Print what was done, and when."""
    print(f"[{time.monotonic() - BEGIN:3.0f} s] {text}", flush=True)


def run(*command: str | Path, env: Mapping[str, str] = NOTHING, fails: bool = False) -> str:
    """Run a command outside the repository, and return what it printed; it is shown if all goes wrong."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **env}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [*map(str, command)],
        cwd=tempfile.gettempdir(),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if (done.returncode != 0) != fails:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}exit code {done.returncode}")
    return done.stdout + done.stderr


def build(dist: Path) -> tuple[Path, Path]:
    """Build the sdist and, from it, the pure wheel; look at what is in them."""
    run(sys.executable, "-m", "build", "-q", "--outdir", dist, ROOT, env=PURE)
    [sdist], [pure] = dist.glob("*.tar.gz"), dist.glob("*.whl")
    check_sdist(names_in(sdist))
    check_wheel(names_in(pure), speedups=False)
    assert pure.name.endswith("-py3-none-any.whl"), pure.name
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, pure)
    say(f"built and checked: {sdist.name}, {pure.name}")
    return sdist, pure


def names_in(file: Path) -> set[str]:
    """Return the names of the files in an sdist, without its folder, or in a wheel."""
    if file.suffix == ".whl":
        return set(zipfile.ZipFile(file).namelist())
    with tarfile.open(file) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def sources() -> set[str]:
    """Return what a wheel has besides its metadata and the part in C."""
    files = {file.relative_to(ROOT / "src").as_posix() for file in (ROOT / "src/arrayferry").rglob("*")}
    return {name for name in files if name.endswith((".py", ".md", "/py.typed"))}


def check_sdist(names: set[str]) -> None:
    """Everything to build and test it, and nothing that was built."""
    needed = {f"src/{name}" for name in sources()} | {
        "src/arrayferry/_core/_speedups.c",
        "LICENSE",
        "setup.py",
    }
    needed |= {
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "constraints.txt",
        "tests/conftest.py",
        "tools/smoke.py",
    }
    assert not (missing := needed - names), f"the sdist lacks {missing}"
    assert not (built := [name for name in names if BUILT.search(name)]), f"the sdist has {built}"


def check_wheel(names: set[str], speedups: bool) -> None:
    """The package and its metadata, the part in C or not, and nothing else: no tests, no sources in C."""
    found = {name for name in names if ".dist-info/" not in name}
    compiled = {name for name in found if BUILT.search(name)}
    assert found - compiled == sources(), (
        f"the wheel and the sources differ in {(found - compiled) ^ sources()}"
    )
    assert len(compiled) == speedups, f"the wheel has {compiled or 'no part in C'}"
    assert all(name.startswith("arrayferry/_core/_speedups.") for name in compiled), compiled
    assert any(name.endswith("/licenses/LICENSE") for name in names), "the wheel has no license"


def install_each(python: str, sdist: Path, pure: Path, work: Path, extras: str) -> list[Path]:
    """Install the sdist, the pure wheel and a wheel in one Python; return the last, which is built here."""
    inside = environment(python, work / "plain")
    try_out(inside, sdist, "yes")
    run(inside, "-m", "pip", "install", "-q", "setuptools>=77")  # NumPy is there, so nothing is fetched again
    options = ["-q", "--no-deps", "--no-build-isolation", "-w", str(work)]
    run(inside, "-m", "pip", "wheel", *options, sdist, env=REQUIRED)
    [wheel] = work.glob("*.whl")
    check_wheel(names_in(wheel), speedups=True)
    try_out(inside, pure, "no")
    try_out(environment(python, work / "extras"), wheel, "yes", extras)
    return [wheel]


def without_compiler(python: str, sdist: Path, work: Path) -> list[Path]:
    """Without a compiler, the sdist installs; unless the part in C is required."""
    inside = environment(python, work)
    try_out(inside, sdist, "no", env=NO_COMPILER)
    run(inside, "-m", "pip", "install", "-q", "setuptools>=77")
    options = ["--no-deps", "--no-build-isolation", "-w", str(work)]
    told = run(inside, "-m", "pip", "wheel", *options, sdist, env=NO_COMPILER | REQUIRED, fails=True)
    assert "the part in C was not built, and ARRAYFERRY_REQUIRE_SPEEDUPS=1 requires it" in told, told
    say("without a compiler, a build that requires the part in C fails")
    return []


def environment(python: str, folder: Path) -> Path:
    """Return the interpreter of a new, empty virtual environment."""
    run(python, "-m", "venv", folder)
    return folder / "bin/python"


def try_out(
    python: Path, file: Path, speedups: str, extras: str = "", env: Mapping[str, str] = NOTHING
) -> None:
    """Install a file into an environment, and run the smoke test there."""
    what = f"{file}[{extras}]" if extras else str(file)
    options = ["-q", "--force-reinstall", "--no-deps"] if (python.parent / "arrayferry").exists() else ["-q"]
    run(python, "-m", "pip", "install", *options, "-c", ROOT / "constraints.txt", what, env=env)
    frameworks = ["numpy", *(["jax"] if "jax" in extras else [])]
    version = file.name.split("-")[1].removesuffix(".tar.gz")
    told = run(python, ROOT / "tools/smoke.py", *frameworks, "--version", version, "--speedups", speedups)
    kind = "sdist" if file.suffix == ".gz" else "pure wheel" if "none-any" in file.name else "wheel"
    say(f"{kind}: {told.strip()}")


def audit(wheels: list[Path]) -> None:
    """Check with twine and auditwheel; only Linux has the latter."""
    run(sys.executable, "-m", "twine", "check", "--strict", *wheels)
    for wheel in wheels if sys.platform == "linux" else []:
        told = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
        [tag] = re.findall(r'following platform tag: "(\w+)"', told)
        assert tag.startswith(("manylinux", "musllinux")), told
        say(f"{wheel.name}: {tag}")


if __name__ == "__main__":
    sys.exit(main())
