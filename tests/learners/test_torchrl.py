"""TorchRL takes our views: its own checks pass, and its rollouts equal the bare environments'."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry.learners import torchrl_env
from learners.bare import COUNT, actions, cart_pole, cart_poles, trajectory

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    envs = pytest.importorskip("torchrl.envs")
    from torchrl.envs.utils import check_env_specs, step_mdp

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
NO_RESETS = [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


@pytest.mark.parametrize("spaces", ["env", "target"])
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "phys2d/CartPole-v1"])
def test_gym_wrapper_takes_a_single_view(name: str, spaces: Any) -> None:
    if name.startswith("phys2d"):
        pytest.importorskip("flax")
    env = envs.GymWrapper(arrayferry.wrap(gym.make(name), "torch", spaces=spaces))
    check_env_specs(env)
    assert env.rollout(40, break_when_any_done=False)["next", "observation"].dtype == torch.float32


@pytest.mark.parametrize("spaces", ["env", "target"])
@pytest.mark.parametrize("mode", NO_RESETS)
def test_gym_wrapper_takes_a_vector_view(mode: AutoresetMode, spaces: Any) -> None:
    view = arrayferry.wrap(cart_poles(mode), "torch", spaces=spaces, reward_dtype="float32")
    env = envs.GymWrapper(view)
    check_env_specs(env)
    assert env.rollout(40, break_when_any_done=False).shape == (COUNT, 40)


@pytest.mark.parametrize("mode", NO_RESETS)
def test_transforms_get_the_shapes_that_torchrl_declares(mode: AutoresetMode) -> None:
    transforms = envs.Compose(envs.RewardSum(), envs.StepCounter(), envs.InitTracker())
    env = envs.TransformedEnv(torchrl_env(cart_poles(mode)), transforms)
    check_env_specs(env)
    rollout = env.rollout(60, break_when_any_done=False)
    assert rollout["next", "episode_reward"].shape == (COUNT, 60, 1)
    # of CartPole, the return of an episode is its length
    assert (rollout["next", "episode_reward"] == rollout["next", "step_count"]).all()


def played(env: Any, moves: Any, seed: int) -> list[tuple[Any, ...]]:
    """Return a trajectory as TorchRL tells it."""
    env.set_seed(seed)
    now = env.reset()
    found: list[Any] = [(now["observation"],)]
    for move in torch.as_tensor(moves):
        now.set("action", torch.nn.functional.one_hot(move, 2))
        now = env.step(now)
        then = now["next"]
        last = (then[key].squeeze(-1) for key in ("reward", "terminated", "truncated"))
        found.append((then["observation"], *last))
        now = env.maybe_reset(step_mdp(now))
    return arrayferry.convert(found, "numpy")  # type: ignore[no-any-return]


class SeededTwice(gym.Wrapper[Any, Any, Any, Any]):
    """TorchRL resets with the seed, and once more without it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.env.reset(seed=seed)
        return self.env.reset(options=options)


def assert_equal(got: list[Any], wanted: list[Any]) -> None:
    assert sum(np.any(step[2]) for step in wanted[1:]) >= 2, "no episode has ended"
    for one, other in zip(got, wanted, strict=True):
        for part, bare in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, bare)


def test_a_single_environment_of_jax_is_what_it_was() -> None:
    pytest.importorskip("flax")
    moves = actions(40)
    wanted = trajectory(SeededTwice(cart_pole()), moves, 3)
    assert_equal(played(torchrl_env(cart_pole()), moves, 3), wanted)


def test_a_vector_is_what_it_was() -> None:
    moves = actions(40, COUNT)
    bare = cart_poles()
    bare.reset(seed=3)  # as TorchRL does it
    wanted = trajectory(bare, moves, None)
    assert_equal(played(torchrl_env(cart_poles()), moves, 3), wanted)


