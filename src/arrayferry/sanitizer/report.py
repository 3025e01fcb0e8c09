"""What the sanitizer has to say: a finding, and the report that collects them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from arrayferry.errors import FerryError

__all__ = ["Finding", "Report", "SanitizerError", "SanitizerWarning", "Severity"]

# An error: values that somebody holds changed, or are no numbers. A warning: what was promised is not
# so, or may not be. An info: it does no harm here, and is only collected.
Severity = Literal["error", "warning", "info"]


class SanitizerWarning(UserWarning):
    """The sanitizer found something; once for each kind and path."""


class SanitizerError(FerryError, RuntimeError):
    """The sanitizer found something, and `sanitize="raise"` was asked.

    Attributes:
        finding: what it found.
    """

    finding: Finding


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that the sanitizer found at one leaf.

    Attributes:
        kind: what sort of thing, as a word: see docs/sanitizer.md.
        severity: `"error"`, `"warning"` or `"info"`.
        path: the leaf, such as `obs["camera"]`.
        step: how many steps had been taken when it was found, this one included; 0 in the first reset.
        message: what happened.
        hint: what to do.
        times: how often it was found.

    >>> print(Finding(kind="nan", severity="error", path="reward", step=17, message="it is NaN"))
    error: reward, step 17: it is NaN
    """

    kind: str
    severity: Severity
    path: str
    step: int
    message: str
    hint: str = ""
    times: int = 1

    @property
    def where(self) -> str:
        """The leaf and the step."""
        return f"{self.path}, step {self.step}"

    def __str__(self) -> str:
        """Return where, what, and what to do, in one line."""
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"{self.severity}: {self.where}: {self.message}{often}" + (
            f"; {self.hint}" if self.hint else ""
        )

    def as_error(self) -> SanitizerError:
        """Return it as an exception."""
        error = SanitizerError(self.message, self.hint, self.where)
        error.finding = self
        return error


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings about an environment, and what it took to find them.

    Attributes:
        findings: what was found, in the order in which it was.
        steps: how many steps were watched.
        seconds: the time that the watching took.
        watched: the bytes of the arrays that were looked at.
        sharing: what `check` found beyond that with `copy=False`; empty if nobody tried.
        shareable: whether `check` found `copy=False` safe; None if nobody tried, or it cannot share.
        not_shared: why it cannot share; empty if it can, or nobody tried.
    """

    findings: tuple[Finding, ...]
    steps: int = 0
    seconds: float = 0.0
    watched: int = 0
    sharing: tuple[Finding, ...] = ()
    shareable: bool | None = None
    not_shared: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing worse than an info was found; what `copy=False` would do is not counted."""
        return all(finding.severity == "info" for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def verdict(self) -> str:
        """Whether the environment is safe as it is wrapped, and with `copy=False`, in words."""
        if not self.ok:
            counts = Counter(finding.severity for finding in self.findings if finding.severity != "info")
            many = [f"{n} {severity}{'s' * (n > 1)}" for severity, n in sorted(counts.items())]
            return f"not safe as wrapped: {', '.join(many)}"
        if self.not_shared:
            return "safe as wrapped; copy=False is not possible"
        if self.shareable is None:
            return "safe as wrapped"
        return (
            f"safe as wrapped; {'safe with copy=False too' if self.shareable else 'not safe with copy=False'}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain data, for JSON."""
        return {"verdict": self.verdict, **asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        """Return the verdict, a line for each finding, and what it took."""
        lines = [self.verdict, *map(str, self.findings)]
        if self.sharing:
            lines += ["with copy=False:", *(f"  {finding}" for finding in self.sharing)]
        if self.not_shared:
            lines.append(f"copy=False is not possible: {self.not_shared}")
        return "\n".join(
            [*lines, f"{self.steps:,} steps; watching {self.watched / 1e6:,.3g} MB took {self.seconds:.3g} s"]
        )
