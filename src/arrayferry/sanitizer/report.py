"""What the sanitizer has to say: a finding, and the report that collects them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from arrayferry.errors import FerryError

__all__ = ["Finding", "Report", "SanitizerError", "SanitizerWarning", "Severity"]

# An error: values that somebody holds changed, or are no numbers. A warning: what was promised is not
# so, or may not be. An info: it does no harm here, and is collected without a word.
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

    Example:
        >>> print(
        ...     Finding(
        ...         kind="nan",
        ...         severity="error",
        ...         path="reward",
        ...         step=17,
        ...         message="it is NaN",
        ...         hint="look for a division by zero",
        ...     )
        ... )
        error: reward, step 17: it is NaN; look for a division by zero
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
        """Where, what, and what to do, in one line."""
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"{self.severity}: {self.where}: {self.message}{often}" + (
            f"; {self.hint}" if self.hint else ""
        )

    def as_error(self) -> SanitizerError:
        """The same as an exception."""
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
    sharing: tuple[Finding, ...] = field(default=())
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

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        """For people: a line for each finding, and one for the whole."""
        lines = [str(finding) for finding in self.findings]
        if self.sharing:
            lines += ["with copy=False also:", *(f"  {finding}" for finding in self.sharing)]
        if self.not_shared:
            lines.append(f"copy=False is not possible here: {self.not_shared}")
        elif self.shareable is not None:
            lines.append(f"copy=False is {'safe' if self.shareable else 'not safe'} here")
        many = len(self.findings) + len(self.sharing) or "nothing"
        cost = f"watching {self.watched / 1e6:,.3g} MB took {self.seconds:.3g} s"
        return "\n".join([*lines, f"{many} found in {self.steps:,} steps; {cost}"])
