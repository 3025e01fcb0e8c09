"""The names of `gymnasium.wrappers.vector.dict_info_to_list`; infos stay in their framework."""

from typing import Any

from gymnasium.wrappers.vector import dict_info_to_list as theirs

from arrayferry._boundary.autoreset import info_rows

__all__ = ["DictInfoToList"]


class DictInfoToList(theirs.DictInfoToList):
    """Gymnasium's `DictInfoToList`, for infos of any framework: a list with an info per environment."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset the environments."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs, info_rows(infos, self.num_envs)

    def step(self, actions: Any) -> Any:
        """Take a step in all environments."""
        *found, infos = self.env.step(actions)
        return (*found, info_rows(infos, self.num_envs))
