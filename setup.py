"""The one part that is compiled. Where there is no compiler, all works without it, slower."""

import numpy
import setuptools

setuptools.setup(
    ext_modules=[
        setuptools.Extension(
            "arrayferry._core._speedups",
            ["src/arrayferry/_core/_speedups.c"],
            include_dirs=[numpy.get_include()],
            optional=True,
        )
    ]
)
