"""More than one process: workers and hosts that may die, and seeds for each of many processes."""

from arrayferry.scale.actors import RayVectorEnv
from arrayferry.scale.process import ProcessVectorEnv
from arrayferry.scale.seeds import process_seed

__all__ = ["ProcessVectorEnv", "RayVectorEnv", "process_seed"]
