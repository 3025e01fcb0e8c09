"""`check`: drive an environment with random actions, watched, and report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NoReturn

from arrayferry._core.convert import Converter, Namespace
from arrayferry._core.messages import count_of, refuse_unknown
from arrayferry.envs.adapters import adapter_of
from arrayferry.envs.opening import opened
from arrayferry.envs.rollout import RandomRollout, rollout_of
from arrayferry.errors import FerryError, SharingError
from arrayferry.sanitizer.report import Finding, Report, SanitizerWarning
from arrayferry.sanitizer.wrapper import findings
from arrayferry.wrappers import wrap

# The findings that make copy=False unsafe.
_UNSAFE = ("environment-wrote", "agent-wrote", "kept", "raised", "refused", "unwatched")

_KEY = attrgetter("kind", "path", "severity")


def check(
    env: Any,
    to: Namespace = "numpy",
    device: Any = None,
    *,
    env_xp: Namespace | None = None,
    env_device: Any = None,
    copy: bool | None = None,
    dtypes: Mapping[Any, Any] | Literal["space"] | None = None,
    steps: int = 1000,
    seed: int | None = 0,
    **unknown: NoReturn,
) -> Report:
    """Drive an environment with sampled actions, and report what the sanitizer finds.

    With `copy=None` it does so twice: as `wrap` does, and with `copy=False`, to see whether that is safe
    here. Before the last tenth of the steps it resets once more. An environment's exception is raised; a leaf
    that is refused is a finding, `"refused"`.

    Args:
        env: an environment that `wrap` takes; or the id of one, for `gymnasium.make`.
        to: the agent's framework.
        device: where the agent's arrays go.
        env_xp: the environment's framework; None to detect it.
        env_device: where actions go.
        copy: None for both runs; True or False for one run with it.
        dtypes: as for `wrap`.
        steps: how many steps to take, each time.
        seed: for the environment and for the actions.
        **unknown: refused, naming the option that was probably meant.

    Returns:
        The report, which is true if all is well: `assert arrayferry.check(env)`.

    Example:
        >>> import arrayferry
        >>> report = arrayferry.check("CartPole-v1", steps=100)
        >>> report.verdict
        'safe as wrapped; safe with copy=False too'
        >>> bool(report)
        True
    """
    options: Any = {"device": device, "env_xp": env_xp, "env_device": env_device, "dtypes": dtypes}
    refuse_unknown(unknown, [*options, "copy", "steps", "seed"], of="check")
    count_of("steps", steps)
    with opened(env) as base:
        drive = partial(_drive, base, to, steps, seed, options)
        report = drive(copy)
        return _with_sharing(report, drive) if copy is None else report


def _with_sharing(report: Report, drive: Callable[[bool], Report]) -> Report:
    try:
        shared = drive(False)
    except SharingError as error:
        return replace(report, not_shared=f"{error.where}: {error.what}")
    known = set(map(_KEY, report))
    new = tuple(finding for finding in shared if _KEY(finding) not in known)
    is_safe = not any(finding.kind in _UNSAFE for finding in new)
    return replace(report, sharing=new, shareable=is_safe, steps=report.steps + shared.steps)


def _drive(base: Any, to: Namespace, steps: int, seed: int | None, options: Any, copy: bool | None) -> Report:
    env: Any = wrap(base, to, sanitize=True, copy=copy, **options)
    failures: tuple[Finding, ...] = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SanitizerWarning)  # they are in the report
        try:
            _run(env, rollout_of(base, adapter_of(base).kind), Converter(to, options["device"]), steps, seed)
        except SharingError:
            raise
        except Exception as error:
            if copy is not False and not isinstance(error, FerryError):
                raise
            failures = (_failure(error, findings(env).steps),)
    report = findings(env)
    return replace(report, findings=report.findings + failures)


def _run(env: Any, rollout: RandomRollout, to_agent: Converter, steps: int, seed: int | None) -> None:
    rollout.reset(env, seed)
    for number in range(steps):
        if number == steps - steps // 10:  # some never end an episode by themselves
            rollout.reset(env, None if seed is None else seed + 1)
        _, _, terminated, truncated, _ = rollout.step(env, to_agent(rollout.sample()))
        rollout.start_again(env, terminated, truncated)


def _failure(error: Exception, step: int) -> Finding:
    if isinstance(error, FerryError):
        return Finding("refused", "error", error.where or "value", step, error.what, error.hint)
    message = f"raised {type(error).__name__}: {error}"
    return Finding("raised", "error", "env", step, message, "leave copy at None")
