"""Running means and variances of arrays of any framework, on their device."""

from __future__ import annotations

from typing import Any

from arrayferry._core.dtypes import dtype_name
from arrayferry.wrappers._place import Place, is_float, lift, namespace, place_of

__all__ = ["discounted", "normalized", "scaled", "settle", "update"]


def settle(rms: Any, place: Place | None) -> None:
    """Move a `RunningMeanStd` to a place: it may be new, or come from another environment."""
    if place_of(rms.mean) is place:
        return
    rms.mean, rms.var = lift(place, rms.mean), lift(place, rms.var)
    if place is not None:
        rms.mean, rms.var = place.wide(rms.mean), place.wide(rms.var)
    if place_of(rms.count) is not None:
        rms.count = float(rms.count)


def update(rms: Any, place: Place | None, batch: Any, active: Any = None) -> None:
    """Update a `RunningMeanStd` with a batch, or with its active rows."""
    settle(rms, place)
    if place is None:
        if active is None or active.any():
            rms.update(batch if active is None else batch[active])
        return
    batch = place.wide(batch)
    if active is None:
        mean, var = place.xp.mean(batch, axis=0), place.xp.var(batch, axis=0)
        _combine(rms, mean, var, batch.shape[0])
    else:
        _combine(rms, *_masked_moments(place, batch, active))


def _masked_moments(place: Place, batch: Any, active: Any) -> tuple[Any, Any, Any]:
    """Return mean, variance and count of the active rows, without reading the count from the device."""
    xp, none = place.xp, place.xp.zeros_like(batch)
    count = xp.sum(place.cast(active, "float64"))
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


def normalized(rms: Any, place: Place, observation: Any, epsilon: float) -> Any:
    """Return an observation normalized to mean 0 and variance 1, in float32."""
    settle(rms, place)
    deviation = place.cast(observation, "float64") - rms.mean
    return place.cast(deviation / place.xp.sqrt(rms.var + epsilon), "float32")


def discounted(place: Place | None, total: Any, gamma: float, terminated: Any, reward: Any) -> Any:
    """Return the discounted sum of the rewards so far, which restarts where an episode has terminated."""
    xp = namespace(place)
    goes_on = xp.logical_not(terminated)
    if place is None:
        return total * gamma * goes_on + reward
    return place.wide(total) * gamma * place.wide(goes_on) + place.wide(reward)


def scaled(rms: Any, place: Place | None, reward: Any, epsilon: float) -> Any:
    """Divide a reward by the standard deviation; a float of another framework keeps its dtype."""
    settle(rms, place)
    found = reward / namespace(place).sqrt(rms.var + epsilon)
    return found if place is None or not is_float(reward) else place.cast(found, dtype_name(reward.dtype))
