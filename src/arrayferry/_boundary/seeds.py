"""Seeds: of each environment in a vector, of those that replace lost ones, and of many processes."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import numpy as np

from arrayferry.errors import OptionError

__all__ = ["process_seed", "seeds_of", "successor_seed"]

_Seed = TypeVar("_Seed", int, list[Any], None)


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


def successor_seed(seed: int, index: int, successors: int, layer: int) -> int:
    """Return the seed of an environment that replaces a lost one, which no other has had.

    Args:
        seed: what the caller gave the environment.
        index: its number.
        successors: how many have replaced it, this one included.
        layer: 0 in a process, 1 for an actor, which may have such processes.
    """
    return int(np.random.SeedSequence([seed, index, successors, layer]).generate_state(1)[0])


def process_seed(
    seed: _Seed, num_envs: int, *, process_index: int | None = None, process_count: int | None = None
) -> _Seed:
    """Return the seed for this process's environments that fits their place among those of all processes.

    Gymnasium's vector environments give environment `i` the seed `seed + i`. With the seed returned here,
    that is true even where `i` counts the environments of all processes.

    Args:
        seed: the seed of all environments; or a list of seeds, one for each environment of all processes;
            None for none.
        num_envs: how many environments each process has.
        process_index: the number of this process; None to take it from `jax.distributed` or
            `torch.distributed`, or 0 without them.
        process_count: how many processes there are; None likewise, or 1.

    Raises:
        OptionError: there is no such process, or a list does not have a seed for each environment.

    Example:
        >>> process_seed(7, num_envs=4, process_index=2, process_count=3)
        15
        >>> process_seed([7, 8, 9, 10], num_envs=2, process_index=1, process_count=2)
        [9, 10]
    """
    if process_index is None or process_count is None:
        index, count = _process()
        process_index = index if process_index is None else process_index
        process_count = count if process_count is None else process_count
    if not 0 <= process_index < process_count:
        what = f"process_index={process_index} is not valid with process_count={process_count}"
        raise OptionError(what, "processes are counted from 0")
    if seed is None:
        return seed
    first = process_index * num_envs
    if isinstance(seed, (int, np.integer)):
        return int(seed) + first
    if len(seed) != process_count * num_envs:
        what = f"{len(seed)} seeds for {process_count} processes with {num_envs} environments each"
        raise OptionError(what, f"pass {process_count * num_envs} seeds, or one number")
    rows: Any = list(seed[first : first + num_envs])
    return rows  # type: ignore[no-any-return]


def _process() -> tuple[int, int]:
    """Return the number of this process, and how many there are."""
    answers = {answer for answer in (_process_of_jax(), _process_of_torch()) if answer and answer[1] > 1}
    if len(answers) > 1:
        what = f"jax.distributed and torch.distributed disagree on which process this is: {sorted(answers)}"
        raise OptionError(what, "pass process_index= and process_count=")
    return answers.pop() if answers else (0, 1)


# Nothing is imported to find out, and JAX is not started, unless `jax.distributed` is initialised.


def _process_of_jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    if jax is None or not jax.distributed.is_initialized():
        return None
    return jax.process_index(), jax.process_count()


def _process_of_torch() -> tuple[int, int] | None:
    torch = sys.modules.get("torch")
    distributed: Any = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()
