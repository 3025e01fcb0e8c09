"""`import arrayferry` imports no framework but NumPy, and fewer modules than Gymnasium does."""

from __future__ import annotations

import pytest

from arrayferry._core.registry import registered
from arrayferry.testing import CHECKS

FRAMEWORKS = sorted(
    {framework.modules[0].partition(".")[0] for framework in registered().values()} - {"numpy"}
)


def loaded_by(run_python, code: str) -> set[str]:
    """Which frameworks, and whether Gymnasium, were imported by this code."""
    names = [*FRAMEWORKS, "gymnasium", "hypothesis"]
    printed = run_python(f"{code}\nimport sys\nprint('|', *(n for n in {names} if n in sys.modules))")
    return set(printed.rpartition("|")[2].split())


def test_the_list_of_frameworks_is_not_empty():
    assert {"torch", "jax", "mlx", "tensorflow", "cupy"} <= set(FRAMEWORKS)


@pytest.mark.parametrize(
    "code",
    [
        "import arrayferry",
        "import arrayferry; arrayferry.frameworks()",
        "import arrayferry; arrayferry.convert({'x': [1.5, 'text', object()]}, 'numpy')",
        "import arrayferry, numpy; arrayferry.convert(numpy.zeros(3), numpy, dtypes={'float64': 'bfloat16'})",
        "import arrayferry; dir(arrayferry); [vars(arrayferry).get(name) for name in arrayferry.__all__]",
        "import arrayferry.testing as t; t.CHECKS[0]('numpy'); t.CHECKS[3]('numpy')",
        "from arrayferry import convert, Converter, FerryError",
    ],
)
def test_no_framework_is_imported(run_python, code):
    assert loaded_by(run_python, code) == set()


def test_this_test_can_fail(run_python):
    assert loaded_by(run_python, "import arrayferry, gymnasium") == {"gymnasium"}
    assert loaded_by(run_python, "import hypothesis, arrayferry") == {"hypothesis"}


def test_only_the_framework_that_is_named_is_imported(run_python, name):
    code = f"import arrayferry; arrayferry.Converter({name!r})"
    others = set(FRAMEWORKS) - {registered()[name].modules[0].partition(".")[0]}
    assert not loaded_by(run_python, code) & (others - {"sparse", "dask", "jax"} | {"gymnasium"})


def test_kit_needs_no_hypothesis(run_python):
    hidden = "import sys; sys.modules['hypothesis'] = None; import arrayferry.testing as t; "
    assert run_python(hidden + "t.CHECKS[0]('numpy'); print(len(t.CHECKS))") == f"{len(CHECKS)}\n"


COUNT = """
import sys, numpy
before = len(sys.modules)
import {module}
print(len(sys.modules) - before)
"""


def test_import_loads_less_than_half_of_what_gymnasium_loads(run_python):
    ours, theirs = (int(run_python(COUNT.format(module=module))) for module in ("arrayferry", "gymnasium"))
    assert 0 < ours < 0.5 * theirs
