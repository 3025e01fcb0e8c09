"""What the sanitizer has to say: a finding, the log in which findings are collected, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from arrayferry._core.messages import warn_caller
from arrayferry.errors import FerryError

# An error: values that somebody holds have changed, or are not numbers. A warning: a promise is broken, or
# may be. An info: it does no harm here, and is only collected.
Severity = Literal["error", "warning", "info"]

# The most findings that are kept: an info may have a new key in every step.
_MANY = 1000


class SanitizerWarning(UserWarning):
    """The sanitizer found something; once for each kind and path."""


class SanitizerError(FerryError, RuntimeError):
    """The sanitizer found something, and `sanitize="raise"` was set.

    Attributes:
        finding: what it found.
    """

    finding: Finding


@dataclass(frozen=True)
class Finding:
    """One thing that the sanitizer found at one leaf.

    Attributes:
        kind: what sort of thing, in one word: see docs/sanitizer.md.
        severity: `"error"`, `"warning"` or `"info"`.
        path: the leaf, such as `obs["camera"]`.
        step: how many steps had been taken when it was found, including this one; 0 in the first reset.
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

    @property
    def text(self) -> str:
        """Where, what, how often, and what to do."""
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"{self.where}: {self.message}{often}{'; ' if self.hint else ''}{self.hint}"

    def __str__(self) -> str:
        """Return the severity and the text in one line."""
        return f"{self.severity}: {self.text}"


class FindingLog:
    """The findings about one environment, one for each kind and path.

    Args:
        on_finding: `"warn"` or `"raise"`; infos are only collected.

    Attributes:
        step: how many steps have been taken, including the current one.
    """

    def __init__(self, on_finding: Literal["warn", "raise"]) -> None:
        self.step = 0
        self._on_finding = on_finding
        self._findings: dict[tuple[str, str], Finding] = {}
        self._new: list[Finding] = []

    @property
    def report(self) -> Report:
        """All findings, in the order in which they were found."""
        return Report(findings=tuple(self._findings.values()), steps=self.step)

    def has(self, kind: str, path: str) -> bool:
        """Return whether this was found before."""
        return (kind, path) in self._findings

    def add(self, kind: str, severity: Severity, path: str, message: str, hint: str = "") -> None:
        """Note what was found in the current step."""
        is_info = severity == "info"
        known = self._findings.get((kind, path))
        if known is None and len(self._findings) >= (_MANY if is_info else 2 * _MANY):
            return  # infos leave room for what is worse
        new = Finding(kind, severity, path, self.step, message, hint)
        self._findings[kind, path] = finding = new if known is None else replace(known, times=known.times + 1)
        if not is_info and (known is None or self._on_finding == "raise"):
            self._new.append(finding)

    def warn_or_raise(self) -> None:
        """Warn of what is new, or raise it."""
        new, self._new = self._new, []
        for finding in new:
            if self._on_finding == "raise":
                error = SanitizerError(finding.message, finding.hint, finding.where)
                error.finding = finding
                raise error
            warn_caller(str(finding), SanitizerWarning)


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings about an environment.

    Attributes:
        findings: what was found, in the order in which it was found.
        steps: how many steps were watched.
        sharing: what else `check` found with `copy=False`; empty if that was not tried.
        shareable: whether `check` found `copy=False` safe; None if it was not tried, or is not possible.
        not_shared: why `copy=False` is not possible; empty if it is, or was not tried.

    Example:
        >>> import arrayferry
        >>> report = arrayferry.check("MountainCarContinuous-v0", "numpy", steps=10)
        >>> report.verdict
        'safe as wrapped; not safe with copy=False'
        >>> report.ok, report.shareable, [finding.kind for finding in report.sharing]
        (True, False, ['kept'])
    """

    findings: tuple[Finding, ...]
    steps: int = 0
    sharing: tuple[Finding, ...] = ()
    shareable: bool | None = None
    not_shared: str = ""

    @property
    def ok(self) -> bool:
        """Whether all was examined, and nothing worse than an info found; `copy=False` is not counted.

        It is what `bool(report)` returns.
        """
        return all(finding.severity == "info" and finding.kind != "unwatched" for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def verdict(self) -> str:
        """Whether the environment is safe as it is wrapped, and with `copy=False`, in words."""
        counts = Counter(finding.severity for finding in self.findings)
        many = [f"{n} {kind}{'s' * (n > 1)}" for kind in ("error", "warning") if (n := counts[kind])]
        many = many or ["something could not be examined"] * (not self.ok)
        as_wrapped = f"not safe as wrapped ({', '.join(many)})" if many else "safe as wrapped"
        if self.not_shared:
            return f"{as_wrapped}; copy=False is not possible: {self.not_shared}"
        if self.shareable is None:
            return as_wrapped
        if not self.shareable:
            return f"{as_wrapped}; not safe with copy=False"
        return f"{as_wrapped}; {'copy=False adds nothing to that' if many else 'safe with copy=False too'}"

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return {"verdict": self.verdict, **asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        """Return the verdict, a line for each finding, and the number of steps."""
        lines = [self.verdict, *map(str, self.findings)]
        if self.sharing:
            lines += ["with copy=False:", *(f"  {finding}" for finding in self.sharing)]
        return "\n".join([*lines, f"{self.steps:,} steps"])
