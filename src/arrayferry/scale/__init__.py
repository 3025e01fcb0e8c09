"""More than one process: workers and hosts that may die, and seeds for each of many processes."""

from arrayferry._boundary.seeds import process_seed
from arrayferry.scale._vector import WaitTimes
from arrayferry.scale.actors import RayVectorEnv
from arrayferry.scale.process import ProcessVectorEnv

__all__ = ["ProcessVectorEnv", "RayVectorEnv", "WaitTimes", "process_seed"]
