"""Frameworks that are no real ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry import Framework, Source, Target
from arrayferry._core.dtypes import ML_DTYPES, STANDARD

# As NumPy has them, but without what makes it fast.
SOURCE = Source(read=lambda array: array, view=lambda array: array)
TARGET = Target(take=np.asarray, share=np.asarray, dtypes=lambda: STANDARD | ML_DTYPES)


class FakeFramework(Framework):
    """A framework put together from parts: NumPy's, if nothing else is said.

    Args:
        name: its name.
        source: how all of its arrays are read.
        target: how its arrays are made, on all devices; or a function of the device.
        attributes: its other attributes and methods.
    """

    def __init__(
        self, name: str = "fake", *, source: Source = SOURCE, target: Any = TARGET, **attributes: Any
    ) -> None:
        parts = {"modules": ("numpy",), "arrays": (), "_source": source, "_target": target}
        vars(self).update(parts, name=name, **attributes)

    def source(self, cls: type) -> Source:
        """Return how its arrays are read."""
        return self._source  # type: ignore[attr-defined, no-any-return]

    def target(self, device: Any) -> Target:
        """Return how its arrays are made."""
        target: Any = self._target  # type: ignore[attr-defined]
        return target if isinstance(target, Target) else target(device)
