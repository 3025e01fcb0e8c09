"""pgx: `env = pgx.make(...)`. Games with many players return a reward for each."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from arrayferry.envs._interface import Interface

__all__ = ["interface"]


def interface(env: Any, params: Any) -> Interface:
    """Describe a game: its info has the current player and the legal actions; its frames are SVG text."""
    is_alone = env.num_players == 1

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        state = env.init(key)
        return state, state.observation, _info(state)

    def step(key: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        state = env.step(state, action, key)
        reward = state.rewards[0] if is_alone else state.rewards
        return state, state.observation, reward, state.terminated, state.truncated, _info(state)

    return Interface(
        reset,
        step,
        None,
        spaces.Discrete(env.num_actions),
        name=f"pgx/{env.id}",
        render=lambda state: state.to_svg(),
        render_mode="ansi",
    )


def _info(state: Any) -> dict[str, Any]:
    return {"current_player": state.current_player, "legal_action_mask": state.legal_action_mask}
