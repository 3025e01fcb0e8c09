"""What pyproject.toml cannot express: the part in C, and the project's address when it is released.

Environment variables:
    ARRAYFERRY_REQUIRE_SPEEDUPS=1: a build without the part in C fails, as it must for wheels. By default
        that part is left out if there is no compiler; everything works without it, but more slowly.
    ARRAYFERRY_PURE_WHEEL=1: always leave it out, for a wheel that works with any Python.
    ARRAYFERRY_HOME: the address of the repository, `https://...`. The project's URLs and the absolute
        links in the README are built from it; without it, there are none.
"""

import os
import re
from pathlib import Path

import setuptools
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
HOME = os.environ.get("ARRAYFERRY_HOME", "").rstrip("/")
PURE = os.environ.get("ARRAYFERRY_PURE_WHEEL", "") not in ("", "0")
REQUIRED = os.environ.get("ARRAYFERRY_REQUIRE_SPEEDUPS", "") not in ("", "0")
[VERSION] = re.findall(
    '^__version__ = "(.+)"', (HERE / "src/arrayferry/__init__.py").read_text("utf-8"), re.M
)

if PURE and REQUIRED:
    raise SystemExit("arrayferry: ARRAYFERRY_PURE_WHEEL leaves out what ARRAYFERRY_REQUIRE_SPEEDUPS requires")
if not HOME and (HERE / "PKG-INFO").exists():  # a released sdist keeps its address
    HOME = "".join(re.findall("^Project-URL: Source, (.+)$", (HERE / "PKG-INFO").read_text("utf-8"), re.M))


class BuildSpeedups(build_ext):
    """Build the part in C, or say why a build that requires it fails."""

    def build_extension(self, ext):
        """Build one extension."""
        try:
            super().build_extension(ext)
        except Exception as error:
            if REQUIRED:
                why = f"the part in C was not built, and ARRAYFERRY_REQUIRE_SPEEDUPS=1 requires it: {error}"
                raise SystemExit(f"arrayferry: {why}") from error
            raise  # `optional` makes this a warning


def speedups():
    """Return the extensions, or nothing for a pure wheel."""
    if PURE:
        return []
    import numpy

    options = {"include_dirs": [numpy.get_include()], "optional": not REQUIRED}
    names = "arrayferry._core._speedups", "arrayferry.envs._words"
    return [setuptools.Extension(name, [f"src/{name.replace('.', '/')}.c"], **options) for name in names]


def urls():
    """Return the project's URLs."""
    at_version = f"{HOME}/blob/v{VERSION}"
    return HOME and {
        "Source": HOME,
        "Documentation": f"{at_version}/docs/index.md",
        "Changelog": f"{at_version}/CHANGELOG.md",
        "Issues": f"{HOME}/issues",
    }


def readme():
    """Return the README; with an address, its relative links become absolute, and it gets a badge."""
    text = (HERE / "README.md").read_text("utf-8")
    if not HOME:
        return text
    relative = r"(?![a-z]+:|#)"
    text = re.sub(rf'(!\[[^\]]*\]\(|\b(?:src|srcset)="){relative}', rf"\1{HOME}/raw/v{VERSION}/", text)
    text = re.sub(rf'(\]\(|\bhref="){relative}', rf"\1{HOME}/blob/v{VERSION}/", text)
    tests = f"{HOME}/actions/workflows/ci.yml"
    return re.sub(r"^# .*\n", rf"\g<0>\n[![Tests]({tests}/badge.svg)]({tests})\n", text, count=1)


setuptools.setup(
    ext_modules=speedups(),
    cmdclass={"build_ext": BuildSpeedups},
    long_description=readme(),
    long_description_content_type="text/markdown",
    project_urls=urls() or {},
)
