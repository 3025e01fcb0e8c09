"""`import arrayferry` imports no framework but NumPy, and takes a fraction of Gymnasium's time."""

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


TIME = """
import time, numpy
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def test_import_takes_a_fraction_of_gymnasium(run_python, capsys, tmp_path):
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    laps = {"arrayferry": [], "gymnasium": []}
    for _ in range(6):  # the first lap compiles
        for module, times in laps.items():
            times.append(float(run_python(TIME.format(module=module), **compiled)))
    ours, theirs = (1e3 * min(times) for times in laps.values())
    with capsys.disabled():
        print(f"\nimport arrayferry: {ours:.0f} ms, {ours / theirs:.2f} of gymnasium's {theirs:.0f} ms")
    assert ours < 0.5 * theirs
