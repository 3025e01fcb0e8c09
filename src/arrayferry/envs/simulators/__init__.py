"""Batched simulators as Gymnasium vector environments: one engine, and a function for each family.

| file | the one idea |
|---|---|
| `simulator.py` | `Simulator`, the record that says how to drive one, and what one declares |
| `vector_env.py` | `SimulatorVectorEnv`, which does everything else |
| `batches.py` | what a simulator returns: checked, and its rows |
| `modes.py` | torch's modes, and what `reset` takes |
| `families.py` | one function per family, which returns the record |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from gymnasium.vector import VectorWrapper
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from arrayferry._boundary.detect import layers_of
from arrayferry.envs.hints import refuse_options
from arrayferry.envs.simulators.simulator import Simulator
from arrayferry.envs.simulators.vector_env import SimulatorVectorEnv
from arrayferry.errors import UnsupportedError

__all__ = ["OpenSimulator", "SimulatorVectorEnv"]


@final
@dataclass(frozen=True)
class OpenSimulator:
    """Opens the simulators of one family, as `EnvAdapter.open` does.

    Attributes:
        describe: `describe(env, autoreset_mode, final_obs)` returns the record; both may be None.
    """

    describe: Callable[[Any, Any, bool | None], Simulator]

    def __call__(
        self, env: Any, params: Any, num_envs: int | None, autoreset_mode: Any, final_obs: bool | None = None
    ) -> SimulatorVectorEnv:
        """Return a simulator as a vector environment; `final_obs` is explained in `as_gymnasium`."""
        refuse_options(env, num_envs=num_envs, params=params)
        for layer in layers_of(env):
            if isinstance(layer, (VectorWrapper, TimeLimit, RecordEpisodeStatistics)):
                what = f"{type(layer).__name__} is around a simulator, and would miss its resets"
                raise UnsupportedError(
                    what, "pass the simulator inside it, and put wrappers around what you get"
                )
        envs = SimulatorVectorEnv(self.describe(env, autoreset_mode, final_obs))
        if final_obs and not envs.has_final_obs:
            raise UnsupportedError(f"{envs.name} has no final observations to ask for", "leave final_obs out")
        return envs
