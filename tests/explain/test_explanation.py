"""What a user can do about what was found."""

from __future__ import annotations

import arrayferry
from arrayferry._explain.explanation import advice_for
from arrayferry._explain.leaves import Leaf


def test_final_observations_are_advised():
    leaf = Leaf(
        path='info["final_obs"][0]',
        shape=(4,),
        before="float32",
        after="float32",
        route=("numpy", "torch"),
        memory="copied",
        reason="view",
        why="",
        nbytes=16,
    )
    assert tuple(advice_for([leaf], arrayferry.Converter("numpy"))) == (
        "final_obs is an array of objects: dense_final=True makes it one batch",
    )
