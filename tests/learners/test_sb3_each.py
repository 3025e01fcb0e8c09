"""Each environment behind `sb3_vec_env` is asked, and speaks, as behind Stable-Baselines3's `DummyVecEnv`."""

from __future__ import annotations

import json
import socket
import warnings
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.learners import sb3_vec_env
from arrayferry.scale import ProcessVectorEnv
from learners.counting import (
    Announcing,
    Counting,
    DeadlyReset,
    Named,
    Reaching,
    Renamed,
    Talkative,
    limited,
    monitored,
    unmonitored,
)

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor  # noqa: E402

MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED]
# Not forked, because JAX may have started in this process.
KINDS = {
    "sync": SyncVectorEnv,
    "async": partial(gym.vector.AsyncVectorEnv, context="forkserver"),
    "processes": partial(ProcessVectorEnv, workers=2),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_mode = pytest.mark.parametrize("mode", MODES)


def made(kind: str, env_fns: Any, mode: AutoresetMode = AutoresetMode.SAME_STEP) -> Any:
    return KINDS[kind](env_fns, autoreset_mode=mode)


def assert_same(ours: Any, theirs: Any) -> None:
    """Assert that two structures are equal, and of the same types; theirs has an OrderedDict or a dict."""
    assert type(ours) is (dict if isinstance(theirs, dict) else type(theirs)), (ours, theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert_same(ours[key], theirs[key])
    elif isinstance(ours, (list, tuple)):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


# ---- what they say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True])
@every_kind
@every_mode
def test_300_steps_are_what_dummy_vec_env_shows(mode: AutoresetMode, kind: str, nested: bool) -> None:
    env_fns = [partial(Talkative, nested)] * 4
    ours, theirs = sb3_vec_env(made(kind, env_fns, mode)), DummyVecEnv(env_fns)
    for venv in (ours, theirs):
        venv.seed(5)
    assert_same(*(venv.reset() for venv in (ours, theirs)))
    assert_same(ours.reset_infos, theirs.reset_infos)
    for actions in np.random.default_rng(0).integers(0, 3, (300, 4)):
        assert_same(*(venv.step(actions) for venv in (ours, theirs)))
        assert_same(ours.reset_infos, theirs.reset_infos)
    ours.close()
    ours.close()


@every_kind
def test_infos_of_the_vector_itself_are_gymnasium_s_again(kind: str) -> None:
    envs, alone = made(kind, [Counting] * 2), SyncVectorEnv([Counting] * 2)
    venv = sb3_vec_env(envs)
    venv.reset()
    venv.step(np.zeros(2, int))
    (_, info), (_, wanted) = envs.reset(), alone.reset()
    assert info.keys() == wanted.keys()
    assert [(value.dtype, value.tolist()) for value in info.values()] == [
        (value.dtype, value.tolist()) for value in wanted.values()
    ]
    venv.close()


class Lost(Counting):
    """Has NaN next to an int in the infos of one of its steps; if that is step 0, of its resets."""

    def __init__(self, at: int = 2) -> None:
        super().__init__()
        self.at = at

    def reset(self, **arguments: Any) -> Any:
        obs, info = super().reset(**arguments)
        return obs, {**info, "where": 1 if self.at else float("nan")}

    def step(self, action: Any) -> Any:
        *step, info = super().step(action)
        return *step, {**info, "where": float("nan") if self.count == self.at else 1}


@pytest.mark.parametrize("at", [0, 2], ids=["reset", "step"])
@pytest.mark.parametrize("is_switched", [False, True])
@every_kind
def test_the_sanitizer_sees_the_infos_of_each(kind: str, is_switched: bool, at: int) -> None:
    envs = made(kind, [Counting, partial(Lost, at)])
    if is_switched:
        with arrayferry.sanitize(True):
            venv = sb3_vec_env(envs)
    else:
        venv = sb3_vec_env(arrayferry.wrap(envs, "numpy", sanitize=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", arrayferry.sanitizer.SanitizerWarning)
        venv.reset()
        infos = [venv.step(np.zeros(2, int))[3][1]["where"] for _ in range(2)]
    assert infos == [1, 1] if at == 0 else infos[0] == 1
    report = arrayferry.findings(venv.envs)
    assert [finding.path for finding in report] == ['info[1]["where"]']
    assert not report
    venv.close()


def test_infos_that_wrappers_of_the_vector_read_are_stacked() -> None:
    class Reads(gym.vector.VectorWrapper):
        def step(self, actions: Any) -> Any:
            *step, info = super().step(actions)
            return *step, {**info, "doubled": 2 * info["count"], 7: np.arange(2)}

    venv = sb3_vec_env(Reads(SyncVectorEnv([Counting] * 2)))
    venv.reset()
    infos = venv.step(np.zeros(2, int))[3]
    assert infos == [{"count": 1, "doubled": 2, 7: index, "TimeLimit.truncated": False} for index in range(2)]


def test_infos_stay_as_they_were() -> None:
    class Remembers(Counting):
        seen: ClassVar = set[int]()
        path: ClassVar = np.zeros(9)

        def step(self, action: Any) -> Any:
            *step, info = super().step(action)
            self.seen.add(self.count)
            self.path[self.count] = 1
            return *step, {**info, "seen": self.seen, "in": {"path": self.path}}

    venv = sb3_vec_env(SyncVectorEnv([partial(Remembers, 9)]))
    venv.reset()
    infos = [venv.step(np.zeros(1, int))[3][0] for _ in range(3)]
    assert [info["seen"] for info in infos] == [{1}, {1, 2}, {1, 2, 3}]
    assert [info["in"]["path"].sum() for info in infos] == [1, 2, 3]


def test_torch_infos_are_numpy() -> None:
    torch = pytest.importorskip("torch")

    class Tensors(Counting):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], {"all": [torch.arange(3), torch.tensor(2.5)], "n": 1}

    venv = sb3_vec_env(SyncVectorEnv([Tensors]))
    venv.reset()
    (info,) = venv.step(np.zeros(1, int))[3]
    assert_same(
        info,
        {"all": [np.arange(3), np.float32(2.5)], "n": 1, "TimeLimit.truncated": False},
    )


# ---- what they are asked ---------------------------------------------------------------------------------


def env_fns() -> Any:
    return [partial(limited, length) for length in (2, 3, 5)]


INDICES = [None, 1, -1, [0, 2], (2, 0), range(1, 3), np.array([2, 1]), [np.int64(1)], []]


@pytest.mark.parametrize("kind", [*KINDS, "in torch"])
def test_it_answers_what_dummy_vec_env_answers(kind: str) -> None:
    if kind == "in torch":
        pytest.importorskip("torch")
        ours = sb3_vec_env(arrayferry.wrap(made("processes", env_fns()), "torch"))
    else:
        ours = sb3_vec_env(made(kind, env_fns()))
    theirs = DummyVecEnv(env_fns())
    for indices in INDICES:
        assert ours.get_attr("length", indices) == theirs.get_attr("length", indices)
        shouts = [venv.env_method("shout", word="hi", indices=indices) for venv in (ours, theirs)]
        assert shouts[0] == shouts[1]
        if kind != "async":
            for wrapper in (Named, Renamed, gym.Wrapper, gym.wrappers.TimeLimit, Monitor):
                assert ours.env_is_wrapped(wrapper, indices) == theirs.env_is_wrapped(wrapper, indices)
    assert ours.get_attr("length", np.int64(1)) == [3]
    for name in ("length", "shout", "nothing", "np_random"):
        assert ours.has_attr(name) == theirs.has_attr(name)
    for venv in (ours, theirs):
        with pytest.raises(AttributeError, match="nothing"):
            venv.get_attr("nothing")
        with pytest.raises(AttributeError, match="nothing"):
            venv.env_method("nothing", indices=[1])
        with pytest.raises(IndexError):
            venv.get_attr("length", 3)
    ours.reset()  # it still works
    ours.close()


@every_kind
def test_some_environments_are_set_and_nothing_is_called(kind: str) -> None:
    ours = sb3_vec_env(made(kind, [partial(Counting, 9)] * 3))
    ours.reset()
    ours.step(np.zeros(3, int))
    assert callable(ours.get_attr("reset")[0])
    assert ours.get_attr("count") == [1, 1, 1]
    for value in (7, [1, 2, 3], {"a": np.arange(2)}):
        ours.set_attr("mark", value, indices=[0])
        ours.set_attr("mark", None, indices=range(1, 3))
        assert_same(ours.get_attr("mark"), [value, None, None])
    ours.set_attr("shout", "not a method now", indices=1)
    assert ours.get_attr("shout", 1) == ["not a method now"]
    assert ours.env_method("shout", "hi", indices=[0, 2]) == ["HI", "HI"]
    assert ours.step(np.zeros(3, int))[0][:, 0].tolist() == [2, 2, 2]
    ours.close()


def test_what_is_no_method_cannot_be_called() -> None:
    for kind in ("sync", "processes"):
        venv = sb3_vec_env(made(kind, [Counting] * 2))
        with pytest.raises(TypeError, match="not callable"):
            venv.env_method("length")
        venv.close()


def test_an_async_vector_env_cannot_be_asked_for_wrappers() -> None:
    venv = sb3_vec_env(made("async", env_fns()))
    with pytest.raises(arrayferry.FerryError, match="VecMonitor"):
        venv.env_is_wrapped(Monitor)
    venv.close()


@every_kind
def test_frames_only_in_the_mode_for_them(kind: str) -> None:
    venv = sb3_vec_env(made(kind, [Counting] * 2))
    venv.reset()
    assert [frame.shape for frame in venv.get_images()] == [(2, 2, 3)] * 2
    venv.close()
    assert sb3_vec_env(SyncVectorEnv([Reaching])).get_images() == [None]


def test_options_with_arrays() -> None:
    venv = sb3_vec_env(SyncVectorEnv([Counting] * 2))
    venv.set_options({"start": np.arange(3)})
    venv.reset()
    assert [options["start"].tolist() for options in venv.get_attr("options")] == [[0, 1, 2]] * 2
    venv.set_options([{"start": np.arange(3)}, {"start": np.ones(3)}])
    with pytest.raises(arrayferry.FerryError, match="options differ"):
        venv.reset()


# ---- steps in two calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "processes"])
def test_step_async_starts_the_step(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        envs = made(kind, [partial(Announcing, server.getsockname()[1])] * 2)
        venv = sb3_vec_env(envs)
        venv.reset()
        venv.step_async(np.zeros(2, int))
        for _ in range(2):
            server.accept()[0].close()  # both have started, and nobody waits for them
        obs, *_ = venv.step_wait()
        assert obs[:, 0].tolist() == [1, 1]
        venv.step_async(np.zeros(2, int))
        assert venv.reset()[:, 0].tolist() == [0, 0]  # the step is dropped
        assert venv.step(np.zeros(2, int))[0][:, 0].tolist() == [1, 1]
        venv.close()


def test_it_closes_during_a_step() -> None:
    venv = sb3_vec_env(made("processes", [Counting] * 2))
    venv.reset()
    venv.step_async(np.zeros(2, int))
    venv.close()


def test_no_wrapper_misses_a_step() -> None:
    envs = arrayferry.wrappers.vector.RecordEpisodeStatistics(made("processes", [Counting] * 2))
    venv = sb3_vec_env(envs)
    venv.reset()
    for _ in range(3):
        *_, infos = venv.step(np.zeros(2, int))
    assert [info["episode"]["l"] for info in infos] == [3, 3]
    venv.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_a_worker_that_dies_in_a_reset_ends_its_other_episodes(mode: AutoresetMode, tmp_path: Path) -> None:
    fns = [partial(DeadlyReset, 2, str(tmp_path / "mark")), *[partial(Counting, 9)] * 3]
    venv = sb3_vec_env(ProcessVectorEnv(fns, workers=2, autoreset_mode=mode))
    venv.reset()
    venv.step(np.zeros(4, int))
    obs, rewards, done, infos = venv.step(np.zeros(4, int))
    assert done.tolist() == [True, False, False, False]
    assert venv.reset_infos[0]["fault"]
    assert obs[:, 0].tolist() == [0, 2, 2, 2]
    assert rewards.tolist() == [2.25] * 4
    obs, rewards, done, infos = venv.step(np.zeros(4, int))  # in which the other one is lost
    assert done.tolist() == [False, True, False, False]
    assert obs[:, 0].tolist() == [1, 0, 3, 3]
    assert rewards[1] == 0
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True, False, False]
    assert infos[1]["fault"]
    assert infos[1]["terminal_observation"][0] == 2
    assert venv.step(np.zeros(4, int))[0][:, 0].tolist() == [0, 1, 4, 4]
    venv.close()


# ---- learning from them ----------------------------------------------------------------------------------


def evaluated(venv: Any) -> Any:
    class Policy:
        def predict(self, observations: Any, **_: Any) -> Any:
            return np.zeros(len(observations), int), None

    venv.seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Evaluation environment is not wrapped")
        found = evaluate_policy(Policy(), venv, n_eval_episodes=5, return_episode_rewards=True)  # type: ignore[arg-type]
    venv.close()
    return found


EVALUATED = [("sync", mode, env_fn) for mode in MODES for env_fn in (monitored, unmonitored)]
EVALUATED += [("processes", mode, unmonitored) for mode in MODES]
EVALUATED.append(("processes", MODES[0], monitored))  # its workers take seconds to import Stable-Baselines3


@pytest.mark.parametrize(("kind", "mode", "env_fn"), EVALUATED)
def test_a_policy_is_evaluated_as_in_dummy_vec_env(kind: str, mode: AutoresetMode, env_fn: Any) -> None:
    envs = made(kind, [env_fn] * 2, mode)
    got, wanted = evaluated(sb3_vec_env(envs)), evaluated(DummyVecEnv([env_fn] * 2))
    assert got == wanted
    assert wanted[0][0] == pytest.approx(11 if env_fn is monitored else 1.1)


@every_kind
def test_vec_monitor_evaluates_all_kinds(kind: str) -> None:
    ours = evaluated(VecMonitor(sb3_vec_env(made(kind, [unmonitored] * 2))))
    assert ours == evaluated(VecMonitor(DummyVecEnv([unmonitored] * 2)))


@pytest.mark.parametrize(("kind", "mode"), [*zip(KINDS, MODES), *[("processes", mode) for mode in MODES[:2]]])
def test_hindsight_replay_learns_from_the_same_transitions(kind: str, mode: AutoresetMode) -> None:
    models = []
    for venv in (sb3_vec_env(made(kind, [Reaching] * 2, mode)), DummyVecEnv([Reaching] * 2)):
        model = sb3.DQN(
            "MultiInputPolicy",
            venv,
            replay_buffer_class=sb3.HerReplayBuffer,
            replay_buffer_kwargs={"n_sampled_goal": 2},
            learning_starts=20,
            batch_size=16,
            train_freq=4,
            policy_kwargs={"net_arch": [8]},
            seed=0,
            device="cpu",
        )
        models.append(model.learn(60))
        venv.close()
    ours, theirs = (model.replay_buffer for model in models)
    for name in theirs.observations:
        np.testing.assert_array_equal(ours.observations[name], theirs.observations[name])
        np.testing.assert_array_equal(ours.next_observations[name], theirs.next_observations[name])
    for name in ("rewards", "dones", "timeouts", "actions", "infos"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for name, weights in models[1].policy.state_dict().items():
        assert weights.equal(models[0].policy.state_dict()[name])


def test_returns_of_episodes_are_logged(tmp_path: Path) -> None:
    from stable_baselines3.common.logger import configure

    venv = VecMonitor(sb3_vec_env(made("sync", [Counting] * 2)))
    model = sb3.PPO("MlpPolicy", venv, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")
    model.set_logger(configure(str(tmp_path), ["json"]))
    model.learn(16)
    model.logger.close()
    logged = json.loads((tmp_path / "progress.json").read_text().splitlines()[0])
    assert logged["rollout/ep_len_mean"] == 3
    assert logged["rollout/ep_rew_mean"] == 6.75
