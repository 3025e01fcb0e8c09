"""The arguments of a vector environment's reset: a seed for each environment, and a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry.errors import OptionError

__all__ = ["mask_of", "seeds_of"]


def seeds_of(seed: Any, count: int) -> list[int | None]:
    """Return the seed of each environment; as in Gymnasium, they count up from a single number."""
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + index for index in range(count)]
    try:
        seeds: list[int | None] = [None] * count if seed is None else list(seed)
    except TypeError as error:
        hint = "pass a whole number, or one for each environment"
        raise OptionError(f"seed={seed!r} is not valid", hint) from error
    if len(seeds) != count:
        raise OptionError(f"{len(seeds)} seeds for {count} environments", "pass one for each")
    return seeds


def mask_of(options: dict[str, Any] | None, count: int) -> np.ndarray[Any, Any] | None:
    """Return a copy of `options["reset_mask"]`, which says which environments to reset; None for all."""
    found = (options or {}).get("reset_mask")
    if found is None:
        return None
    mask = np.array(found)
    if mask.shape != (count,) or mask.dtype != bool or not mask.any():
        what = f"reset_mask is {mask.dtype}{list(mask.shape)} with {np.count_nonzero(mask)} True"
        raise OptionError(what, f"pass {count} bools, at least one of them True")
    return mask
