"""An environment with infos of all kinds, and the comparison of vectors of it with `SyncVectorEnv`."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from scale.test_process import DISABLED, Toy, assert_equal

if TYPE_CHECKING:
    from gymnasium.vector import SyncVectorEnv, VectorEnv

# What the rows of one key may be together; which row has which, and whether it has any, is random.
VALUES: dict[str, list[Any]] = {
    "numbers": [1, 0.9, True, -3, 2.5, np.float32(0.1), np.int8(7), np.uint64(2**63), np.bool_(True)],
    "large numbers": [1, 2**40, 2**70, 1e300, -1],
    "text": ["ab", "cdefg", "", "ü" * 50],
    "arrays of text": [np.array(["ab", "c"]), np.array(["cdefg", "h"])],
    "anything": [None, 1, 0.5, "text", [1, 2], (3,), b"bytes", {4}, 1 + 2j, np.array(3), np.float16(1)],
    "arrays": [np.arange(2), np.array([0.5, 1.5]), np.array([True, False]), np.ones(2, np.float32)],
    "shapes": [np.zeros(2), np.ones((2, 2)), np.zeros(()), np.zeros(0), [1.0, 2.0]],
    "objects": [np.array([None, "a"], object), np.array([1, {}], object)],
    "dates": [np.datetime64("2020-01-01"), np.array("2020-01-01T12:00", "datetime64[m]")],
    "nested": [{"n": 1}, {"n": 0.9, "deep": {"text": "ab"}}, {"deep": {"text": "cdefg", "n": 2.5}}, {}],
    "dicts and numbers": [{"n": 1}, 2, None],
    "ordered": [OrderedDict(b=1, a=0.5), OrderedDict(a=2)],
    "final_obs": [np.zeros(3), "text", None],
    "_mask": [1, 0.5],
}


class Tells(Toy):
    """Its infos have a random selection of keys and values."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed=seed, options=options)
        return obs, {**info, **self._tell()}

    def step(self, action: Any) -> Any:
        *result, info = super().step(action)
        return *result, {**info, **self._tell()}

    def _tell(self) -> dict[Any, Any]:
        random = self.np_random
        count = int(random.integers(0, 5))
        keys = [list(VALUES)[index] for index in random.integers(len(VALUES), size=count)]
        return {key: VALUES[key][random.integers(len(VALUES[key]))] for key in keys} | (
            {7: 8} if count else {}
        )


def compare_infos(ours: VectorEnv[Any, Any, Any], sync: SyncVectorEnv, steps: int) -> int:
    """Compare every result, and every exception; return how many results there were."""
    results = 0
    actions = np.zeros(sync.num_envs, int)
    needs_reset, mask = True, None
    for number in range(steps):
        if needs_reset:
            calls = [lambda envs, seed=number: envs.reset(seed=seed)] * 2
        elif mask is not None:
            calls = [lambda envs, mask=mask: envs.reset(options={"reset_mask": mask.copy()})] * 2
        else:
            calls = [lambda envs: envs.step(actions)] * 2
        (mine, error), (expected, expected_error) = (
            _outcome(call, envs) for call, envs in zip(calls, (ours, sync))
        )
        assert (type(error), str(error)) == (type(expected_error), str(expected_error))
        needs_reset, mask = expected_error is not None, None
        if expected_error is None:
            assert_equal(mine, expected)
            results += 1
            if sync.autoreset_mode is DISABLED and len(expected) == 5 and (expected[2] | expected[3]).any():
                mask = expected[2] | expected[3]
    return results


def _outcome(call: Any, envs: Any) -> tuple[Any, Exception | None]:
    try:
        return call(envs), None
    except Exception as error:
        return None, error
