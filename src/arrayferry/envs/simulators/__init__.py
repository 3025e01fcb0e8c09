"""Batched simulators as Gymnasium vector environments: one engine, and a function for each family.

| file | the one idea |
|---|---|
| `simulator.py` | `Simulator`, the record that says how to drive one, and how one is asked and called |
| `vector_env.py` | `SimulatorVectorEnv`, which does everything else |
| `batches.py` | what a simulator returns: checked, and its rows |
| `families.py` | one function per family, which returns the record; `open_simulator`, which calls it |
"""

from arrayferry.envs.simulators.vector_env import SimulatorVectorEnv

__all__ = ["SimulatorVectorEnv"]
