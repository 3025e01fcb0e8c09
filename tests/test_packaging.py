"""What is packaged, what the switches of setup.py do, what a release needs; cibuildwheel tries the wheels."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import setuptools
from packaging.requirements import Requirement

import arrayferry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOME = "https://example.org/someone/arrayferry"
BUILD = "import sys, setuptools.build_meta as b; to = sys.argv[1]; b.build_sdist(to); b.build_wheel(to)"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copied(source: Path, to: Path) -> Path:
    ignore = shutil.ignore_patterns(".*", "_build", "build", "dist", "*.egg-info", "__pycache__", "results")
    return Path(shutil.copytree(source, to, ignore=ignore))


def build(folder: Path, source: Path = ROOT) -> tuple[Path, Path]:
    """Build an sdist and a pure wheel of a copy; return them."""
    environment = {**os.environ, "ARRAYFERRY_PURE_WHEEL": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=copied(source, folder / "copy"),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("without an address"))


COMPILED = re.compile(r"\.(so|pyd|dylib)$")


def sources() -> set[str]:
    """What a wheel has besides its metadata and the part in C."""
    files = {file.relative_to(ROOT / "src").as_posix() for file in (ROOT / "src").rglob("*")}
    return {name for name in files if name.endswith((".py", ".md", "/py.typed")) and ".egg-info/" not in name}


def test_what_is_in_the_wheel(built: tuple[Path, Path]) -> None:
    assert built[1].name == f"arrayferry-{arrayferry.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(built[1]).namelist())
    assert {name for name in names if ".dist-info/" not in name} == sources()
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_what_is_in_the_sdist(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    needed = {f"src/{name}" for name in sources()} | {
        file.relative_to(ROOT).as_posix() for file in (ROOT / "src").rglob("*.c")
    }
    needed |= {"LICENSE", "README.md", "pyproject.toml", "setup.py", "tests/conftest.py", "tools/smoke.py"}
    assert needed <= names
    assert [name for name in names if COMPILED.search(name)] == []


def test_metadata_name_no_address_and_nothing_that_only_development_needs(built: tuple[Path, Path]) -> None:
    found = metadata(built[1])
    assert found["Version"] == arrayferry.__version__
    assert found.get_all("Project-URL") is None
    assert found["Home-page"] is None
    assert found.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(found.get_all("Provides-Extra")) == set(PYPROJECT["project"]["optional-dependencies"])
    required = {Requirement(line).name for line in found.get_all("Requires-Dist")}
    assert not required & {"build", "hypothesis", "mypy", "pytest", "ruff", "sphinx", "twine"}


def test_with_an_address_links_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The forms of links that tools/set_address.py does not handle:
    assert not re.search(
        r"^\[[^\]]+\]:|\]\((\.\.|/|<)|(src|href)='", (ROOT / "README.md").read_text("utf-8"), re.M
    )
    monkeypatch.syspath_prepend(ROOT / "tools")  # for release_check
    copy = copied(ROOT, tmp_path / "source")
    tool("set_address").set_address(copy, f"{HOME}/")
    sdist, wheel = build(tmp_path, copy)
    found = metadata(wheel)
    urls = dict(line.split(", ") for line in found.get_all("Project-URL"))
    assert urls["Source"] == HOME
    assert urls["Changelog"] == f"{HOME}/blob/v{arrayferry.__version__}/CHANGELOG.md"
    text = found.get_payload()
    links = re.findall(r"\]\(([^)\s]+)|\b(?:src|srcset|href)=\"([^\"]+)", text)
    assert len(links) > 5
    assert [link for pair in links for link in pair if link and not link.startswith(("https://", "#"))] == []
    assert f"({HOME}/raw/v{arrayferry.__version__}/docs/images/" in text or "images" not in text
    assert f"{HOME}/actions/workflows/ci.yml/badge.svg" in text
    again = tmp_path / "again"
    shutil.unpack_archive(sdist, again, filter="data")
    [source] = again.iterdir()
    assert metadata(build(again, source)[1]).get_all("Project-URL") == found.get_all("Project-URL")


def arguments_of_setup(monkeypatch: pytest.MonkeyPatch, **env: str) -> Any:
    for name in "REQUIRE_SPEEDUPS", "PURE_WHEEL":
        monkeypatch.delenv(f"ARRAYFERRY_{name}", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    told: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: told.update(arguments))
    runpy.run_path(str(ROOT / "setup.py"))
    return told


def test_the_part_in_c_is_optional_required_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    in_c = {file.relative_to(ROOT).as_posix() for file in (ROOT / "src").rglob("*.c")}
    extensions = arguments_of_setup(monkeypatch)["ext_modules"]
    assert {(extension.sources[0], extension.optional) for extension in extensions} == {
        (c, True) for c in in_c
    }
    extensions = arguments_of_setup(monkeypatch, ARRAYFERRY_REQUIRE_SPEEDUPS="1")["ext_modules"]
    assert {(extension.sources[0], extension.optional) for extension in extensions} == {
        (c, False) for c in in_c
    }
    assert arguments_of_setup(monkeypatch, ARRAYFERRY_PURE_WHEEL="1")["ext_modules"] == []
    with pytest.raises(SystemExit, match="leaves out what"):
        arguments_of_setup(monkeypatch, ARRAYFERRY_PURE_WHEEL="1", ARRAYFERRY_REQUIRE_SPEEDUPS="true")


@pytest.mark.parametrize("required", ["0", "1"])
def test_a_build_without_a_compiler(monkeypatch: pytest.MonkeyPatch, required: str) -> None:
    told = arguments_of_setup(monkeypatch, ARRAYFERRY_REQUIRE_SPEEDUPS=required)

    def fail(*_: Any) -> None:
        raise RuntimeError("no compiler")

    [parent] = told["cmdclass"]["build_ext"].__bases__
    monkeypatch.setattr(parent, "build_extension", fail)
    command = told["cmdclass"]["build_ext"](setuptools.Distribution())
    error, message = (
        (SystemExit, "REQUIRE_SPEEDUPS=1 requires it: no compiler")
        if required == "1"
        else (RuntimeError, "no")
    )
    with pytest.raises(error, match=message):
        command.build_extension(told["ext_modules"][0])


def test_the_version_stands_in_one_place() -> None:
    text = re.compile(rf"(version|release)[_\W]+{re.escape(arrayferry.__version__)}\b", re.IGNORECASE)
    files = [*ROOT.glob("*.toml"), *ROOT.glob("*.cff"), ROOT / "setup.py", ROOT / "docs/conf.py"]
    files += (ROOT / "src").rglob("*.py")
    found = [
        file.relative_to(ROOT).as_posix() for file in files if text.search(file.read_text(encoding="utf-8"))
    ]
    assert found == ["src/arrayferry/__init__.py"]


def test_no_address_of_ours_is_written_down() -> None:
    assert "urls" not in PYPROJECT["project"]
    for file in [*ROOT.glob("*.md"), *ROOT.glob("*.cff"), *ROOT.glob("docs/*.md"), ROOT / "setup.py"]:
        assert not re.search(r"https?://[^\s)>]*arrayferry", file.read_text(encoding="utf-8")), file.name


# --- floors


def floors(*extras: str) -> dict[str, str]:
    """What pyproject.toml asks for at least, for this platform."""
    project = PYPROJECT["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    found = [
        requirement
        for requirement in map(Requirement, lines)
        if not requirement.marker or requirement.marker.evaluate()
    ]
    return {one.name: str(one.specifier).removeprefix(">=") for one in found}


def test_the_oldest_versions_are_those_that_are_tested() -> None:
    text = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8")
    tested = dict(re.findall(r"^(\S+)==(\S+)$", text, re.MULTILINE))
    assert tested.pop("jaxlib") == tested["jax"]
    assert tested == floors("jax", "torch", "dask", "sparse", "strict", "mlx", "cli")


def test_what_is_imported_in_any_case_is_declared() -> None:
    program = "import sys, arrayferry.scale, arrayferry.sanitizer, arrayferry.testing; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"^(?:import|from) (\w+)", sources, re.MULTILINE))
    used = (imported & named) - {*sys.stdlib_module_names, "arrayferry"}
    declared = {Requirement(line).name.replace("-", "_") for line in PYPROJECT["project"]["dependencies"]}
    assert used <= declared


def test_the_classifiers_claim_no_more_than_is_tested() -> None:
    classifiers = PYPROJECT["project"]["classifiers"]
    assert "Operating System :: OS Independent" not in classifiers
    systems = {"ubuntu": "POSIX :: Linux", "macos": "MacOS", "windows": "Microsoft :: Windows"}
    tested = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    claimed = {one for one in classifiers if one.startswith("Operating System")}
    assert claimed == {f"Operating System :: {one}" for name, one in systems.items() if f"{name}-" in tested}


def test_each_row_of_make_test_with_is_run_by_ci_and_named_by_its_marker() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    rows = set(re.findall(r"^ROWS := (.*)", makefile, re.MULTILINE)[0].split())
    in_make_ci = re.findall(r"for name in ([\w -]+); do step test-with", makefile)[0].split()
    assert {*in_make_ci, *re.findall(r"test-with NAME=([\w-]+)", workflow)} == rows
    markers = [line.partition(":") for line in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]]
    named = {marker: re.findall(r"test-with NAME=([\w-]+)", text) for marker, _, text in markers}
    assert all(
        rows == [marker.replace("_", "-")] for marker, rows in named.items() if rows and "(" not in marker
    )


# --- tools/release_check.py


@pytest.mark.parametrize(
    ("tag", "heading", "problem"),
    [
        ("v1.2.3", "## [1.2.3] - 2030-01-02", None),
        ("v1.2.3", "Nothing has been released yet.\n## [1.2.3] - 2030-01-02", "remove that line"),
        ("v1.2.4", "## [1.2.3] - 2030-01-02", "tag v1.2.3"),
        ("", "## [1.2.3] - 2030-01-02", "the tag is missing"),
        ("v1.2.3", "## [Unreleased]", "CHANGELOG.md has no heading"),
    ],
)
def test_what_keeps_a_release_back(tag: str, heading: str, problem: str | None) -> None:
    found = tool("release_check").problems(tag, "1.2.3", f"# Changelog\n\n{heading}\n", "")
    assert [problem in one for one in found if problem] == ([True] if problem else [])
    assert bool(found) == bool(problem)


def test_a_readme_that_knows_of_no_release_keeps_one_back() -> None:
    arguments = "v1.2.3", "1.2.3", "## [1.2.3] - 2030-01-02"
    [found] = tool("release_check").problems(*arguments, (ROOT / "README.md").read_text(encoding="utf-8"))
    assert "There is no release yet" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "README.md" in found


def test_the_checks_read_the_same_version() -> None:
    assert tool("release_check").read_version() == arrayferry.__version__


def test_the_changelog_keeps_its_form() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    versions = [line for line in lines if line.startswith("## ")]
    assert versions[0] == "## [Unreleased]"
    assert all(re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line) for line in versions[1:])
    kinds = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
