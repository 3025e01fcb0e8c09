"""More than one process: worker processes that may die."""

from arrayferry.scale.process import ProcessVectorEnv

__all__ = ["ProcessVectorEnv"]
