"""The real packages: trajectories equal the native ones under the same keys."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import arrayferry

jax = pytest.importorskip("jax")

from arrayferry.envs import as_gymnasium  # noqa: E402

pytestmark = [
    pytest.mark.jax_envs,
    pytest.mark.filterwarnings("default"),  # theirs are not ours
    pytest.mark.timeout(600),
]

SEED, COUNT = 11, 2


def keys(seed: int, steps: int, episode: int = 0) -> tuple[Any, list[Any]]:
    """The key with which an episode begins, and those of the steps after it."""
    key, reset_key = jax.random.split(jax.random.PRNGKey(seed))
    for _ in range(episode):
        key, reset_key = jax.random.split(key)
    return reset_key, [jax.random.fold_in(key, t + 1) for t in range(1, steps + 1)]


def same(one: Any, two: Any) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in leaves)


def row(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def check(env: Any, native: Any, steps: int = 8) -> Any:
    """Compare both rows of a vector with the native functions, episode by episode, and wrap it for torch.

    `native(reset_key, step_keys, actions)` yields the first observation, and `(obs, reward, done)` of steps.
    """
    envs = as_gymnasium(env, COUNT)
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(steps)]
    obs, _ = envs.reset(seed=SEED)
    assert envs.observation_space.contains(jax.tree.map(np.asarray, obs))
    results = [envs.step(one) for one in actions]
    for i in range(COUNT):
        begun, rest, episode = obs, list(zip(actions, results)), 0
        while rest:
            reset_key, step_keys = keys(SEED + i, len(rest), episode)
            trajectory = native(reset_key, step_keys, [action[i] for action, _ in rest])
            assert same(row(begun, i), next(trajectory))
            for want, number, done in trajectory:
                begun, reward, terminated, truncated, info = rest.pop(0)[1]
                assert bool(terminated[i] | truncated[i]) == bool(done)
                assert same(row(info["final_obs"] if done else begun, i), want)
                assert same(reward[i], number)
                if done:
                    episode += 1
                    break
        assert episode > 0, "no episode came to its end"
    wrapped = arrayferry.wrap(env, "torch", num_envs=COUNT) if _has_torch() else None
    if wrapped is not None:
        wrapped.reset(seed=SEED)
        got = arrayferry.convert(wrapped.step(actions[0]), "numpy")
        assert same(got, results[0])
    return envs


def _has_torch() -> bool:
    return "torch" in arrayferry.frameworks()


def test_gymnax() -> None:
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make("CartPole-v1")

    def native(reset_key: Any, step_keys: Any, actions: Any) -> Any:
        obs, state = env.reset(reset_key, params)
        yield obs
        for key, action in zip(step_keys, actions):
            obs, state, reward, done, _ = env.step_env(key, state, action, params)
            yield obs, reward, done

    params = params.replace(max_steps_in_episode=3)
    envs = check((env, params), native)
    assert envs.spec.id == "gymnax/CartPole-v1"
    assert same(pickle.loads(pickle.dumps(envs)).state, envs.state)


def test_gymnax_tells_truncation_apart() -> None:
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make("CartPole-v1")
    short = as_gymnasium((env, params.replace(max_steps_in_episode=3)))
    short.reset(seed=0)
    assert [short.step(t % 2)[2:4] for t in range(3)] == [(False, False)] * 2 + [(False, True)]
    env_alone = as_gymnasium(env)
    env_alone.reset(seed=0)
    ends = [env_alone.step(1)[2:4] for _ in range(12)]
    assert (True, False) in ends
    assert (False, True) not in ends
    # Both in one step.
    fell = ends.index((True, False)) + 1
    both = as_gymnasium((env, params.replace(max_steps_in_episode=fell)))
    both.reset(seed=0)
    assert [both.step(1)[2:4] for _ in range(fell)][-1] == (True, True)


def test_gymnax_from_1_0_on_says_it_itself() -> None:
    """Version 1.0 has `is_truncated`, and its `step_env` gives what is terminated."""
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make("CartPole-v1")

    class Newer(type(env)):  # type: ignore[misc]
        def is_truncated(self, state: Any, params: Any) -> Any:
            return state.time >= params.max_steps_in_episode

        def is_terminal(self, state: Any, params: Any) -> Any:
            return super().is_terminal(state, params.replace(max_steps_in_episode=10**6))

    short = as_gymnasium((Newer(), params.replace(max_steps_in_episode=3)))
    short.reset(seed=0)
    assert [short.step(t % 2)[2:4] for t in range(3)] == [(False, False)] * 2 + [(False, True)]


def test_gymnax_wrappers_are_refused_with_a_hint() -> None:
    purerl = pytest.importorskip("gymnax.wrappers.purerl")
    gymnax = pytest.importorskip("gymnax")
    with pytest.raises(arrayferry.FerryError, match="pass the environment inside"):
        arrayferry.wrap(purerl.LogWrapper(gymnax.make("CartPole-v1")[0]), "numpy")


def test_brax() -> None:
    envs = pytest.importorskip("brax.envs")
    env = envs.create("fast", episode_length=3, auto_reset=False)

    def native(reset_key: Any, step_keys: Any, actions: Any) -> Any:
        state = env.reset(reset_key)
        yield state.obs
        for action in actions:
            state = env.step(state, action)
            yield state.obs, state.reward, state.done

    check(env, native)


def test_brax_of_create_is_reset_here() -> None:
    """Its own autoreset goes back to the first state; a batch is as many environments."""
    envs = pytest.importorskip("brax.envs")
    batched = as_gymnasium(envs.create("fast", episode_length=3, batch_size=5))
    assert batched.num_envs == 5
    batched.reset(seed=0)
    for t in range(1, 7):
        _, _, terminated, truncated, info = batched.step(np.ones((5, 1), np.float32))
        assert not terminated.any()
        assert truncated.all() == (t % 3 == 0)
        assert ("final_obs" in info) == (t % 3 == 0)
        assert not any("first" in key for key in info)


def test_jumanji() -> None:
    jumanji = pytest.importorskip("jumanji")
    env = jumanji.make("Snake-v1", time_limit=3)

    def native(reset_key: Any, step_keys: Any, actions: Any) -> Any:
        state, timestep = env.reset(reset_key)
        yield timestep.observation._asdict()
        for action in actions:
            state, timestep = env.step(state, action)
            yield timestep.observation._asdict(), timestep.reward, timestep.last()

    from jumanji.wrappers import AutoResetWrapper

    envs = check(AutoResetWrapper(env), native)
    assert set(envs.observation_space.spaces) == set(env.observation_spec.__dict__["_specs"])


def test_jumanji_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    jumanji = pytest.importorskip("jumanji")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    from jumanji.environments.routing.cleaner.viewer import CleanerViewer

    drawn = jumanji.make("Cleaner-v0", viewer=CleanerViewer("Cleaner", "rgb_array"))
    frames = as_gymnasium(drawn, 2, render_mode="rgb_array")
    frames.reset(seed=0)
    assert [frame.ndim for frame in frames.render()] == [3, 3]
    window = as_gymnasium(jumanji.make("Snake-v1"), render_mode="rgb_array")
    window.reset(seed=0)
    with pytest.raises(arrayferry.FerryError, match="returns no frame"):
        window.render()


def test_brax_draws() -> None:
    envs = pytest.importorskip("brax.envs")
    env = as_gymnasium(envs.get_environment("inverted_pendulum"), render_mode="rgb_array")
    env.reset(seed=0)
    try:
        frame = env.render()
    except Exception as error:  # MuJoCo's own, of many kinds
        pytest.skip(f"there is nothing to draw with here: {error}")
    assert frame.ndim == 3
    assert frame.dtype == np.uint8


def test_pgx() -> None:
    pgx = pytest.importorskip("pgx")
    env = pgx.make("tic_tac_toe")

    def native(reset_key: Any, step_keys: Any, actions: Any) -> Any:
        state = env.init(reset_key)
        yield state.observation
        for key, action in zip(step_keys, actions):
            state = env.step(state, action, key)
            yield state.observation, state.rewards, state.terminated

    envs = check(env, native)
    _, reward, _, _, info = envs.step(envs.action_space.sample())
    assert reward.shape == (COUNT, 2)
    assert info["legal_action_mask"].shape == (COUNT, 9)
    assert info["current_player"].shape == (COUNT,)
    drawn = as_gymnasium(env, render_mode="ansi")
    drawn.reset(seed=0)
    assert drawn.render().startswith("<svg")


def test_xminigrid() -> None:
    xminigrid = pytest.importorskip("xminigrid")
    env, params = xminigrid.make("MiniGrid-Empty-5x5")
    params = params.replace(max_steps=3)

    def native(reset_key: Any, step_keys: Any, actions: Any) -> Any:
        timestep = env.reset(params, reset_key)
        yield timestep.observation
        for action in actions:
            timestep = env.step(params, timestep, action)
            yield timestep.observation, timestep.reward, timestep.last()

    from xminigrid.wrappers import GymAutoResetWrapper

    check((GymAutoResetWrapper(env), params), native)
    short = as_gymnasium((env, params.replace(max_steps=2)), render_mode="rgb_array")
    short.reset(seed=0)
    assert [short.step(1)[2:4] for _ in range(2)] == [(False, False), (False, True)]
    assert short.render().ndim == 3


def test_playground() -> None:
    registry = pytest.importorskip("mujoco_playground").registry
    overrides = {"impl": "jax", "episode_length": 2}
    env = registry.load("CartpoleBalance", config_overrides=overrides)
    envs = as_gymnasium(env, COUNT)
    obs, _ = envs.reset(seed=SEED)
    state = jax.jit(env.reset)(keys(SEED, 0)[0])
    assert same(obs[0], state.obs)
    action = np.full((COUNT, 1), 0.5, np.float32)
    after, reward, *_ = envs.step(action)
    state = jax.jit(env.step)(state, action[0])
    assert same((after[0], reward[0]), (state.obs, state.reward))
    begun, _, terminated, truncated, info = envs.step(action)
    assert (terminated.any(), truncated.all()) == (False, True)
    assert not same(begun[0], obs[0])
    assert not same(info["final_obs"], begun)


def test_jaxmarl() -> None:
    jaxmarl = pytest.importorskip("jaxmarl")
    pettingzoo = pytest.importorskip("pettingzoo")
    from arrayferry.envs import as_parallel

    env = jaxmarl.make("MPE_simple_spread_v3", max_steps=4)
    parallel = as_parallel(env)
    assert isinstance(parallel, pettingzoo.ParallelEnv)
    obs, infos = parallel.reset(seed=SEED)
    reset_key, step_keys = keys(SEED, 5)
    want, state = env.reset(reset_key)
    assert same(obs, want)
    for t, key in enumerate(step_keys, 1):
        actions = {agent: (t + i) % 5 for i, agent in enumerate(parallel.agents)}
        obs, rewards, terminated, truncated, infos = parallel.step(actions)
        want, state, numbers, dones, _ = env.step_env(key, state, actions)
        assert same(obs, want)
        assert rewards == pytest.approx({agent: float(numbers[agent]) for agent in env.agents}, rel=1e-4)
        assert set(truncated.values()) == {t == 5} == {bool(dones["__all__"])}
        assert not any(terminated.values())
        assert list(infos) == list(env.agents)
    assert parallel.agents == []
    copied = pickle.loads(pickle.dumps(parallel))
    assert same(copied.reset()[0], parallel.reset()[0])
    with pytest.raises(arrayferry.FerryError, match="as_parallel"):
        as_gymnasium(env)
    with pytest.raises(arrayferry.FerryError, match="no vector environments"):
        as_parallel(env, num_envs=3)  # type: ignore[arg-type]


def test_jaxmarl_has_a_state_for_all_agents() -> None:
    jaxmarl = pytest.importorskip("jaxmarl")
    pytest.importorskip("pettingzoo")
    from arrayferry.envs import as_parallel

    env = jaxmarl.make("MPE_simple_facmac_3a_v1")
    parallel = as_parallel(env)
    parallel.reset(seed=SEED)
    _, state = env.reset(keys(SEED, 0)[0])
    assert same(parallel.state(), env.get_world_state(state))
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset(seed=SEED)
    assert isinstance(jax.tree.leaves(wrapped.state())[0], np.ndarray)
    assert same(wrapped.state(), parallel.state())
    without = as_parallel(jaxmarl.make("MPE_simple_v3"))
    without.reset(seed=SEED)
    with pytest.raises(NotImplementedError, match="no state for all agents"):
        without.state()


def test_jaxmarl_passes_the_test_of_pettingzoo() -> None:
    jaxmarl = pytest.importorskip("jaxmarl")
    parallel_api_test = pytest.importorskip("pettingzoo.test").parallel_api_test
    from arrayferry.envs import as_parallel

    parallel_api_test(as_parallel(jaxmarl.make("MPE_simple_v3", max_steps=5)), num_cycles=12)


def test_jaxmarl_through_wrap() -> None:
    jaxmarl = pytest.importorskip("jaxmarl")
    pytest.importorskip("pettingzoo")
    torch = pytest.importorskip("torch")
    env = arrayferry.wrap(jaxmarl.make("MPE_simple_v3"), "torch")
    obs, _ = env.reset(seed=0)
    assert isinstance(obs["agent_0"], torch.Tensor)
    obs, rewards, *_ = env.step({"agent_0": torch.tensor(1)})
    assert isinstance(obs["agent_0"], torch.Tensor)
    assert type(rewards["agent_0"]) is float


# ---- time limits are truncations -------------------------------------------------------------------------

SHORT, LONG = 3, 10**6


def end_of(env: Any, seed: int) -> tuple[int, bool, bool]:
    """When and how an episode of random actions ends, within the short limit."""
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for t in range(1, SHORT + 1):
        terminated, truncated = env.step(env.action_space.sample())[2:4]
        if terminated or truncated:
            return t, terminated, truncated
    return SHORT, False, False


def compare_ends(limited: Any, endless: Any) -> None:
    """Where only the limited one ends it is truncated, and not terminated; where both do, terminated."""
    for seed in range(3):
        time, terminated, truncated = end_of(limited, seed)
        assert (time, terminated) == end_of(endless, seed)[:2]
        assert terminated or (truncated and time == SHORT)


def _gymnax_games() -> list[str]:
    try:
        return sorted(__import__("gymnax").registered_envs)
    except ImportError:
        return ["CartPole-v1"]


def _jumanji_games() -> list[str]:
    try:
        return sorted(__import__("jumanji").registered_environments())
    except ImportError:
        return ["Snake-v1"]


@pytest.mark.parametrize("game", _gymnax_games())
def test_time_limits_of_gymnax(game: str) -> None:
    gymnax = pytest.importorskip("gymnax")
    if game == "SimpleBandit-bsuite":
        pytest.skip("gymnax's own step raises")
    try:
        env, params = gymnax.make(game)
    except OSError as error:
        pytest.skip(f"it cannot be downloaded: {error}")
    kind = type(params.max_steps_in_episode)
    limited, endless = (params.replace(max_steps_in_episode=kind(limit)) for limit in (SHORT, LONG))
    compare_ends(as_gymnasium((env, limited)), as_gymnasium((env, endless)))


@pytest.mark.parametrize("game", _jumanji_games())
def test_time_limits_of_jumanji(game: str) -> None:
    jumanji = pytest.importorskip("jumanji")
    if game.startswith("Sokoban"):
        from jumanji.environments.routing.sokoban.env import Sokoban
        from jumanji.environments.routing.sokoban.generator import SimpleSolveGenerator

        make: Any = lambda **limit: Sokoban(generator=SimpleSolveGenerator(), **limit)  # noqa: E731
    else:
        make = lambda **limit: jumanji.make(game, **limit)  # noqa: E731
    if hasattr(make().unwrapped, "time_limit"):
        compare_ends(as_gymnasium(make(time_limit=SHORT)), as_gymnasium(make(time_limit=LONG)))
    else:
        compare_ends(as_gymnasium(make(), max_episode_steps=SHORT), as_gymnasium(make()))


@pytest.mark.parametrize("name", ["fast", "inverted_pendulum", "reacher"])
def test_time_limits_of_brax(name: str) -> None:
    envs = pytest.importorskip("brax.envs")
    limited, endless = (envs.create(name, episode_length=limit) for limit in (SHORT, LONG))
    compare_ends(as_gymnasium(limited), as_gymnasium(endless))


@pytest.mark.parametrize("name", ["MiniGrid-Empty-5x5", "MiniGrid-DoorKey-5x5", "XLand-MiniGrid-R1-9x9"])
def test_time_limits_of_xminigrid(name: str) -> None:
    xminigrid = pytest.importorskip("xminigrid")
    env, params = xminigrid.make(name)
    limited, endless = (params.replace(max_steps=limit) for limit in (SHORT, LONG))
    compare_ends(as_gymnasium((env, limited)), as_gymnasium((env, endless)))


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "2048"])
def test_time_limits_of_pgx(name: str) -> None:
    env = pytest.importorskip("pgx").make(name)
    compare_ends(as_gymnasium(env, max_episode_steps=SHORT), as_gymnasium(env))


@pytest.mark.parametrize("name", ["CartpoleBalance", "PendulumSwingup", "AcrobotSwingup"])
def test_time_limits_of_playground(name: str) -> None:
    registry = pytest.importorskip("mujoco_playground").registry
    limited, endless = (
        registry.load(name, config_overrides={"impl": "jax", "episode_length": limit})
        for limit in (SHORT, LONG)
    )
    compare_ends(as_gymnasium(limited), as_gymnasium(endless))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("MPE_simple_spread_v3", {"max_steps": 2}),
        ("overcooked", {"max_steps": 3}),
        ("coin_game", {"num_inner_steps": 3, "num_outer_steps": 1}),
        ("HeuristicEnemySMAX", {"max_steps": 2}),
    ],
)
def test_time_limits_of_jaxmarl(name: str, options: dict[str, int]) -> None:
    jaxmarl = pytest.importorskip("jaxmarl")
    pytest.importorskip("pettingzoo")
    from arrayferry.envs import as_parallel

    limited, endless = as_parallel(jaxmarl.make(name, **options)), as_parallel(jaxmarl.make(name))
    for env, is_late in (limited, True), (endless, False):
        env.reset(seed=0)
        for t in range(1, SHORT + 1):
            actions = {agent: env.action_space(agent).sample() for agent in env.agents}
            _, _, terminated, truncated, _ = env.step(actions)
            assert not any(terminated.values())
            assert set(truncated.values()) == {is_late and t == SHORT}


def test_jaxmarl_that_ends_at_its_limit_is_terminated() -> None:
    """Somebody answers the riddle in the last step."""
    jaxmarl = pytest.importorskip("jaxmarl")
    pytest.importorskip("pettingzoo")
    from arrayferry.envs import as_parallel

    env = jaxmarl.make("switch_riddle")
    env.max_steps = 1
    for action, expected in (env.game_actions["TELL"], (True, False)), (0, (False, True)):
        parallel = as_parallel(env)
        parallel.reset(seed=0)
        _, _, terminated, truncated, _ = parallel.step(dict.fromkeys(parallel.agents, action))
        assert (set(terminated.values()), set(truncated.values())) == ({expected[0]}, {expected[1]})
