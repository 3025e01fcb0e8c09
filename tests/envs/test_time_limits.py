"""Time limits are truncations, whatever a package calls them; `test_jax_packages` runs real games."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax")

from arrayferry.envs import as_gymnasium, as_parallel
from envs.time_limited import GAMES, MultiAgentEnv, Params

# The actions of an episode, and whether it terminates and is truncated with a limit of 3 steps.
EPISODES = [([1, 1, 1], (False, True)), ([1, 1, 3], (True, None)), ([0, 7], (True, False))]


@pytest.mark.parametrize("limit", [3, 3.0])
@pytest.mark.parametrize(("actions", "expected"), EPISODES)
@pytest.mark.parametrize("game", GAMES)
def test_gymnax(game: Any, actions: list[int], expected: Any, limit: Any) -> None:
    is_late = game.__name__ == "Late"  # its limit of 4 is one of 3
    env = as_gymnasium((game(), Params(max_steps_in_episode=limit + is_late)))
    envs = as_gymnasium((game(), Params(max_steps_in_episode=limit + is_late)), 2)
    env.reset(seed=0)
    envs.reset(seed=0)
    for action in actions[:-1]:
        assert env.step(action)[2:4] == (False, False)
        envs.step([action, action])
    _, reward, terminated, truncated, _ = env.step(actions[-1])
    assert reward == 0  # as the package has it
    assert (terminated, truncated) == (expected[0], truncated if expected[1] is None else expected[1])
    _, _, *many, info = envs.step([actions[-1], 0])
    assert (bool(many[0][0]), bool(many[1][0])) == (terminated, truncated)
    assert info["final_obs"][0, 0] == sum(actions)


@pytest.mark.parametrize("game", GAMES)
def test_without_a_limit_nothing_is_truncated(game: Any) -> None:
    env = as_gymnasium((game(), Params(max_steps_in_episode=10**6)))
    env.reset(seed=0)
    assert [env.step(1)[2:4] for _ in range(5)] == [(False, False)] * 4 + [(True, False)]


@pytest.mark.parametrize(("actions", "expected"), EPISODES)
def test_jaxmarl(actions: list[int], expected: Any) -> None:
    pytest.importorskip("pettingzoo")
    env = as_parallel(MultiAgentEnv())
    env.reset(seed=0)
    for action in actions:
        assert env.agents == ["a", "b"]
        _, _, terminated, truncated, _ = env.step({"a": action, "b": 0})
    assert env.agents == []
    assert terminated == dict.fromkeys("ab", expected[0])
    assert truncated == dict.fromkeys("ab", not expected[0])
