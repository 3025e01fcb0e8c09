"""The names of `gymnasium.wrappers.vector.dict_info_to_list`; infos stay in their framework."""

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers.vector import dict_info_to_list as theirs

from arrayferry.wrappers._place import lift

if not TYPE_CHECKING:  # also the names of newer versions
    from gymnasium.wrappers.vector.dict_info_to_list import *  # noqa: F403

__all__ = ["DictInfoToList"]


class DictInfoToList(theirs.DictInfoToList):
    """Gymnasium's `DictInfoToList`, for infos of any framework: a list of what each environment has."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset the environments."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs, _rows(infos, self.num_envs)

    def step(self, actions: Any) -> Any:
        """Take a step in all environments."""
        *found, infos = self.env.step(actions)
        return (*found, _rows(infos, self.num_envs))


def _rows(infos: dict[str, Any], count: int) -> list[dict[str, Any]]:
    assert isinstance(infos, dict)  # as Gymnasium does, not a list already
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, value in infos.items():
        if key.startswith("_"):
            continue
        each = _rows(value, count) if isinstance(value, dict) else value
        assert len(each) == count, f"the info {key!r} has {len(each)} rows for {count} environments"
        mask = infos.get(f"_{key}")
        mask = [True] * count if mask is None else lift(None, mask)  # read from its device once
        for index, row in enumerate(rows):
            if mask[index]:
                row[key] = each[index]
    return rows
