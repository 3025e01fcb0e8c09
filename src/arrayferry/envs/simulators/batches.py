"""What a simulator returns: checked, as Gymnasium's values, and its rows apart from everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from arrayferry._boundary.autoreset import is_mask
from arrayferry._core.dtypes import kind_of
from arrayferry._core.registry import describe
from arrayferry.errors import UnsupportedError
from arrayferry.spaces.members import shape_of, to_numpy

__all__ = ["Step", "alike", "first_row", "five_values", "joined", "select", "split_rows", "two_values"]

Info = dict[str, Any]
Step = tuple[Any, Any, Any, Any, Info]

_HINT = "write a gymnasium.vector.VectorEnv that returns what Gymnasium's do around it, and wrap that"


def two_values(name: str, values: Any, count: int) -> tuple[Any, Info]:
    """Return the observation and the info of a reset, which may return the observation alone."""
    values = values if isinstance(values, tuple) else (values, None)
    if len(values) != 2 or not (values[1] is None or isinstance(values[1], Mapping)):
        raise UnsupportedError(f"{name} returns ({', '.join(map(describe, values))}) for a reset", _HINT)
    return _batch(name, values[0], count), dict(values[1] or {})


def five_values(name: str, values: Any, count: int) -> Step:
    """Return the five values of a step; of four, `info["time_outs"]` says which episodes were cut short.

    Raises:
        UnsupportedError: the values are others, or do not have a row for each environment.
    """
    if (
        not isinstance(values, (tuple, list))
        or len(values) not in (4, 5)
        or not isinstance(values[-1], Mapping)
    ):
        kinds = map(describe, values) if isinstance(values, (tuple, list)) else [describe(values)]
        raise UnsupportedError(f"{name} returns ({', '.join(kinds)}) for a step", _HINT)
    obs, reward, *flags, info = values
    _check(name, "reward", reward, count, "fiu")
    flags = [_flag(name, *pair, count) for pair in zip(("terminated", "truncated"), flags)]
    if len(flags) == 1:
        done, cut = flags[0], info.get("time_outs")
        truncated = done & (False if cut is None else _flag(name, "time_outs", cut, count, "biuf"))
        flags = [done & ~truncated, truncated]
    return _batch(name, obs, count), reward, flags[0], flags[1], dict(info)


def _batch(name: str, obs: Any, count: int) -> Any:
    """Return an observation, with dicts for TensorDicts, as members of Dict spaces are; refuse other rows."""
    if hasattr(obs, "batch_size"):
        return {key: _batch(name, value, count) for key, value in obs.items()}
    if isinstance(obs, (Mapping, tuple)):
        for part in obs.values() if isinstance(obs, Mapping) else obs:
            _batch(name, part, count)
        return obs
    if not _has_rows(obs, count):
        what = f"{name} returns {describe(obs)} as observation of {count} environments"
        raise UnsupportedError(what, _HINT)
    return obs


def _flag(name: str, what: str, value: Any, count: int, kinds: str = "biu") -> Any:
    _check(name, what, value, count, kinds)
    return value if kind_of(value.dtype) == "b" else value != 0


def _check(name: str, what: str, value: Any, count: int, kinds: str) -> None:
    if shape_of(value) != (count,) or kind_of(getattr(value, "dtype", None)) not in kinds:
        what = f"{name} returns {describe(value)} as {what} of {count} environments"
        raise UnsupportedError(what, _HINT)


# ---- rows -------------------------------------------------------------------------------------------------


def split_rows(info: Mapping[str, Any], count: int, with_masks: bool = True) -> tuple[Info, Info]:
    """Return the entries of an info that have a row for each environment, and all others; new dicts.

    Masks of other entries are among the first with `with_masks`, among the others without.
    """
    rows: Info = {}
    others: Info = {}
    for key, value in info.items():
        if isinstance(value, Mapping):
            inner, rest = split_rows(value, count, with_masks)
            rows |= {key: inner} if inner else {}
            others |= {key: rest} if rest else {}
        else:
            has_rows = _has_rows(value, count) and (with_masks or not is_mask(key, info))
            (rows if has_rows else others)[key] = value
    return rows, others


def _has_rows(value: Any, count: int) -> bool:
    return (shape_of(value) or ())[:1] == (count,)


def joined(rows: Info, others: Info) -> Info:
    """Return an info that was split."""
    both = {
        key: joined(rows[key], others[key])
        for key in rows.keys() & others.keys()
        if _are_dicts(rows[key], others[key])
    }
    return {**rows, **others, **both}


def alike(new: Info, old: Info, count: int) -> Info:
    """Return the entries of a new info that are not in an old one, or have rows of the same form there."""
    kept = {}
    for key, value in new.items():
        if key in old and _are_dicts(value, old[key]):
            kept[key] = alike(value, old[key], count)
        elif key not in old or _form(value, count) == _form(old[key], count):
            kept[key] = value
    return kept


def _are_dicts(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _form(value: Any, count: int) -> Any:
    if not _has_rows(value, count):
        return isinstance(value, Mapping)
    return shape_of(value), getattr(value.dtype, "kind", value.dtype)  # NumPy loses nothing within a kind


def select(mask: Any, new: Any, old: Any) -> Any:
    """Return a batch with the rows of `new` where a mask is True, and those of `old` elsewhere."""
    import torch

    if isinstance(new, Mapping):  # infos may lack some keys
        both = {key: select(mask, new[key], old[key]) for key in new.keys() & old.keys()}
        return {**old, **new, **both}
    if isinstance(new, tuple):
        return tuple(select(mask, *parts) for parts in zip(new, old))
    if isinstance(new, np.ndarray):  # of a dtype that torch does not have
        return np.where(to_numpy(mask).reshape(-1, *[1] * (new.ndim - 1)), new, old)
    return torch.where(mask.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def first_row(batch: Any) -> Any:
    """Return the first environment's part of a batch."""
    if isinstance(batch, Mapping):
        return {key: first_row(value) for key, value in batch.items()}
    return tuple(map(first_row, batch)) if isinstance(batch, tuple) else batch[0]
