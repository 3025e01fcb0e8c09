"""What the sanitizers of an environment have found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv, VectorWrapper

from arrayferry.errors import UnsupportedError
from arrayferry.sanitizer.report import Report
from arrayferry.sanitizer.wrapper import _Watched

__all__ = ["findings"]


def findings(env: Any) -> Report:
    """What the sanitizers in a stack of wrappers have found so far, and what that has cost.

    Those in the environments of a `SyncVectorEnv` are asked too; those in worker processes are not.

    Raises:
        UnsupportedError: nobody watches this environment.
    """
    reports = [one.report for one in _sanitizers(env)]
    if not reports:
        raise UnsupportedError("no sanitizer watches this environment", "wrap(env, to, sanitize=True)")
    return Report(
        findings=tuple(finding for report in reports for finding in report.findings),
        steps=max(report.steps for report in reports),
        seconds=sum(report.seconds for report in reports),
        watched=sum(report.watched for report in reports),
    )


def _sanitizers(env: Any) -> Iterator[_Watched]:
    while env is not None:
        if isinstance(env, _Watched):
            yield env
        for one in getattr(env, "envs", ()) if isinstance(env, SyncVectorEnv) else ():
            yield from _sanitizers(one)
        env = env.env if isinstance(env, (gym.Wrapper, VectorWrapper)) else None
