"""What an environment has returned to its worker, and the error that says where it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arrayferry.errors import UnsupportedError

__all__ = ["check_ids", "check_info", "misfit", "misfit_of_step"]

# What a fault adds to the infos, with the masks of these keys.
_OURS = frozenset(["fault", "fault_reason", "_fault", "_fault_reason"])


class _ReturnError(UnsupportedError, ValueError):
    """What an environment has returned cannot be used; NumPy raises one or the other, too."""


def misfit(what: str, index: int, value: Any, form: str, error: Any = None) -> Exception:
    """Return the error about what environment `index` has returned."""
    reason = f" ({error})" if error else ""
    return _ReturnError(f"{value!r:.200}{reason}", f"return {form}", f"{what} of environment {index}")


def misfit_of_step(index: int, result: Any, error: Exception, targets: Sequence[Any]) -> Exception:
    """Return the error about a step, with the place in it: what the targets do not take."""
    if isinstance(result, (tuple, list)) and len(result) == 5:
        for what, value, target in zip(("reward", "terminated", "truncated"), result[1:], targets):
            try:
                target[index] = value
            except (TypeError, ValueError):
                return misfit(what, index, value, "a single number", error)
    return misfit("step", index, result, "(observation, reward, terminated, truncated, info)", error)


def check_info(index: int, info: Any) -> None:
    """Refuse an environment's info that is no dict, or could be taken for what a fault adds."""
    if not hasattr(info, "items"):
        raise misfit("info", index, info, "a dict")
    if not _OURS.isdisjoint(info):
        key = next(key for key in info if key in _OURS)
        form = f"no key {key!r}, which reports lost workers: rename it, there or in a wrapper"
        raise misfit("info", index, info, form)


def check_ids(rows: Sequence[int], infos: Any) -> None:
    """Refuse infos of a batch that have a key for which `recv` has its own value."""
    for key in ("env_id", "_env_id"):
        if key in infos:
            index = rows[int(infos[f"_{key}"].argmax())]
            form = f"no key {key!r}, which says whose rows a batch has: rename it, there or in a wrapper"
            raise misfit("info", index, infos[key], form)
