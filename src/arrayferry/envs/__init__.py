"""Environments of other interfaces than Gymnasium's, and what is known about each kind.

| file | the one idea |
|---|---|
| `adapters.py` | `EnvAdapter`, the record about a kind of environment, and how it is found |
| `_known.py` | the table of what is known: one row per class |
| `forwarding.py` | a vector environment's other attributes, and its methods that carry arrays |
| `opening.py` | `as_gymnasium` and `as_parallel`, which `wrap` calls automatically |
| `_interface.py` | `Interface`, how an environment written in JAX is described |
| `_engine.py`, `_environments.py`, `_parallel.py` | such environments, compiled: one, many, many agents |
| `gymnax.py`, `brax.py`, ... | one file per package |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrayferry.envs import _known as _known  # registers them
from arrayferry.envs._environments import JaxEnv, JaxVectorEnv
from arrayferry.envs._interface import Interface
from arrayferry.envs.adapters import EnvAdapter, register_environment
from arrayferry.envs.opening import as_gymnasium, as_parallel

if TYPE_CHECKING:
    from arrayferry.envs._parallel import JaxParallelEnv

__all__ = [
    "EnvAdapter",
    "Interface",
    "JaxEnv",
    "JaxParallelEnv",
    "JaxVectorEnv",
    "as_gymnasium",
    "as_parallel",
    "register_environment",
]


def __getattr__(name: str) -> Any:
    if name == "JaxParallelEnv":  # a subclass of PettingZoo's, which need not be installed
        from arrayferry.envs._parallel import JaxParallelEnv

        return JaxParallelEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
