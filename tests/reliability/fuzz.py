"""Coverage-guided fuzzing of `convert`: bytes become a value and the terms of its conversion.

With atheris, because it sees which lines of this library an input reaches and changes the input until
it reaches others; Hypothesis can only be given a number to maximise. The bytes are decoded by the code
below, so that a finding is a line of hex in `corpus.txt`, which `make test` replays without atheris.

    python -m reliability.fuzz SECONDS        what it found is added to corpus.txt
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from reliability.child import finished

CORPUS = Path(__file__).with_name("corpus.txt")


class Bytes:
    """Numbers read from bytes; when those are used up, zeros."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        part = self.data[self.at : self.at + size]
        self.at += size
        return part.ljust(size, b"\0")

    def below(self, limit: int) -> int:
        """A number from 0 to below a limit of at most 256."""
        return self.take(1)[0] % limit

    def one_of(self, things: Any) -> Any:
        """One of some things."""
        things = list(things)
        return things[self.below(len(things))]


def array_from(data: Bytes) -> Any:
    """An array of any dtype, shape, content and layout."""
    import numpy as np

    from arrayferry.testing import LAYOUTS, edges
    from reliability.values import DTYPES

    dtype = data.one_of(DTYPES)
    shape = tuple(data.below(4) for _ in range(data.below(4)))
    array = np.resize(edges(dtype), shape)
    if data.below(2):
        memory = np.frombuffer(data.take(array.nbytes), np.uint8).copy()
        memory &= 1 if dtype == "bool" else 255
        array = memory.view(array.dtype).reshape(shape)
    for _ in range(data.below(4)):
        array = data.one_of(LAYOUTS.values())(array)
    return array


def value_from(data: Bytes, depth: int = 5) -> Any:
    """A structure of arrays, numbers and other leaves."""
    from reliability.inputs import INPUTS
    from reliability.values import OTHERS
    from structures import CONTAINERS

    kind = data.below(8)
    if kind < 3 and depth:
        make = data.one_of(CONTAINERS.values())
        return make([value_from(data, depth - 1) for _ in range(data.below(5))])
    if kind < 5:
        return array_from(data)
    if kind == 5:
        return data.one_of([int.from_bytes(data.take(9), "little", signed=True), 0.5, float("nan"), 1j])
    if kind == 6:
        usual = [one.make for one in INPUTS.values() if not (one.inside or one.on_two_devices)]
        return data.one_of(usual)()
    return data.one_of(OTHERS)


def check(raw_input: bytes) -> None:
    """Convert the value that the bytes mean; raise if the contract is broken."""
    import jax

    import arrayferry
    from reliability.values import DTYPES, NAMES, kind_of, made_in, raw
    from structures import zip_leaves

    data = Bytes(raw_input)
    target, copy, x64 = data.one_of(NAMES), data.one_of([None, True, False]), bool(data.below(2))
    dtypes = data.one_of([None, None, {"float64": "float32"}, {"uint8": "float16", "int64": "int8"}])
    source = data.one_of(NAMES)
    with jax.enable_x64(x64):
        value = value_from(data)
        try:
            if data.below(2):
                value = made_in(source, value)
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


def corpus() -> list[bytes]:
    """The inputs that are kept: what was found once, and what together reaches the lines of the library."""
    lines = CORPUS.read_text(encoding="utf-8").splitlines() if CORPUS.exists() else []
    return [bytes.fromhex(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()]


def fuzz(seconds: int, grow: bool = False) -> tuple[int, list[str]]:
    """Fuzz for some time. How many inputs were tried, and what was found, as lines of hex.

    Args:
        seconds: how long.
        grow: whether inputs that reach more of the library are added to the corpus.
    """
    with tempfile.TemporaryDirectory() as folder:
        seeds, found = Path(folder, "seeds"), Path(folder, "found")
        seeds.mkdir()
        found.mkdir()
        for number, data in enumerate(corpus()):
            Path(seeds, str(number)).write_bytes(data)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "reliability.fuzz", "--child", str(seeds)),
                *(f"-max_total_time={seconds}", f"-artifact_prefix={found}/", "-timeout=60"),
                *("-rss_limit_mb=0", "-max_len=256", "-print_final_stats=1", "-verbosity=1"),
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        reported = [file.read_bytes().hex() for file in sorted(found.iterdir()) if "slow" not in file.name]
        if done.returncode and not reported:
            raise RuntimeError(f"the fuzzer does not start: {done.stderr[-500:]}")
        if grow:
            _keep_smallest([file.read_bytes() for file in seeds.iterdir()])
        stats = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    return int(stats[0]) if stats else 0, [one for one in reported if not _passes(one)]


def _passes(finding: str) -> bool:
    """Whether an input does well when it is alone: then the machine was busy elsewhere, or paused."""
    code = f"from reliability.fuzz import check; check(bytes.fromhex({finding!r}))"
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], start_new_session=True) as program:
        return finished(program, 120) and program.returncode == 0


def _keep_smallest(candidates: list[bytes]) -> None:
    """Write those inputs, small ones first, that reach lines which none before them reached."""
    seen: set[Any] = set()
    kept = []
    for data in sorted({*candidates, *corpus()}, key=lambda data: (len(data), data)):
        lines = _lines_reached(data)
        if lines - seen:
            kept.append(data)
        seen |= lines
    remarks = [line for line in CORPUS.read_text(encoding="utf-8").splitlines() if "#" in line]
    new = [data.hex() for data in kept if data and not any(line.startswith(data.hex()) for line in remarks)]
    CORPUS.write_text("\n".join([*remarks, *new]) + "\n", encoding="utf-8")


def _lines_reached(data: bytes) -> set[Any]:
    from arrayferry._core.type_cache import clear_type_caches

    lines = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if "arrayferry" not in frame.f_code.co_filename:
            return None
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    clear_type_caches()
    sys.settrace(trace)
    try:
        check(data)
    finally:
        sys.settrace(None)
    return lines


def remember(findings: list[str]) -> None:
    """Add findings to the corpus."""
    with CORPUS.open("a", encoding="utf-8") as file:
        file.writelines(f"{finding}  # found by fuzzing\n" for finding in findings)


def _child(arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["arrayferry"]):
        import arrayferry._core.route
        import arrayferry.testing  # noqa: F401

    import warnings

    import reliability.inputs  # noqa: F401  (before JAX starts)

    warnings.simplefilter("ignore")
    atheris.Setup([sys.argv[0], *arguments], check)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        _child(sys.argv[2:])
    else:
        tried, findings = fuzz(int(sys.argv[1]), grow="--grow" in sys.argv)
        remember(findings)
        print(f"{tried} inputs tried, {len(findings)} findings")
