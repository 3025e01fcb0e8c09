"""The part in C, which pyproject.toml cannot express.

Environment variables:
    ARRAYFERRY_REQUIRE_SPEEDUPS=1: a build without the part in C fails, as it must for wheels. By default
        that part is left out if there is no compiler; everything works without it, but more slowly.
    ARRAYFERRY_PURE_WHEEL=1: always leave it out, for a wheel that works with any Python.
"""

import os

import setuptools
from setuptools.command.build_ext import build_ext

PURE = os.environ.get("ARRAYFERRY_PURE_WHEEL", "") not in ("", "0")
REQUIRED = os.environ.get("ARRAYFERRY_REQUIRE_SPEEDUPS", "") not in ("", "0")

if PURE and REQUIRED:
    raise SystemExit("arrayferry: ARRAYFERRY_PURE_WHEEL leaves out what ARRAYFERRY_REQUIRE_SPEEDUPS requires")


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


setuptools.setup(ext_modules=speedups(), cmdclass={"build_ext": BuildSpeedups})
