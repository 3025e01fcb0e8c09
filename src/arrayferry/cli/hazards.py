"""What is known to go wrong with the very versions that are installed, and what arrayferry does about it.

Each row was seen in the first and in the last of its versions; of others nothing is said.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

__all__ = ["HAZARDS", "Hazard", "known_hazards"]


@dataclass(frozen=True)
class Hazard:
    """One thing that goes wrong.

    Attributes:
        distribution: what pip calls it; `python` for Python itself.
        first: the first version in which it was seen.
        last: the last one; empty when it will stay so.
        what: what goes wrong.
        remedy: what arrayferry does about it.
    """

    distribution: str
    first: str
    last: str
    what: str
    remedy: str


HAZARDS = (
    Hazard(
        "torch", "2.13", "2.13",
        "from_dlpack of an array with negative strides ends the process (pytorch#188023)",
        "no NumPy memory goes to torch by DLPack; flipped arrays are copied into C order",
    ),
    Hazard(
        "torch", "2.13", "2.13",
        "from_numpy and from_dlpack of a read-only array give a writable tensor on it",
        "read-only arrays are copied",
    ),
    Hazard(
        "torch", "2.13", "2.13",
        "DLPack gives a lazily negated tensor away with the wrong sign",
        "it is resolved first",
    ),
    Hazard(
        "torch", "2.13", "2.13",
        "a tensor that is made inside inference_mode can never be trained on",
        "results are made outside of it",
    ),
    Hazard(
        "jax", "0.6.2", "0.12.0",
        "device_put(may_alias=False) shares memory that is aligned to 64 bytes (jax#37830)",
        "JAX is only given memory that nobody else can write",
    ),
    Hazard(
        "jax", "0.10.2", "0.12.0",
        "from_dlpack(copy=True) shares memory that is aligned to 64 bytes (jax#37830)",
        "it is not used for memory that somebody else holds",
    ),
    Hazard(
        "jax", "0.10.2", "0.10.2",
        "jnp.array reads its input after the call returned: a buffer that is filled again arrives torn",
        "the input is copied into private memory first",
    ),
    Hazard(
        "jax", "0.6.2", "0.12.0",
        "without x64, the int64 2**40 silently becomes 0",
        "an OverflowError that names the leaf",
    ),
    Hazard(
        "jax", "0.6.2", "0.12.0",
        "a compiled function reads big-endian arrays as little-endian",
        "arrays are brought into native byte order",
    ),
    Hazard(
        "jax", "0.6.2", "0.12.0",
        "bools that are stored as other bytes than 0 and 1 are counted wrongly",
        "they are made 0 and 1",
    ),
    Hazard(
        "gymnasium", "1.4.0", "1.4.0",
        "its conversion wrappers turn a text in info into '<generator object ...>'",
        "texts stay as they are",
    ),
    Hazard(
        "gymnasium", "1.4.0", "1.4.0",
        "its conversion wrappers lose their spaces and device when they are pickled",
        "arrayferry's are whole",
    ),
    Hazard(
        "gymnasium", "1.4.0", "1.4.0",
        "MountainCarContinuous-v0 returns its own state: who scales an observation changes the physics",
        "what the environment still holds is copied",
    ),
    Hazard(
        "paddlepaddle", "3.3.1", "3.3.1",
        "importing it after TensorFlow ends the process",
        "it is refused then, with a message",
    ),
    Hazard(
        "python", "3.14", "",
        "reference counts prove nothing any more (cpython#133164)",
        "every leaf is copied; nothing is taken over",
    ),
)  # fmt: skip


def known_hazards() -> dict[str, list[Hazard]]:
    """The hazards of what is installed, by distribution and version, as in `"torch 2.13.0"`."""
    found: dict[str, list[Hazard]] = {}
    for hazard in HAZARDS:
        here = _version(hazard.distribution)
        if here is not None and _within(here, hazard):
            found.setdefault(f"{hazard.distribution} {here}", []).append(hazard)
    return found


def _version(distribution: str) -> str | None:
    if distribution == "python":
        return platform.python_version()
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _within(here: str, hazard: Hazard) -> bool:
    """Compared as far as a bound is written: 2.13.1 is within 2.13."""
    first, last, now = (_numbers(text) for text in (hazard.first, hazard.last, here))
    return now[: len(first)] >= first and (not last or now[: len(last)] <= last)


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version.

    >>> _numbers("2.13.0+cpu")
    (2, 13, 0)
    """
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0]))
