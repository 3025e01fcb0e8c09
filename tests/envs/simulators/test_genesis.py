"""Genesis itself, on the CPU, in an environment like its examples': `make test-with NAME=genesis`."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.genesis, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
pytest.importorskip("genesis")

from arrayferry import wrap  # noqa: E402
from envs.simulators.real_genesis import Carts  # noqa: E402
from envs.simulators.test_vector_env import assert_same, leaves_of  # noqa: E402

LIMITS = [3, 5, 4, 7]


@pytest.fixture(scope="module")
def sims() -> Any:
    """Two simulators, which take most of the time to build."""
    return Carts(LIMITS), Carts(LIMITS)


def actions_of(step: int) -> Any:
    return torch.sin(torch.arange(len(LIMITS)) + step)[:, None] * 5


def test_a_rollout_is_that_of_the_bare_simulator_and_stays_as_it_was(sims: Any) -> None:
    bare, envs = sims[0], wrap(sims[1], "torch")
    assert_same(envs.reset()[0], {"policy": bare.reset()["policy"]})
    kept, copies = [], []
    for step in range(20):
        result = envs.step(actions_of(step).double().requires_grad_())
        obs, reward, done, extras = bare.step(actions_of(step))
        assert_same([*result[:4]], [{"policy": obs["policy"]}, reward, done & False, done])
        assert ("episode" in result[4]) == bool(done.any())
        assert result[4]["time_outs"].tolist() == extras["time_outs"].tolist()
        kept += [leaf for leaf in leaves_of(result) if isinstance(leaf, torch.Tensor)]
        copies += [leaf.clone() for leaf in kept[len(copies) :]]
    assert all(map(torch.equal, kept, copies))
    assert not any(leaf.requires_grad or leaf.dtype is torch.float64 for leaf in kept)


def test_it_goes_on_after_a_rollout_in_inference_mode(sims: Any) -> None:
    envs = wrap(sims[1], "numpy")
    envs.reset()
    with torch.inference_mode():
        envs.step(actions_of(0).numpy())
    envs.reset()
    assert [envs.step(actions_of(step).numpy())[3].any() for step in range(4)] == [False, False, True, True]
    assert not envs.unwrapped.has_final_obs
