"""The boundary sanitizer, which watches what an environment and its agent pass to each other.

| file | the one idea |
|---|---|
| `report.py` | a finding, where findings are collected, and the report with its verdict |
| `leaves.py` | the leaves of a value, and whether anybody else holds their memory |
| `writes.py` | who wrote into memory that the other one sees |
| `values.py` | changed forms, values outside their space, NaN |
| `wrapper.py` | the wrappers that look at all of this, around every call to an environment |
| `agents.py` | the same wrappers for PettingZoo's environments |
| `driver.py` | `check`, which drives an environment, watched |

The switch is in `wrappers/watch.py`, a layer below: a wrapper imports this package only when it is on.
"""

from __future__ import annotations

from arrayferry.sanitizer.report import Finding, Report, SanitizerError, SanitizerWarning
from arrayferry.sanitizer.wrapper import Sanitizer, VectorSanitizer, findings
from arrayferry.wrappers.watch import sanitize

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
