"""The boundary sanitizer: watches what crosses between an environment and its agent.

| file | the one idea |
|---|---|
| `report.py` | what it has to say |
| `notes.py` | where findings are collected, and told once |
| `leaves.py` | the leaves of a value, and whether somebody holds their memory |
| `memory.py` | memory that was handed over, as it was then |
| `writes.py` | who wrote into memory that the other one sees |
| `members.py` | whether an observation is in its space, and if not, why |
| `values.py` | form, space, NaN |
| `inspector.py` | all of it, one call after the other |
| `wrapper.py` | the wrappers around an environment |
| `collect.py` | the findings of a whole stack of wrappers |
| `driver.py` | drives an environment, watched |
"""

from __future__ import annotations

from arrayferry.sanitizer.collect import findings
from arrayferry.sanitizer.report import Finding, Report, SanitizerError, SanitizerWarning
from arrayferry.sanitizer.wrapper import Sanitizer, VectorSanitizer
from arrayferry.wrappers._watch import sanitize

__all__ = [
    "Finding",
    "Report",
    "Sanitizer",
    "SanitizerError",
    "SanitizerWarning",
    "VectorSanitizer",
    "findings",
    "sanitize",
]
