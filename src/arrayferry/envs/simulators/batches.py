"""What a simulator returns: checked, as Gymnasium's values, and its rows apart from everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from arrayferry._boundary.autoreset import is_mask, own_mask
from arrayferry._core.dtypes import kind_of
from arrayferry._core.registry import describe
from arrayferry.errors import UnsupportedError
from arrayferry.spaces.members import shape_of, to_numpy

__all__ = ["Step", "five_values", "merged_infos", "select", "two_values", "with_rows"]

Info = dict[str, Any]
Step = tuple[Any, Any, Any, Any, Info]

_HINT = "write a gymnasium.vector.VectorEnv that returns what Gymnasium's do around it, and wrap that"


def two_values(name: str, values: Any, count: int) -> tuple[Any, Info]:
    """Return the observation and the info of a reset, which may return the observation alone."""
    values = values if isinstance(values, tuple) else (values, None)
    if len(values) != 2 or not (values[1] is None or isinstance(values[1], Mapping)):
        raise UnsupportedError(f"{name} returns ({', '.join(map(describe, values))}) for a reset", _HINT)
    return _batch(name, values[0], count), _as_dicts(values[1] or {})


def five_values(name: str, values: Any, count: int) -> Step:
    """Return the five values of a step; of four, `info["time_outs"]` says which episodes were cut short.

    Raises:
        UnsupportedError: the values are others, or do not have a row for each environment.
    """
    parts = values if isinstance(values, (tuple, list)) else [values]
    if len(parts) not in (4, 5) or not isinstance(parts[-1], Mapping):
        raise UnsupportedError(f"{name} returns ({', '.join(map(describe, parts))}) for a step", _HINT)
    obs, reward, *flags, info = parts
    _check(name, "reward", reward, count, "fiu")
    if len(flags) == 1:
        done, cut = _flag(name, "done", flags[0], count, "biuf"), info.get("time_outs")
        truncated = done & (False if cut is None else _flag(name, "time_outs", cut, count, "biuf"))
        terminated = done & ~truncated
    else:  # floats may be something else, such as costs
        terminated, truncated = (
            _flag(name, *pair, count, "biu") for pair in zip(("terminated", "truncated"), flags)
        )
    return _batch(name, obs, count), reward, terminated, truncated, _as_dicts(info)


def _as_dicts(info: Mapping[str, Any]) -> Info:
    """Return an info with dicts for what is nested in it, also for TensorDicts, which iterate over rows."""
    items = info.items()
    return {key: _as_dicts(value) if isinstance(value, Mapping) else value for key, value in items}


def _batch(name: str, obs: Any, count: int) -> Any:
    """Return an observation, with dicts for TensorDicts, as members of Dict spaces are; refuse other rows."""
    if isinstance(obs, Mapping) or hasattr(obs, "batch_size"):
        return {key: _batch(name, value, count) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_batch(name, part, count) for part in obs)
    return obs if _has_rows(obs, count) else _refuse(name, "observation", obs, count)


def _flag(name: str, what: str, value: Any, count: int, kinds: str) -> Any:
    _check(name, what, value, count, kinds)
    return value if kind_of(value.dtype) == "b" else value != 0


def _check(name: str, what: str, value: Any, count: int, kinds: str) -> None:
    if shape_of(value) != (count,) or kind_of(value.dtype) not in kinds:
        _refuse(name, what, value, count)


def _refuse(name: str, what: str, value: Any, count: int) -> NoReturn:
    raise UnsupportedError(f"{name} returns {describe(value)} as {what} of {count} environments", _HINT)


# ---- rows -------------------------------------------------------------------------------------------------


def with_rows(info: Mapping[str, Any], count: int) -> Info:
    """Return the entries of an info that have a row for each environment, and masks; new dicts."""
    rows: Info = {}
    for key, value in info.items():
        if isinstance(value, Mapping):
            value = with_rows(value, count)
        if value if isinstance(value, dict) else _has_rows(value, count):
            rows[key] = value
    return rows


def merged_infos(count: int, *sources: tuple[Any, Mapping[str, Any]]) -> Info:
    """Return the infos of a step, a reset, or both, with a mask for each entry that has rows.

    Args:
        count: the number of environments.
        sources: the mask of the environments that a step or a reset is about, and its info. The last one
            counts, but an entry that has another form than in the first one is left out.
    """
    merged: Info = {}
    for key in dict.fromkeys(key for _, info in sources for key in info):
        given = [(mask, info) for mask, info in sources if key in info and not is_mask(key, info)]
        masked = [(own_mask(mask, key, info), info[key]) for mask, info in given]
        alike = [pair for pair in masked if _form(pair[1], count) == _form(masked[0][1], count)]
        if not alike:
            continue
        (mask, value), (last_mask, last) = alike[0], alike[-1]
        if isinstance(value, Mapping):
            if not (value := merged_infos(count, *alike)):
                continue
            has_rows = any(is_mask(inner, value) for inner in value)
        elif has_rows := _has_rows(value, count):
            value = value if len(alike) == 1 else select(last_mask, last, value)
        else:
            value = last
        merged[key] = value
        if has_rows:
            merged[f"_{key}"] = mask | last_mask  # an array of its own
    return merged


def _form(value: Any, count: int) -> Any:
    if not _has_rows(value, count):
        return isinstance(value, Mapping)
    return shape_of(value), getattr(value.dtype, "kind", value.dtype)  # NumPy loses nothing within a kind


def _has_rows(value: Any, count: int) -> bool:
    return (shape_of(value) or ())[:1] == (count,)


def select(mask: Any, new: Any, old: Any) -> Any:
    """Return a batch with the rows of `new` where a mask is True, and those of `old` elsewhere."""
    import torch

    if isinstance(new, Mapping):
        return {key: select(mask, value, old[key]) for key, value in new.items()}
    if isinstance(new, tuple):
        return tuple(select(mask, *parts) for parts in zip(new, old))
    if isinstance(new, np.ndarray):  # of a dtype that torch does not have
        return np.where(to_numpy(mask).reshape(-1, *[1] * (new.ndim - 1)), new, old)
    return torch.where(mask.reshape(-1, *[1] * (new.ndim - 1)), new, old)
