"""Fuzzing `convert`: Hypothesis draws values and how to convert them, and atheris steers what it draws.

atheris sees which lines of this library an input reaches, and changes the input until it reaches others;
Hypothesis alone can only be given a number to maximise. What fails is kept in Hypothesis's database, so
that `pytest tests/reliability/test_fuzz.py` repeats and shrinks it, without atheris.

    python -m reliability.fuzz SECONDS
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import arrayferry
from helpers.structures import arrays, structures, zip_leaves
from reliability.inputs import INPUTS  # before JAX starts
from reliability.trials import finished
from reliability.values import DTYPES, NAMES, OTHERS, jax, kind_of, made_in, raw

USUAL = [one.make for one in INPUTS.values() if not (one.inside or one.on_two_devices)]
NUMBERS = st.integers(-(2**71), 2**71) | st.sampled_from([0.5, float("nan"), 1j])
LEAVES = arrays(DTYPES) | NUMBERS | st.sampled_from(USUAL).map(lambda make: make()) | st.sampled_from(OTHERS)


@given(
    data=st.data(),
    source=st.sampled_from([None, *NAMES]),
    target=st.sampled_from(NAMES),
    copy=st.sampled_from([None, True, False]),
    dtypes=st.sampled_from([None, {"float64": "float32"}, {"uint8": "float16", "int64": "int8"}]),
    x64=st.booleans(),
)
def check(data: Any, source: Any, target: Any, copy: Any, dtypes: Any, x64: bool) -> None:
    """Convert a value; raise if the contract is broken."""
    with jax.enable_x64(x64):
        value = data.draw(structures(LEAVES, max_leaves=8))
        try:
            value = value if source is None else made_in(source, value)
            result = arrayferry.convert(value, target, copy=copy, dtypes=dtypes)
        except arrayferry.FerryError as error:
            if not error.what or not error.where.startswith("value"):
                raise AssertionError(f"an error that does not say what and where: {error!r}") from error
            return
        for old, new in zip_leaves(value, result):
            name = str(getattr(old, "dtype", None)).removeprefix("torch.")
            if kind_of(old) in NAMES and name in DTYPES and x64 and not dtypes:
                assert kind_of(new) == target, f"{type(old).__name__} became {type(new).__name__}"
                assert raw(new) == raw(old) or name == "bool", f"{old!r} became {new!r}"
            elif isinstance(old, (str, bytes, bool, type(None))):
                assert new is old, f"{old!r} became {new!r}"


ATHERIS = """
import sys, atheris
with atheris.instrument_imports(include=["arrayferry"]):
    from reliability import fuzz
atheris.Setup(sys.argv, fuzz.check.hypothesis.fuzz_one_input)
atheris.Fuzz()
"""


def fuzz(seconds: int) -> tuple[int, list[str]]:
    """Fuzz for some time. How many inputs were tried, and what was found, as lines of hex."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(sys.executable, "-W", "ignore", "-c", ATHERIS),
                *(f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", "-timeout=60"),
                *("-rss_limit_mb=0", "-max_len=4096", "-len_control=0", "-print_final_stats=1"),
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        reported = [file.read_bytes() for file in sorted(Path(folder).iterdir()) if "slow" not in file.name]
    if done.returncode and not reported:
        raise RuntimeError(f"the fuzzer does not start: {done.stderr[-500:]}")
    stats = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    return int(stats[0]) if stats else 0, [data.hex() for data in reported if not _passes(data)]


def _passes(finding: bytes) -> bool:
    """Whether an input does well when it is alone: then the machine was busy elsewhere, or paused."""
    code = f"from reliability import fuzz; fuzz.check.hypothesis.fuzz_one_input({finding!r})"
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], start_new_session=True) as program:
        return finished(program, 120) and program.returncode == 0


if __name__ == "__main__":
    tried, findings = fuzz(int(sys.argv[1]))
    print(f"{tried} inputs tried, {len(findings)} findings", *findings, sep="\n")