class Counting(gym.Env[Any, Any]):
    """Ends after some steps; all that it observes is their number."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space: Any, length: int) -> None:
        self.observation_space, self.length = space, length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._observe(self.observation_space), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self._observe(self.observation_space), 1.0, self.count == self.length, False, {}

    def _observe(self, space: Any) -> Any:
        if isinstance(space, gym.spaces.Dict):
            return {key: self._observe(one) for key, one in space.items()}
        return np.full(space.shape, self.count, space.dtype)[()]


BOX = gym.spaces.Box(0, 9, (2,))


def counting(mode: AutoresetMode, space: Any) -> Any:
    return gym.vector.SyncVectorEnv([lambda n=n: Counting(space, n) for n in (3, 4)], autoreset_mode=mode)


@pytest.mark.parametrize("mode", NO_RESETS)
def test_final_observations_of_a_dict(mode: AutoresetMode) -> None:
    space = gym.spaces.Dict(a=BOX, n=gym.spaces.MultiDiscrete([9, 9]))
    rollout = torchrl_env(counting(mode, space)).rollout(6, break_when_any_done=False)
    for key in ("a", "n"):
        assert rollout[key][..., 1].tolist() == [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 0, 1]]
        assert rollout["next", key][..., 1].tolist() == [[1, 2, 3, 1, 2, 3], [1, 2, 3, 4, 1, 2]]


class Numbered(Counting):
    """Observes the number of its episode too."""

    episode = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode += 1
        return super().reset(seed=seed, options=options)

    def _observe(self, space: Any) -> Any:
        return np.array([self.episode, self.count], np.float32)


def numbered(mode: AutoresetMode) -> Any:
    space = gym.spaces.Box(0, 999, (2,))
    vector = gym.vector.SyncVectorEnv(
        [lambda n=n: Numbered(space, n) for n in (2, 3, 7)], autoreset_mode=mode
    )
    return vector, torchrl_env(vector)


@pytest.mark.parametrize("mode", NO_RESETS)
@pytest.mark.parametrize("first", range(1, 9))
def test_a_rollout_starts_with_what_the_environments_have_just_observed(
    mode: AutoresetMode, first: int
) -> None:
    vector, env = numbered(mode)
    for steps in (first, 2, 3, 1, 2):  # some end in a step that ends an episode
        before = [one.episode for one in vector.envs]
        rollout = env.rollout(steps, break_when_any_done=False)
        episodes, counts = rollout["observation"][:, 0].T.tolist()
        assert counts == [0, 0, 0]
        assert episodes == [number + 1 for number in before]


@pytest.mark.parametrize("mode", NO_RESETS)
def test_a_rollout_in_pieces_is_the_long_one(mode: AutoresetMode) -> None:
    whole = numbered(mode)[1].rollout(24, break_when_any_done=False)
    _, env = numbered(mode)
    pieces, now = [], env.reset()
    for steps in (2, 1, 3, 6, 5, 7):
        piece = env.rollout(steps, auto_reset=False, tensordict=now, break_when_any_done=False)
        pieces.append(piece)
        now = env.maybe_reset(step_mdp(piece[:, -1]))
    for key in ("observation", ("next", "observation"), ("next", "done"), ("next", "reward")):
        assert torch.cat([piece[key] for piece in pieces], 1).equal(whole[key])


def test_some_environments_cannot_be_reset_after_all_were() -> None:
    _, env = numbered(AutoresetMode.SAME_STEP)
    mask = env.rollout(2, break_when_any_done=False)["next", "done"][:, -1]
    assert mask.any()
    now = env.reset()
    with pytest.raises(RuntimeError, match="partially reset"):
        env.reset(now.set("_reset", mask))
    all_of_them = env.reset(now.set("_reset", torch.ones_like(mask)))
    assert all_of_them["observation"][:, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(9),
        gym.spaces.Dict(a=BOX, n=gym.spaces.Discrete(9)),
        gym.spaces.Dict(a=BOX, n=gym.spaces.Dict(b=BOX)),
        gym.spaces.Dict(state=BOX),
    ],
    ids=str,
)
def test_final_observations_that_torchrl_would_lose_are_refused(space: Any) -> None:
    with pytest.raises(arrayferry.FerryError, match="DISABLED"):
        torchrl_env(counting(AutoresetMode.SAME_STEP, space))
    rollout = torchrl_env(counting(AutoresetMode.DISABLED, space)).rollout(6, break_when_any_done=False)
    assert rollout["next", "terminated"].sum(1).flatten().tolist() == [2, 1]


def test_final_observations_of_a_dict_of_jax() -> None:
    functional = pytest.importorskip("gymnasium.envs.phys2d.cartpole").CartPoleFunctional

    class Named(functional):  # type: ignore[misc, valid-type]
        observation_space = gym.spaces.Dict(a=functional.observation_space)

        def observation(self, *args: Any, **kwargs: Any) -> Any:
            return {"a": super().observation(*args, **kwargs)}

    rollouts = []
    for env, key in ((functional(), "observation"), (Named(), "a")):
        learner = torchrl_env(arrayferry.envs.as_gymnasium(env, COUNT, max_episode_steps=4))
        learner.set_seed(3)
        now, found = learner.reset(), []
        for _ in range(9):
            now = learner.step(now.set("action", torch.eye(2, dtype=torch.int64)[[0] * COUNT]))
            found.append(now["next", key])
            now = learner.maybe_reset(step_mdp(now))
        rollouts.append(torch.stack(found))
    assert rollouts[0].abs().sum(-1).all()
    assert rollouts[0].equal(rollouts[1])
