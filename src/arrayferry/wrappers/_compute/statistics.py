"""Running means and variances of arrays of any framework, on their device."""

from __future__ import annotations

from typing import Any

from arrayferry._core.dtypes import dtype_name
from arrayferry.wrappers._compute.array_context import (
    ArrayContext,
    context_of,
    is_float,
    namespace,
    to_context,
)

__all__ = ["discounted", "normalize", "scaled", "update"]


def settle(rms: Any, context: ArrayContext | None) -> None:
    """Move a `RunningMeanStd` to a context: it may be new, or come from another environment."""
    if context_of(rms.mean) is context:
        return
    rms.mean, rms.var = to_context(context, rms.mean), to_context(context, rms.var)
    if context is not None:
        rms.mean, rms.var = context.wide(rms.mean), context.wide(rms.var)
    if context_of(rms.count) is not None:
        rms.count = float(rms.count)


def update(rms: Any, context: ArrayContext | None, batch: Any, active: Any = None) -> None:
    """Update a `RunningMeanStd` with a batch, or with its active rows."""
    settle(rms, context)
    if context is None:
        if active is None or active.any():
            rms.update(batch if active is None else batch[active])
        return
    batch = context.wide(batch)
    if active is None:
        mean, var = context.xp.mean(batch, axis=0), context.xp.var(batch, axis=0)
        _combine(rms, mean, var, batch.shape[0])
    else:
        _combine(rms, *_masked_moments(context, batch, active))


def _masked_moments(context: ArrayContext, batch: Any, active: Any) -> tuple[Any, Any, Any]:
    """Return mean, variance and count of the active rows, without reading the count from the device."""
    xp, none = context.xp, context.xp.zeros_like(batch)
    count = xp.sum(context.cast(active, "float64"))
    divisor = xp.where(count > 0, count, xp.ones_like(count))
    mean = xp.sum(xp.where(active, batch, none)) / divisor
    deviation = xp.where(active, batch - mean, none)
    return mean, xp.sum(deviation * deviation) / divisor, count


def _combine(rms: Any, mean: Any, var: Any, count: Any) -> None:
    """Add the moments of a batch to those of all before it."""
    total = rms.count + count
    old, new, delta = rms.count / total, count / total, mean - rms.mean
    rms.mean = rms.mean + delta * new
    rms.var = rms.var * old + var * new + delta * delta * (old * new)
    rms.count = total


def normalize(wrapper: Any, observation: Any, *, is_batch: bool) -> Any:
    """Normalize what a wrapper observes to mean 0 and variance 1, in float32; return None for NumPy arrays.

    It counts in the statistics if the wrapper's `update_running_mean` is True.
    """
    rms, context = wrapper.obs_rms, context_of(observation)
    settle(rms, context)
    if context is None:
        return None
    if wrapper.update_running_mean:
        update(rms, context, observation if is_batch else observation[None, ...])
    deviation = context.cast(observation, "float64") - rms.mean
    return context.cast(deviation / context.xp.sqrt(rms.var + wrapper.epsilon), "float32")


def discounted(context: ArrayContext | None, total: Any, gamma: float, terminated: Any, reward: Any) -> Any:
    """Return the discounted sum of the rewards so far, which restarts where an episode has terminated."""
    xp = namespace(context)
    goes_on = xp.logical_not(terminated)
    if context is None:
        return total * gamma * goes_on + reward
    return context.wide(total) * gamma * context.wide(goes_on) + context.wide(reward)


def scaled(rms: Any, context: ArrayContext | None, reward: Any, epsilon: float) -> Any:
    """Divide a reward by the standard deviation; a float of another framework keeps its dtype."""
    settle(rms, context)
    found = reward / namespace(context).sqrt(rms.var + epsilon)
    return found if context is None or not is_float(reward) else context.cast(found, dtype_name(reward.dtype))
