"""The list of goals. A file is imported when a goal in it is asked for: not all need all frameworks."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from reliability.goal import Goal

_FILES = {
    "crossing": "R1 R3 R9 R11",
    "races": "R2 R7",
    "deaths": "R4 R10",
    "exits": "R5",
    "leaks": "R6",
    "processes": "R8",
    "environments": "R12 R13 R15",
    "gradients": "R14",
    "proofs": "R16",
    "canaries": "R17",
    "states": "R18",
    "families": "R19 R20 R21 R22 R23 R24",
    "interrupts": "R25 R26 R27",
}

NAMES = sorted(" ".join(_FILES.values()).split(), key=lambda name: int(name[1:]))


@cache
def find_goal(name: str) -> Goal:
    """The goal of that name."""
    [file] = [file for file, names in _FILES.items() if name in names.split()]
    [goal] = [goal for goal in import_module(f"reliability.{file}").GOALS if goal.name == name]
    return goal
