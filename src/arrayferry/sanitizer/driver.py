"""`check`: drive an environment with random actions, watched, and report."""

from __future__ import annotations

import warnings
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry._core.convert import Converter, Namespace, convert
from arrayferry.errors import FerryError, SharingError
from arrayferry.sanitizer.collect import findings
from arrayferry.sanitizer.report import Finding, Report, SanitizerWarning
from arrayferry.wrappers import wrap

__all__ = ["check"]

# What makes copy=False a bad idea.
_UNSAFE = ("environment-wrote", "agent-wrote", "kept", "raised", "refused")


def check(
    env: str | gym.Env[Any, Any] | VectorEnv[Any, Any, Any],
    to: Namespace = "numpy",
    *,
    steps: int = 1000,
    seed: int = 0,
    **options: Any,
) -> Report:
    """Drive an environment with sampled actions, and report what the sanitizer finds.

    Twice: as `wrap` does it by default, and with `copy=False`, which tells whether that is safe here.
    What an environment raises by itself is raised; what cannot cross is a finding of kind `"refused"`.

    Args:
        env: the environment, single or vector; or the id of one, for `gymnasium.make`.
        to: the agent's framework.
        steps: how many steps to take, each time.
        seed: for the environment and for the actions.
        **options: others of `wrap`; with `copy` there is one run only.

    Example:
        >>> import arrayferry
        >>> report = arrayferry.check("CartPole-v1", steps=100)
        >>> report.ok, report.shareable
        (True, True)
    """
    with closing(gym.make(env)) if isinstance(env, str) else nullcontext(env) as base:
        report = _drive(base, to, steps, seed, options)
        return report if "copy" in options else _and_shared(report, base, to, steps, seed, options)


def _and_shared(report: Report, env: Any, to: Namespace, steps: int, seed: int, options: Any) -> Report:
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
        seconds=report.seconds + shared.seconds,
        watched=report.watched + shared.watched,
    )


def _drive(base: Any, to: Namespace, steps: int, seed: int, options: dict[str, Any]) -> Report:
    watched: dict[str, Any] = {**options, "sanitize": True}
    env = wrap(base, to, **watched)
    found: tuple[Finding, ...] = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SanitizerWarning)  # they are in the report
        try:
            _run(env, base.action_space, Converter(to, options.get("device")), steps, seed)
        except SharingError:
            raise
        except Exception as error:
            shared = options.get("copy") is False
            if not shared and not isinstance(error, FerryError):
                raise
            found = (_failure(error, findings(env).steps),)
    report = findings(env)
    return replace(report, findings=report.findings + found)


def _run(env: Any, actions: Any, to_agent: Converter, steps: int, seed: int) -> None:
    is_vector = isinstance(env, VectorEnv)
    by_hand = env.metadata.get("autoreset_mode") is AutoresetMode.DISABLED
    actions.seed(seed)
    env.reset(seed=seed)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(to_agent(actions.sample()))
        if not is_vector and (terminated or truncated):
            env.reset()
        elif is_vector and by_hand:
            done = np.logical_or(*convert((terminated, truncated), "numpy"))
            if done.any():
                env.reset(options={"reset_mask": done})


def _failure(error: Exception, step: int) -> Finding:
    if isinstance(error, FerryError):
        where, what, hint = error.where or "value", error.what, error.hint
        return Finding(kind="refused", severity="error", path=where, step=step, message=what, hint=hint)
    what, hint = f"raised {type(error).__name__}: {error}", "leave copy at None"
    return Finding(kind="raised", severity="error", path="env", step=step, message=what, hint=hint)
