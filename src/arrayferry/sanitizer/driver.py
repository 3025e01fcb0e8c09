"""`check`: drive an environment with random actions, watched, and report."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from arrayferry._core.convert import Converter, Namespace
from arrayferry._core.messages import refuse_unknown
from arrayferry.errors import FerryError, SharingError
from arrayferry.sanitizer.report import Finding, Report, SanitizerWarning
from arrayferry.sanitizer.wrapper import findings
from arrayferry.wrappers import wrap
from arrayferry.wrappers._make import opened
from arrayferry.wrappers._rollout import RandomRollout, refuse_no_steps, rollout_of

__all__ = ["check"]

# The findings that make copy=False unsafe.
_UNSAFE = ("environment-wrote", "agent-wrote", "kept", "raised", "refused", "unwatched")


def check(
    env: Any,
    to: Namespace = "numpy",
    *,
    steps: int = 1000,
    seed: int = 0,
    device: Any = None,
    copy: bool | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    env_xp: Namespace | None = None,
    env_device: Any = None,
    **unknown: NoReturn,
) -> Report:
    """Drive an environment with sampled actions, and report what the sanitizer finds.

    With `copy=None` it does so twice: as `wrap` does, and with `copy=False`, to see whether that is safe
    here. Before the last tenth of the steps it resets once more. An environment's exception is raised; a leaf
    that is refused is a finding, `"refused"`.

    Args:
        env: an environment that `wrap` takes; or the id of one, for `gymnasium.make`.
        to: the agent's framework.
        steps: how many steps to take, each time.
        seed: for the environment and for the actions.
        device: where the agent's arrays go.
        copy: None for both runs; True or False for one run with it.
        dtypes: casts to make on the way out.
        env_xp: the environment's framework.
        env_device: where actions go.
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
    options: dict[str, Any] = {"device": device, "dtypes": dtypes, "env_xp": env_xp, "env_device": env_device}
    refuse_unknown(unknown, ["steps", "seed", "copy", *options], of="check")
    refuse_no_steps(steps)
    with opened(env) as base:
        report = _drive(base, to, steps, seed, {**options, "copy": copy})
        return report if copy is not None else _with_sharing(report, base, to, steps, seed, options)


def _with_sharing(report: Report, env: Any, to: Namespace, steps: int, seed: int, options: Any) -> Report:
    try:
        shared = _drive(env, to, steps, seed, {**options, "copy": False})
    except SharingError as error:
        return replace(report, not_shared=f"{error.where}: {error.what}")
    known = {(finding.kind, finding.path, finding.severity) for finding in report}
    new = tuple(one for one in shared if (one.kind, one.path, one.severity) not in known)
    return replace(
        report,
        sharing=new,
        shareable=not any(finding.kind in _UNSAFE for finding in new),
        steps=report.steps + shared.steps,
    )


def _drive(base: Any, to: Namespace, steps: int, seed: int, options: dict[str, Any]) -> Report:
    env = wrap(base, to, sanitize=True, **options)
    found: tuple[Finding, ...] = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SanitizerWarning)  # they are in the report
        try:
            _run(env, rollout_of(base), Converter(to, options["device"]), steps, seed)
        except SharingError:
            raise
        except Exception as error:
            if options["copy"] is not False and not isinstance(error, FerryError):
                raise
            found = (_failure(error, findings(env).steps),)
    report = findings(env)
    return replace(report, findings=report.findings + found)


def _run(env: Any, rollout: RandomRollout, to_agent: Converter, steps: int, seed: int) -> None:
    rollout.reset(env, seed)
    for number in range(steps):
        if number == steps - steps // 10:  # some never end an episode by themselves
            rollout.reset(env, seed + 1)
        _, _, terminated, truncated, _ = rollout.step(env, to_agent(rollout.sample()))
        rollout.start_again(env, terminated, truncated)


def _failure(error: Exception, step: int) -> Finding:
    if isinstance(error, FerryError):
        kind, path, message, hint = "refused", error.where or "value", error.what, error.hint
    else:
        kind, path, hint = "raised", "env", "leave copy at None"
        message = f"raised {type(error).__name__}: {error}"
    return Finding(kind=kind, severity="error", path=path, step=step, message=message, hint=hint)
