"""Gymnasium's wrappers that compute with NumPy, and warn around an environment of another framework."""

from __future__ import annotations

from typing import Any

from arrayferry._boundary.detect import suggested_framework
from arrayferry._core.messages import warn_caller
from arrayferry.errors import FrameworkWarning
from arrayferry.wrappers.base import known_framework

__all__ = ["ComputesWithNumpy"]


class ComputesWithNumpy:
    """Warns at the first reset if arrays other than NumPy's come in, because NumPy's come out."""

    env: Any
    _has_warned = False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        if not self._has_warned:
            self._has_warned = True
            known = known_framework(self.env)
            found = known or suggested_framework(self.env)
            if found is not None and found[0].name != "numpy":
                name, framework, verb = type(self).__name__, found[0].name, "returns" if known else "holds"
                what = f"{name} computes with NumPy, but the environment inside it {verb} {framework} arrays"
                remedy = f"put it inside the conversion: arrayferry.wrap({name}(env, ...), {framework!r})"
                warn_caller(f"{what}: {remedy}", FrameworkWarning)
        result: tuple[Any, dict[str, Any]] = super().reset(seed=seed, options=options)  # type: ignore[misc]
        return result
