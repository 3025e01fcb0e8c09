"""The boundary sanitizer: watches what crosses between an environment and its agent.

| file | the one idea |
|---|---|
| `report.py` | a finding, and the report with its verdict |
| `notes.py` | where findings are collected, and told once |
| `leaves.py` | the leaves of a value, and whether somebody holds their memory |
| `memory.py` | memory that was handed over, as it was then |
| `writes.py` | who wrote into memory that the other one sees |
| `spaces.py` | which leaf of an observation is not in its space |
| `values.py` | changed forms, values outside of their space, NaN |
| `watching.py` | all of it, around every call of an environment |
| `wrapper.py` | the wrappers for single and vector environments |
| `driver.py` | `check`, which drives an environment, watched |

The switch is below, in `wrappers/_watch.py`: a wrapper imports this only when it is on.
"""

from __future__ import annotations

from arrayferry.sanitizer.report import Finding, Report, SanitizerError, SanitizerWarning
from arrayferry.sanitizer.wrapper import Sanitizer, VectorSanitizer, findings
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
