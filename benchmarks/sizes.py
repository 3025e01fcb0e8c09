"""How the cost grows: with leaves, with nesting, with bytes; and what large arrays cost."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import torch
from gymnasium.wrappers.array_conversion import array_conversion
from measure import measure
from rich.table import Table

import arrayferry

if TYPE_CHECKING:
    from rich.console import Console

LEAVES = (1, 3, 10, 30, 100, 300, 1000)
DEPTHS = (1, 3, 10, 30, 100)
BYTES = tuple(16 * 4**power for power in range(13))  # 16 B to 256 MB
LARGE = (1 << 20, 1 << 22, 1 << 24, 1 << 26)

Tell = Callable[[str], None]


def measure_all(tell: Tell) -> dict[str, Any]:
    """The lines of the plots, in microseconds."""
    return {
        "by leaves": {str(n): flat(n, tell) for n in LEAVES},
        "by depth": {str(n): nested(n, tell) for n in DEPTHS},
        "by bytes": {str(n): of_bytes(n, tell) for n in BYTES},
        "large": {str(n): large(n, tell) for n in LARGE},
        "first step": first_steps(tell),
    }


def flat(leaves: int, tell: Tell) -> dict[str, float]:
    """A dict of that many small arrays, new in every call."""
    tell(f"{leaves} leaves")
    return crossing(lambda: {str(i): np.zeros(4, np.float32) for i in range(leaves)})


def nested(depth: int, tell: Tell) -> dict[str, float]:
    """A hundred arrays, under that many dicts."""
    tell(f"depth {depth}")

    def make() -> Any:
        value: Any = {str(i): np.zeros(4, np.float32) for i in range(100)}
        for _ in range(depth - 1):
            value = {"in": value}
        return value

    return crossing(make)


def of_bytes(size: int, tell: Tell) -> dict[str, float]:
    """One array that somebody else holds, so that it has to be copied."""
    tell(f"{size} bytes")
    array, to_jax = np.zeros(size // 4, np.float32), arrayferry.Converter("jax")
    return timed(
        {
            "torch": partial(arrayferry.Converter("torch"), array),
            "JAX": lambda: to_jax(array).block_until_ready(),
            "memcpy": array.copy,
        }
    )


def crossing(make: Callable[[], Any]) -> dict[str, float]:
    to_torch, to_jax = arrayferry.Converter("torch"), arrayferry.Converter("jax")
    best = timed(
        {
            "make": make,
            "torch": lambda: to_torch.take(make()),
            "JAX": lambda: to_jax.take(make()),
        }
    )
    return {name: best[name] - best["make"] for name in ("torch", "JAX")}


def large(size: int, tell: Tell) -> dict[str, float]:
    """Shared memory against Gymnasium and the primitive, and the default against a copy."""
    tell(f"{size >> 20} MB")
    raw = np.zeros(size // 4 + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    array = raw[start : start + size // 4]  # aligned as JAX wants it to share it
    to_jax = arrayferry.Converter("jax")
    share = {name: arrayferry.Converter(name, copy=False) for name in ("torch", "jax")}
    return timed(
        {
            "torch, copy=False": partial(share["torch"], array),
            "torch, Gymnasium": partial(array_conversion, array, xp=torch),
            "torch.from_numpy": partial(torch.from_numpy, array),
            "JAX, copy=False": partial(share["jax"], array),
            "JAX, Gymnasium": partial(array_conversion, array, xp=jnp),
            "jnp.from_dlpack": partial(jnp.from_dlpack, array),
            "torch, default": partial(arrayferry.Converter("torch"), array),
            "JAX, default": lambda: to_jax(array).block_until_ready(),
            "memcpy": array.copy,
        }
    )


def first_steps(tell: Tell) -> dict[str, list[float]]:
    """The first steps of a new wrapper, in a process that has converted before."""
    tell("first steps")
    from works import Toy, dict_of_8, new

    found, action = {}, torch.tensor(1)
    for name, observe in (("Box(4)", new), ("Dict of 8", dict_of_8)):
        times: list[list[float]] = []
        for _ in range(50):
            env = arrayferry.wrap(Toy(observe), "torch")
            env.reset()
            times.append([_time(lambda env=env: env.step(action)) for _ in range(3)])
        found[name] = [min(column) for column in zip(*times)]
    return found


def _time(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return (perf_counter() - start) * 1e6


def timed(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    gc.collect()
    return {name: seconds * 1e6 for name, seconds in measure(calls, laps=12, seconds=0.01).items()}


def show(results: dict[str, Any], console: Console) -> None:
    """What large arrays cost."""
    table = Table(title="one large array, microseconds")
    table.add_column("")
    for size in results["large"]:
        table.add_column(f"{int(size) >> 20} MB", justify="right")
    for name in next(iter(results["large"].values())):
        table.add_row(name, *(f"{row[name]:.1f}" for row in results["large"].values()))
    console.print(table)
    for name, (first, second, third) in results["first step"].items():
        console.print(
            f"{name}: first steps of a new wrapper {first:.0f}, {second:.0f}, {third:.0f} microseconds"
        )
