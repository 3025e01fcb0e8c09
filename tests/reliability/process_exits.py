"""R5: a process that converted ends as it should: no abort, no hang, whatever is still alive or under way."""

from __future__ import annotations

from itertools import product

from reliability.goals import Goal
from reliability.libraries import Library
from reliability.trials import run_program

ROUTES = [f"{a} {b}" for a, b in product(["numpy", "torch", "jax"], repeat=2) if a != b]

START = """
import numpy as np
from arrayferry.testing import at_offset
from reliability.libraries import LIBRARIES
convert = LIBRARIES[{library!r}].convert
kept = []
"""

# How a source of each framework is made of NumPy's memory.
MAKE = {
    "numpy": "make = lambda array: array\n",
    "torch": "import torch\nmake = torch.from_numpy\n",
    "jax": "import jax\nmake = jax.device_put\n",
}

LOOP = """
for number in range({times}):
    result = convert(make(at_offset(np.full({size} // 4, number, "float32"), {offset})), {target!r})
    if {keep} and number % 2:
        kept.append(result)
"""

# Where a computation is still running when the process ends.
IN_FLIGHT = """
import jax, jax.numpy as jnp
work = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, y: jnp.sin(y @ y), x))
for offset in 0, 4:
    kept.append(convert(make(at_offset(np.ones((900, 900), "float32"), offset)), "jax"))
    kept.append(work(kept[-1]))
work(convert(make(np.ones((900, 900), "float32")), "jax"))
"""

FROM_IN_FLIGHT = """
import jax, jax.numpy as jnp
source = jnp.ones((900, 900))
pending = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, y: jnp.sin(y @ y), x))(source)
kept += [convert(source, target) for target in ({target!r}, "jax")]
"""


def _loop(route: str, size: int, keep: bool, offset: int) -> str:
    source, target = route.split()
    times = 60 if size > 100_000 else 300
    return MAKE[source] + LOOP.format(times=times, size=size, offset=offset, target=target, keep=keep)


# The hardest first, as `make test` makes only some: large, unaligned, or with work in flight.
HARD = {
    "numpy to jax, work in flight": MAKE["numpy"] + IN_FLIGHT,
    "torch to jax, work in flight": MAKE["torch"] + IN_FLIGHT,
    "jax to torch, work in flight": FROM_IN_FLIGHT.format(target="torch"),
    "jax to numpy, work in flight": FROM_IN_FLIGHT.format(target="numpy"),
}
LOOPS = {
    f"{route}, {size} bytes, {'kept' if keep else 'dropped'}, at {offset}": _loop(route, size, keep, offset)
    for size, offset, keep, route in product([2 << 20, 4096], [4, 0], [True, False], reversed(ROUTES))
}
EXITS = {**HARD, **dict(sorted(LOOPS.items(), key=lambda one: " jax, 2097152" not in one[0]))}


def ends_well(number: int, library: Library) -> None:
    name, code = list(EXITS.items())[number % len(EXITS)]
    program = START.format(library=library.name) + code + "\nprint('left')"
    exit_code, said, complained = run_program(["-c", program], 60)
    assert exit_code is not None, f"{name}: it did not exit within 60 s"
    assert exit_code == 0, f"{name}: exit code {exit_code}: {complained.splitlines()[-1:]}"
    assert said == "left\n", f"{name}: it did not get to its end"


GOALS = [
    Goal(
        name="R5",
        title="a process exits cleanly",
        trial=ends_well,
        unit=f"an exit of one of {len(EXITS)} programs: 6 routes, small and large, some with work in flight",
        full=6 * len(EXITS),
        thin=5,
        peer=2 * len(EXITS),
        isolated=True,
        patience=200,
    )
]
