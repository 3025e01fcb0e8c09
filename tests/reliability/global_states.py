"""R18: global states of the frameworks do not change a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import product
from typing import Any

import jax
import numpy as np
import torch

from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import NAMES, kind_of, made_in, raw


@contextmanager
def _default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def _default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "torch.set_default_device": _default_device,
    "torch.set_default_dtype": _default_dtype,
    "torch.inference_mode": torch.inference_mode,
    "torch.no_grad": torch.no_grad,
    "jax.transfer_guard": lambda: jax.transfer_guard("disallow"),
    "jax.debug_nans": lambda: jax.debug_nans(True),
    "jax.disable_jit": jax.disable_jit,
    "jax.enable_x64": lambda: jax.enable_x64(True),
    "jax.numpy_dtype_promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "np.errstate": lambda: np.errstate(all="raise"),
}

VALUES: dict[str, Callable[[], Any]] = {
    "float32": lambda: np.array([1.5, -0.0, 3e38], "float32"),
    "NaN": lambda: np.array([np.nan, np.inf], "float32"),
    "int32": lambda: np.arange(6, dtype="int32").reshape(2, 3)[::-1],
    "bool": lambda: np.array([True, False]),
    "denormal": lambda: np.array([1e-45], "float32"),
    "float16": lambda: np.array([6e4, 1e-8], "float16"),
}

CASES = list(product(STATES, NAMES, NAMES, VALUES))


def state_changes_nothing(number: int, library: Library) -> None:
    """The same bits, dtype and framework as without the state, and a result that can be used after it."""
    state, source, target, value = CASES[number]
    array = VALUES[value]()
    held = made_in(source, array)
    with STATES[state]():
        result = library.convert({"x": held}, target)["x"]
        named = f"{value} from {source} to {target} under {state}"
        assert kind_of(result) == target, f"{named}: it became a {type(result).__name__}"
    assert str(result.dtype).removeprefix("torch.") == array.dtype.name, f"{named}: {result.dtype}"
    assert raw(result) == raw(array), f"{named}: other values"
    if isinstance(result, torch.Tensor):
        assert not result.is_inference(), f"{named}: it cannot be trained on"


GOALS = [
    Goal(
        name="R18",
        title="global states of the frameworks change nothing",
        trial=state_changes_nothing,
        unit=f"one of {len(STATES)} states, 9 routes and {len(VALUES)} arrays",
        full=len(CASES),
        thin=len(CASES),
        peer=len(CASES),
        sampled=False,
        isolated=True,
    )
]
