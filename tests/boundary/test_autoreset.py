"""One step of one environment in every autoreset mode, and the infos of many environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from arrayferry._boundary.autoreset import info_rows, mask_of, masked_infos, step_with_autoreset
from arrayferry.errors import OptionError, UnsupportedError

ENDED = "last", 2.0, True, False, {"from": "step"}
BEGUN = "first", {"from": "reset"}


def step_in(mode: AutoresetMode, is_over: bool) -> Any:
    return step_with_autoreset(lambda: ENDED, lambda: BEGUN, mode, is_over)


def test_same_step_resets_in_the_step_that_ends_an_episode() -> None:
    final = {"final_obs": "last", "final_info": {"from": "step"}}
    for is_over in (False, True):
        result = step_in(AutoresetMode.SAME_STEP, is_over)
        assert result == ("first", 2.0, True, False, {"from": "reset"}, final)


def test_next_step_resets_in_the_step_after_it() -> None:
    assert step_in(AutoresetMode.NEXT_STEP, False) == (*ENDED, None)
    assert step_in(AutoresetMode.NEXT_STEP, True) == ("first", 0.0, False, False, {"from": "reset"}, None)


def test_disabled_refuses_the_step_after_it() -> None:
    assert step_in(AutoresetMode.DISABLED, False) == (*ENDED, None)
    with pytest.raises(UnsupportedError, match="whose episode is over"):
        step_in(AutoresetMode.DISABLED, True)


@pytest.mark.parametrize("mask", [[True], [False, False], [1, 0], "ab"])
def test_a_mask_has_a_bool_for_each_environment_and_one_is_true(mask: Any) -> None:
    with pytest.raises(OptionError, match="reset_mask"):
        mask_of({"reset_mask": mask}, 2)


def test_infos_are_told_apart_by_their_masks() -> None:
    over, others = np.array([True, False]), np.array([False, True])
    infos: dict[str, Any] = {"both": np.array([1, 2]), "nested": {"reset": np.array([3, 0])}}
    from_reset = {"both": 0, "nested": {"reset": 0}}
    masked = masked_infos(infos, (over, from_reset), (others, {"both": 0}))
    assert masked["_both"].tolist() == [True, True]
    assert masked["_nested"].tolist() == masked["nested"]["_reset"].tolist() == [True, False]
    assert info_rows(masked, 2) == [{"both": 1, "nested": {"reset": 3}}, {"both": 2}]
