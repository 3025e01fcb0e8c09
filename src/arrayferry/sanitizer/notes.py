"""Where findings are collected, and told once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Literal

from arrayferry._core.messages import warn_caller
from arrayferry.sanitizer.report import Finding, SanitizerWarning, Severity

__all__ = ["Notes"]

# Nobody reads more than that; and an info may have a new key in every step.
_MANY = 1000


class Notes:
    """The findings about one environment.

    Args:
        on_finding: `"warn"` or `"raise"`; infos are only collected.

    Attributes:
        step: how many steps have been taken, the present one included.
    """

    def __init__(self, on_finding: Literal["warn", "raise"]) -> None:
        self.step = 0
        self._on_finding = on_finding
        self._found: dict[tuple[str, str], Finding] = {}
        self._times: Counter[tuple[str, str]] = Counter()
        self._untold: list[Finding] = []

    def has(self, kind: str, path: str) -> bool:
        """Return whether this was found before."""
        return (kind, path) in self._found

    def add(self, kind: str, severity: Severity, path: str, message: str, hint: str = "") -> None:
        """Note what was found in the present step."""
        key = kind, path
        if key not in self._found and len(self._found) < _MANY:
            self._found[key] = Finding(
                kind=kind, severity=severity, path=path, step=self.step, message=message, hint=hint
            )
            if severity != "info":
                self._untold.append(self._found[key])
        self._times[key] += key in self._found

    def tell(self) -> None:
        """Warn of what is new, or raise it."""
        untold, self._untold = self._untold, []
        for finding in untold:
            if self._on_finding == "raise":
                raise finding.as_error()
            warn_caller(str(finding), SanitizerWarning)

    def findings(self) -> tuple[Finding, ...]:
        """Return all of them, in the order in which they were found."""
        return tuple(replace(finding, times=self._times[key]) for key, finding in self._found.items())
