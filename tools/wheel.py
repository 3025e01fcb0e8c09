"""Build the sdist and the wheels, and install each of them into empty environments: `make wheel`.

For every Python, the sdist is installed without extras, and a wheel with some. Without a compiler, the sdist
installs without the part in C, and fails if that part is required. The pure wheel never has it.
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
NO_COMPILER = {"CC": "/bin/false", "PIP_NO_CACHE_DIR": "1"}  # pip caches what it builds from an sdist
REQUIRED = {"ARRAYFERRY_REQUIRE_SPEEDUPS": "1"}
PURE = {"ARRAYFERRY_PURE_WHEEL": "1"}
# By machine of release.yml: what cibuildwheel calls it, and what its wheels are for.
MACHINES = {
    "ubuntu-latest": ("linux", "x86_64", ["manylinux_x86_64", "musllinux_x86_64"]),
    "ubuntu-24.04-arm": ("linux", "aarch64", ["manylinux_aarch64", "musllinux_aarch64"]),
    "macos-latest": ("macos", "arm64", ["macosx_arm64"]),
    "macos-15-intel": ("macos", "x86_64", ["macosx_x86_64"]),
    "windows-latest": ("windows", "AMD64", ["win_amd64"]),
    "windows-11-arm": ("windows", "ARM64", ["win_arm64"]),
}
BUILT = re.compile(r"\.(so|pyd|dylib)$")
BEGIN = time.monotonic()


def main() -> int:
    """Do all of it, and return 0 if everything worked."""
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
        check_release()
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        (ROOT / "dist").mkdir()
        for file in [sdist, pure, *wheels]:
            shutil.copy(file, ROOT / "dist")
    say("in dist/: " + ", ".join(sorted(file.name for file in (ROOT / "dist").iterdir())))
    return 0


def find_pythons() -> list[str]:
    """Return one interpreter for each version that is installed, from the path or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = []
    for minor in [*range(10, 20), *(f"{minor}t" for minor in range(14, 20))]:  # t: free-threaded
        there = [
            shutil.which(f"python3.{minor}"),
            *sorted(pyenv.glob(f"3.{minor}.*/bin/python"), reverse=True),
        ]
        found += [next((str(one) for one in there if one and is_python(one)), "")]
    return [one for one in found if one]


def is_python(command: str | Path) -> bool:
    """Return whether this is an interpreter, and not the shim of one that is not active."""
    return subprocess.run([command, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def say(text: str) -> None:
    """Print what was done, and when."""
    print(f"[{time.monotonic() - BEGIN:3.0f} s] {text}", flush=True)


def run(*command: str | Path, env: Mapping[str, str] = NOTHING, fails: bool = False) -> str:
    """Run a command outside the repository and return its output; show it and exit if things go wrong."""
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
    """Build the sdist and, from it, the pure wheel; check what is in them."""
    run(sys.executable, "-m", "build", "-q", "--outdir", dist, ROOT, env=PURE)
    [sdist], [pure] = dist.glob("*.tar.gz"), dist.glob("*.whl")
    check_sdist(names_in(sdist))
    check_wheel(names_in(pure), speedups=False)
    assert pure.name.endswith("-py3-none-any.whl"), pure.name
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, pure)
    say(f"built and checked: {sdist.name}, {pure.name}")
    return sdist, pure


def names_in(file: Path) -> set[str]:
    """Return the names of the files in an sdist, without its top folder, or in a wheel."""
    if file.suffix == ".whl":
        return set(zipfile.ZipFile(file).namelist())
    with tarfile.open(file) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def sources() -> set[str]:
    """Return what a wheel has besides its metadata and the part in C."""
    files = {file.relative_to(ROOT / "src").as_posix() for file in (ROOT / "src/arrayferry").rglob("*")}
    return {name for name in files if name.endswith((".py", ".md", "/py.typed"))}


def check_sdist(names: set[str]) -> None:
    """Check for everything needed to build and test, and for nothing that was built."""
    needed = {f"src/{name}" for name in sources()} | {
        "src/arrayferry/_core/_speedups.c",
        "src/arrayferry/envs/_words.c",
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
    """Check for the package, its metadata, the part in C or not, and nothing else: no tests, no C sources."""
    found = {name for name in names if ".dist-info/" not in name}
    compiled = {name for name in found if BUILT.search(name)}
    assert found - compiled == sources(), (
        f"the wheel and the sources differ in {(found - compiled) ^ sources()}"
    )
    modules = {"arrayferry/_core/_speedups", "arrayferry/envs/_words"} if speedups else set()
    is_complete = {name.partition(".")[0] for name in compiled} == modules and len(compiled) == len(modules)
    assert is_complete, f"the wheel has {compiled or 'no part in C'}"
    assert any(name.endswith("/licenses/LICENSE") for name in names), "the wheel has no license"


def install_each(python: str, sdist: Path, pure: Path, work: Path, extras: str) -> list[Path]:
    """Install the sdist, the pure wheel and a wheel in one Python; return the last, which is built here."""
    inside = environment(python, work / "plain")
    try_out(inside, sdist, "yes")
    run(inside, "-m", "pip", "install", "-q", "setuptools>=77")  # NumPy is there: it is not fetched again
    options = ["-q", "--no-deps", "--no-build-isolation", "-w", str(work)]
    run(inside, "-m", "pip", "wheel", *options, sdist, env=REQUIRED)
    [wheel] = work.glob("*.whl")
    check_wheel(names_in(wheel), speedups=True)
    try_out(inside, pure, "no")
    try_out(environment(python, work / "extras"), wheel, "yes", extras)
    return [wheel]


def without_compiler(python: str, sdist: Path, work: Path) -> list[Path]:
    """Check that, without a compiler, the sdist installs, unless the part in C is required."""
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


def check_release() -> None:
    """Check that a release has a wheel for each Python in pyproject.toml, on every platform."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    minors = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)
    tags = [f"cp3{minor}" for minor in minors] + [f"cp3{minor}t" for minor in minors if int(minor) >= 14]
    [machines] = re.findall(r"os: \[(.+)\]", (ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    assert set(machines.split(", ")) == set(MACHINES), (
        "release.yml builds on other machines than MACHINES has"
    )
    planned: set[str] = set()
    for platform, architecture, _ in MACHINES.values():
        options = "--platform", platform, "--archs", architecture, "--print-build-identifiers"
        planned.update(run(sys.executable, "-m", "cibuildwheel", *options, ROOT).split())
    platforms = [one for _, _, there in MACHINES.values() for one in there]
    missing = {f"{tag}-{platform}" for tag in tags for platform in platforms} - planned
    assert missing == {"cp310-win_arm64"}, f"a release has no wheels for {missing}"  # NumPy has none, either
    say(f"a release has wheels for {', '.join(tags)} on {', '.join(platforms)}, but for cp310-win_arm64")


if __name__ == "__main__":
    sys.exit(main())
