"""What becomes of every bad input: `python -m reliability.outcomes` prints where the table is wrong."""

from __future__ import annotations

from typing import Any

import arrayferry
from reliability.inputs import ARRAY, INPUTS, REFUSED, SAME, TARGETS
from reliability.values import kind_of, raw


def outcome(name: str, target: str) -> str:
    """What becomes of one input in one target, with its values looked at where it is an array in NumPy."""
    seen: list[str] = []

    def use(value: Any) -> None:
        try:
            result = arrayferry.convert([value], target, copy=True)[0]
        except arrayferry.FerryError:
            seen.append(REFUSED)
            return
        if result is value:
            seen.append(SAME)
        elif kind_of(result) == target:
            seen.append(ARRAY)
            raw(result)
        else:
            seen.append(f"a {type(result).__name__}")

    INPUTS[name].use(use)
    return seen[0]


def main() -> None:
    """Print a line for each difference, and how many there were to look at."""
    for name, one in INPUTS.items():
        for target in TARGETS:
            if (found := outcome(name, target)) != one.outcome(target):
                print(f"{name} to {target}: {found}, not {one.outcome(target)}")
    print(len(INPUTS) * len(TARGETS), "looked at")


if __name__ == "__main__":
    main()
