"""`tensordict_env`: observations come as TensorDicts, and actions may be TensorDicts."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.errors import NotInstalledError, UnsupportedError
from arrayferry.learners import tensordict_env

torch = pytest.importorskip("torch")
tensordict = pytest.importorskip("tensordict")

BOX = spaces.Box(-9, 9, (2,), np.float32)
DEEP = spaces.Dict(eye=BOX, arm=spaces.Dict(at=BOX), pair=spaces.Tuple([BOX, spaces.Discrete(9)]))


class Echo(gym.Env[Any, Any]):
    """Observes what its space samples, keeps the actions, and ends every third step."""

    def __init__(self, observed: Any = BOX, acted: Any = BOX) -> None:
        self.observation_space, self.action_space = observed, acted
        self.given: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.given.append(action)
        self.count += 1
        return self.observation_space.sample(), 1.0, self.count == 3, False, {}


def vector(observed: Any = BOX, acted: Any = BOX) -> Any:
    make = [lambda: Echo(copy.deepcopy(observed), acted)] * 2
    return SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)


def entries(td: Any) -> dict[Any, Any]:
    return {key: td[key] for key in td.keys(include_nested=True, leaves_only=True)}


def flat(value: Any, path: tuple[str, ...] = ()) -> dict[Any, Any]:
    """Return the leaves of an observation by the keys that they have in a TensorDict."""
    if not isinstance(value, (dict, tuple)):
        return {path[0] if len(path) == 1 else path: value}
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    return {k: leaf for key, part in items for k, leaf in flat(part, (*path, str(key))).items()}


@pytest.mark.parametrize("observed", [BOX, DEEP, spaces.Discrete(9)], ids=["box", "deep", "discrete"])
@pytest.mark.parametrize("many", [False, True])
def test_it_holds_what_the_plain_view_gives(observed: Any, many: bool) -> None:
    make: Any = vector if many else Echo
    envs = [make(copy.deepcopy(observed)) for _ in range(2)]
    views: Any = arrayferry.wrap(envs[0], "torch"), tensordict_env(envs[1])
    plain, packed = (view.reset(seed=4)[0] for view in views)
    action = torch.zeros((2, 2) if many else 2)
    for _ in range(5):
        wanted = flat(plain) if isinstance(plain, (dict, tuple)) else {"observation": plain}
        got = entries(packed)
        assert type(packed) is tensordict.TensorDict
        assert packed.batch_size == ((2,) if many else ())
        assert got.keys() == wanted.keys()
        assert all(
            got[key].dtype == wanted[key].dtype and bool((got[key] == wanted[key]).all()) for key in got
        )
        (plain, *rest, _), (packed, *same, _) = (view.step(action) for view in views)
        assert [np.asarray(x).tolist() for x in rest] == [np.asarray(x).tolist() for x in same]


def test_final_observations_are_one_batch() -> None:
    envs = tensordict_env(vector(DEEP))
    plain = arrayferry.wrap(vector(DEEP), "torch", dense_final=True)
    for view in (envs, plain):
        view.reset(seed=1)
        for _ in range(3):
            *_, info = view.step(np.zeros((2, 2), np.float32))
        view.info = info
    final, wanted = envs.info["final_obs"], flat(plain.info["final_obs"])
    assert final.batch_size == (2,)
    assert {key: leaf.tolist() for key, leaf in entries(final).items()} == {
        key: leaf.tolist() for key, leaf in wanted.items()
    }


def test_nothing_is_copied_after_the_conversion() -> None:
    class Static(Echo):
        frame = np.zeros(2, np.float32)

        def step(self, action: Any) -> Any:
            return self.frame, 1.0, False, False, {}

    env = tensordict_env(Static(), copy=False)
    env.reset(seed=0)
    obs, *_ = env.step(torch.zeros(2))
    assert obs["observation"].data_ptr() == Static.frame.ctypes.data


@pytest.mark.parametrize("key", [None, "action"])
def test_an_action_may_be_a_tensordict(key: str | None) -> None:
    env = tensordict_env(Echo(acted=DEEP))
    env.reset(seed=0)
    action = {"eye": torch.ones(2), "arm": {"at": torch.zeros(2)}}
    given = tensordict.TensorDict(action | {"pair": {"0": torch.ones(2), "1": torch.tensor(3)}})
    env.step(tensordict.TensorDict({"action": given, "observation": torch.zeros(2)}) if key else given)
    (arrived,) = env.unwrapped.given
    assert DEEP.contains(arrived)
    assert (arrived["arm"]["at"].tolist(), arrived["pair"][1]) == ([0, 0], 3)


def test_a_policy_writes_the_action_into_the_observation() -> None:
    envs = tensordict_env(vector(acted=spaces.Discrete(3)))
    td, _ = envs.reset(seed=0)
    envs.step(td.set("action", torch.tensor([2, 1])))
    envs.step(torch.tensor([0, 1]))  # plain ones go on as ever
    assert [env.given for env in envs.unwrapped.envs] == [[2, 0], [1, 1]]
    assert {type(one) for env in envs.unwrapped.envs for one in env.given} == {np.int64}


def test_what_is_no_tensor_stays_what_it_is() -> None:
    mission = spaces.Dict(eye=BOX, mission=spaces.Text(5))
    single, many = (
        tensordict_env(env).reset(seed=3)[0] for env in (Echo(copy.deepcopy(mission)), vector(mission))
    )
    assert isinstance(single["mission"], str)
    assert many[0]["mission"] == single["mission"]
    assert len(many["mission"]) == 2


class Cart(gym.Env[Any, Any]):
    observation_space, action_space = BOX, spaces.Discrete(2)
    metadata: ClassVar = {"render_modes": []}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.ones(2, np.float32), {}

    def step(self, action: Any) -> Any:
        raise ZeroDivisionError(action)


def test_it_is_recorded_and_pickled() -> None:
    env = tensordict_env(gym.make("CartPole-v1"))
    for other in (gym.make(env.spec), copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert other.reset(seed=1)[0]["observation"].shape == (4,)
        td = tensordict.TensorDict({"action": torch.tensor(1)})
        assert other.step(td)[0]["observation"].shape == (4,)


def test_the_environment_s_own_error_has_its_note() -> None:
    env = tensordict_env(Cart())
    env.reset()
    with pytest.raises(ZeroDivisionError) as raised:
        env.step(tensordict.TensorDict({"action": torch.ones(3)}))
    assert "Discrete(2) takes" in "".join(raised.value.__notes__)


def test_what_cannot_be_is_refused() -> None:
    env = tensordict_env(Cart())
    for entries in ({"act": torch.tensor(1)}, {}):
        with pytest.raises(KeyError, match='"action"'):
            env.step(tensordict.TensorDict(entries))
    numbered = tensordict_env(Echo(spaces.Dict({1: BOX})))
    with pytest.raises(UnsupportedError, match=r"the keys \[1\] are not all strings"):
        numbered.reset(seed=0)


def test_many_agents_are_refused() -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents, aec

    for env in (ThreeAgents(), aec()):
        with pytest.raises(UnsupportedError, match="has many agents"):
            tensordict_env(env)  # type: ignore[arg-type]


def test_it_is_installed_by_the_command_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "arrayferry.learners._tensordict")
    monkeypatch.setitem(sys.modules, "tensordict", None)
    with pytest.raises(NotInstalledError) as raised:
        tensordict_env(Cart())
    assert raised.value.hint == "pip install tensordict"


def test_wrappers_around_it_get_tensordicts() -> None:
    """The result is a Gymnasium environment, with its spaces, and resets by masks."""
    envs = arrayferry.wrappers.vector.RecordEpisodeStatistics(tensordict_env(gym.make_vec("CartPole-v1", 3)))
    td, _ = envs.reset(seed=1)
    assert (td.batch_size, envs.single_observation_space.shape, envs.num_envs) == ((3,), (4,), 3)
    td, *_ = envs.step(td.set("action", torch.tensor([0, 1, 0])))
    assert td.batch_size == (3,)


def test_tensordicts_of_the_environment_stay() -> None:
    once = tensordict_env(gym.make("CartPole-v1"))
    td, _ = tensordict_env(once).reset(seed=1)
    assert td["observation"].tolist() == once.reset(seed=1)[0]["observation"].tolist()


def test_it_keeps_its_place_in_copies_of_a_vector() -> None:
    envs = tensordict_env(vector(DEEP), dtypes={"float32": "float64"})
    copied, _ = copy.deepcopy(envs).reset(seed=1)
    td, _ = envs.reset(seed=1)
    assert td["eye"].dtype == torch.float64
    assert bool((td == copied).all())


def test_an_option_of_another_name_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="dtype is not an option"):
        tensordict_env(gym.make("CartPole-v1"), dtype="float64")  # type: ignore[call-arg]
