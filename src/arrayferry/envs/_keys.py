"""Keys of environments, which derive from their seeds in the same way under every configuration of JAX.

An environment begins with `jax.random.PRNGKey(seed)`, a raw key of threefry2x32 whatever JAX's default is:
under `vmap`, the rbg generators draw from the first key alone. Each reset does
`key, reset_key = jax.random.split(key)`, and step `t` of the episode, counted from 1, gets
`jax.random.fold_in(key, t + 1)`: `fold_in(key, 1)` is the next `reset_key`, as JAX splits keys by default.
So nothing that happens in an episode changes how the next one begins, and packages that draw no random
numbers in a step do not pay for keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from arrayferry._frameworks.jax import jax, refuse_if_forked
from arrayferry.envs._trees import untraced
from arrayferry.errors import OptionError

__all__ = ["keys_of", "reset_keys", "step_key", "threefry"]


@contextmanager
def threefry() -> Iterator[None]:
    """Let keys be raw ones of threefry2x32, whatever the user's configuration says."""
    with jax.default_prng_impl("threefry2x32"), jax.enable_custom_prng(False):
        yield


def keys_of(seeds: Any) -> Any:
    """Return `jax.random.PRNGKey(seed)` for each seed, as a NumPy array; only the lowest bits count."""
    refuse_if_forked()
    if wrong := [seed for seed in seeds if not isinstance(seed, (int, np.integer)) or seed < 0]:
        raise OptionError(f"seed={wrong[0]!r} is not valid", "pass a whole number, at least 0")
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(np.uint64))
    lowest = np.asarray([int(seed) & np.iinfo(dtype).max for seed in seeds], dtype)
    with threefry():
        return np.asarray(untraced(jax.jit(jax.vmap(jax.random.PRNGKey))(lowest)))


def reset_keys(key: Any) -> Any:
    """Return the next key of an environment, and the key of the reset with which it begins."""
    with threefry():
        return jax.random.split(key)


def step_key(key: Any, time: Any) -> Any:
    """Return the key of a step, given its number in the episode."""
    with threefry():
        return jax.random.fold_in(key, time + 1)
