"""The sanitizer finds what is wrong with an environment or its agent, says where, and finds nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from wrappers.toys import BOX, Counter, Recorder, Reusing, Scripted

import arrayferry
from arrayferry.sanitizer import Finding, SanitizerError, SanitizerWarning

ACTION = np.ones(2, np.float32)

# Those that write into shared memory.
writable = pytest.mark.parametrize("agent", ["numpy", "torch"])


def found(env: Any) -> dict[tuple[str, str], Finding]:
    """What was found, by kind and path."""
    return {(finding.kind, finding.path): finding for finding in arrayferry.findings(env)}


def worse(env: Any) -> dict[tuple[str, str], Finding]:
    """What was found and is more than an info."""
    return {key: finding for key, finding in found(env).items() if finding.severity != "info"}


@pytest.fixture
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SanitizerWarning)
        yield


class Held(gym.Env[Any, Any]):
    """Returns its own state, as MountainCarContinuous does; `give` says in which way."""

    def __init__(self, give: Callable[[Any], Any] = lambda state: state, xp: Any = np) -> None:
        self.action_space, self.observation_space = spaces.Discrete(2), BOX
        self.give, self.xp = give, xp

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.state = self.xp.zeros(3, dtype=self.xp.float32)
        return self.give(self.state), {}

    def step(self, action: Any) -> Any:
        self.state = self.state + 1
        return self.give(self.state), 0.0, False, False, {}


class Keeper(Recorder):
    """Keeps the actions, or does not."""

    def __init__(self, keep: bool) -> None:
        super().__init__()
        self.keep = keep

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if not self.keep:
            self.actions.clear()
        return result


# --- writes


@writable
@pytest.mark.usefixtures("quiet")
def test_the_environment_writes_into_what_it_has_handed_out(agent: str) -> None:
    pytest.importorskip(agent)
    env = arrayferry.wrap(Reusing(), agent, copy=False, sanitize=True)
    env.reset()
    for _ in range(2):
        env.step(arrayferry.convert(ACTION.copy(), agent))
    wrote = {path: finding for (kind, path), finding in worse(env).items() if kind == "environment-wrote"}
    assert set(wrote) == {'obs["a"]', 'obs["b"]', 'info["nested"]["c"]', 'info["image"]', "action"}
    a = wrote['obs["a"]']
    assert (a.severity, a.step, a.times) == ("error", 1, 2)
    assert "into obs of step 0" in a.message
    assert "3 of 3 elements changed, [0] was 0.0 and is 1.0" in a.message
    assert "copy at None" in a.hint
    assert (
        "the agent's action of step 1: 2 of 2 elements changed, [0] was 1.0 and is -1.0"
        in wrote["action"].message
    )


def test_private_arrays_make_that_an_info_and_nothing_is_said(name: str) -> None:
    for copy in (None, True):
        env = arrayferry.wrap(Reusing(), name, copy=copy, sanitize=True)
        env.reset()
        for _ in range(5):
            env.step(arrayferry.convert(ACTION, name))
        assert {key[0] for key in found(env)} == {"environment-wrote"}
        assert {(one.severity, one.times) for one in found(env).values()} == {("info", 1)}
        assert arrayferry.findings(env).ok


def test_a_ring_of_buffers_is_followed_for_some_steps() -> None:
    class Ring(Counter):
        def __init__(self, length: int) -> None:
            super().__init__(1000, self.fill)
            self.ring, self.turn = [np.zeros(3, np.float32) for _ in range(length)], 0

        def fill(self, count: int) -> Any:
            self.turn = (self.turn + 1) % len(self.ring)
            self.ring[self.turn][:] = count
            return self.ring[self.turn]

    for length, seen in ((2, True), (3, True), (4, True), (9, False)):
        env = arrayferry.wrap(Ring(length), "numpy", sanitize=True)
        env.reset()
        for _ in range(10):
            env.step(1)
        assert (("environment-wrote", "obs") in found(env)) is seen, length


@pytest.mark.parametrize(
    ("give", "severity"),
    [
        (lambda state: state, "error"),
        (lambda state: state[:], "error"),
        (lambda state: state.reshape(3, 1)[:, 0], "error"),
        (lambda state: np.frombuffer(state.data, np.float32), "warning"),  # by ways that cannot be counted
    ],
    ids=["itself", "view", "view_of_view", "buffer"],
)
@writable
def test_the_agent_writes_into_what_the_environment_reads(
    give: Callable[[Any], Any], severity: str, agent: str
) -> None:
    pytest.importorskip(agent)
    env = arrayferry.wrap(Held(give), agent, copy=False, sanitize=True)
    obs, _ = env.reset()
    obs[1] = 7
    with pytest.warns(SanitizerWarning, match=r"obs, step 1: the agent wrote into obs of step 0.*1 of 3"):
        env.step(1)
    finding = found(env)["agent-wrote", "obs"]
    assert finding.severity == severity
    assert "[1] was 0.0 and is 7.0" in finding.message
    assert ("environment-wrote", "obs") not in found(env)


def test_the_agent_writes_into_an_older_observation() -> None:
    states: list[Any] = []

    def give(state: Any) -> Any:
        states.append(state)
        return state

    env = arrayferry.wrap(Held(give), "numpy", copy=False, sanitize=True)
    old, _ = env.reset()
    env.step(1)
    env.step(1)
    old += 1
    with pytest.warns(SanitizerWarning, match=r"obs, step 3: the agent wrote into obs of step 0"):
        env.step(1)


FRESH: dict[str, Callable[[Any], Any]] = {
    "copy": lambda state: state.copy(),
    "view_of_copy": lambda state: state.copy()[:],
    "transposed": lambda state: np.stack([state]).T[:, 0],
    "computed": lambda state: state * 2,
}


@pytest.mark.parametrize("give", FRESH)
@writable
def test_an_agent_may_write_into_what_nobody_else_holds(give: str, agent: str) -> None:
    pytest.importorskip(agent)
    env = arrayferry.wrap(Held(FRESH[give]), agent, copy=False, sanitize=True)
    obs, _ = env.reset()
    for _ in range(4):
        obs += 1
        obs, *_ = env.step(1)
    assert found(env) == {}


@writable
def test_arrays_that_only_the_result_holds_more_than_once(agent: str) -> None:
    """The same array in observation and info, and two halves of one new array: nobody else holds them."""
    pytest.importorskip(agent)

    class Twice(Held):
        kept = None

        def results(self) -> Any:
            whole, same = np.zeros(6, np.float32), np.zeros(3, np.float32)
            obs = {"left": whole[:3], "right": whole[3:], "same": same}
            return obs, {"same": same, "again": [same, same[:2]]}

        def reset(self, **kwargs: Any) -> Any:
            return self.results()

        def step(self, action: Any) -> Any:
            obs, info = self.results()
            if action:
                self.kept = [obs["left"], obs["right"], obs["same"], obs["left"].base][action - 1]
            return obs, 0.0, False, False, info

    left, right = 'obs["left"]', 'obs["right"]'
    same = {'obs["same"]', 'info["same"]', 'info["again"][0]', 'info["again"][1]'}
    for keeps, expected in enumerate([set(), {left}, {right}, same, {left, right}]):
        bare = Twice()
        bare.observation_space = spaces.Dict(left=BOX, right=BOX, same=BOX)
        bare.action_space = spaces.Discrete(5)
        env = arrayferry.wrap(bare, agent, copy=False, sanitize=True)
        obs, _ = env.reset()
        for _ in range(3):
            for key in obs:
                obs[key] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SanitizerWarning)
                obs, *_ = env.step(keeps)
        assert {path for kind, path in found(env) if kind == "agent-wrote"} <= expected
        assert {path for kind, path in found(env) if kind == "kept"} == {
            p for p in expected if p[:3] == "obs"
        }
        assert arrayferry.findings(env).ok is (keeps == 0)


@writable
def test_an_environment_of_torch_that_writes(agent: str) -> None:
    torch = pytest.importorskip("torch")

    class Adds(Held):
        def step(self, action: Any) -> Any:
            self.state.add_(1)
            return self.state[:], 0.0, False, False, {}

    env = arrayferry.wrap(Adds(lambda state: state.view(3), torch), agent, copy=False, sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="the environment wrote into obs of step 0"):
        env.step(arrayferry.convert(1, agent))


def test_an_agent_may_write_into_private_arrays(name: str) -> None:
    env = arrayferry.wrap(Held(), name, sanitize=True)
    obs, _ = env.reset()
    for _ in range(3):
        if name in ("numpy", "torch"):
            obs += 1
        obs, *_ = env.step(arrayferry.convert(1, name))
    assert found(env) == {}


def test_gymnasium_s_checker_is_not_the_environment() -> None:
    """It holds the first two observations; an agent that writes into them harms nobody."""
    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy", copy=False, sanitize=True)
    obs, _ = env.reset(seed=1)
    for _ in range(5):
        obs *= 2
        obs, *_ = env.step(0)
    assert found(env) == {}
    env = arrayferry.wrap(gym.make("MountainCarContinuous-v0"), "numpy", copy=False, sanitize=True)
    obs, _ = env.reset(seed=1)
    for _ in range(2):
        obs *= 2
        obs, *_ = env.step(np.zeros(1, np.float32))
    obs *= 2
    with pytest.warns(SanitizerWarning, match="agent wrote into obs of step 2, which the environment still"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.usefixtures("quiet")
def test_an_action_that_the_environment_keeps() -> None:
    for keep in (True, False):
        for target in ("numpy", "torch"):
            pytest.importorskip(target)
            env = arrayferry.wrap(Keeper(keep), target, copy=False, sanitize=True)
            env.reset()
            action = arrayferry.convert(np.zeros(3, np.float32), target)
            for _ in range(3):
                action += 1  # the same memory each time
                env.step(action)
            wanted = {("agent-wrote", "action")} if keep else set()
            assert set(found(env)) == wanted
            if keep:
                assert (
                    "its action of step 1, which the environment has kept"
                    in found(env)["agent-wrote", "action"].message
                )


def test_an_action_that_was_cast_is_not_the_agent_s() -> None:
    class Clips(Recorder):
        def step(self, action: Any) -> Any:
            action[:] = 0
            return super().step(action)

    env = arrayferry.wrap(Clips(), "numpy", copy=False, sanitize=True)
    env.reset()
    action = np.ones(3)  # float64, and the space has float32
    env.step(action)
    assert action.sum() == 3
    assert found(env) == {}


def test_torch_environments_are_watched_and_jax_arrays_cannot_be_written() -> None:
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    env = arrayferry.wrap(Held(lambda state: state.detach(), torch), "numpy", copy=False, sanitize=True)
    obs, _ = env.reset()
    obs += 1
    with pytest.warns(SanitizerWarning, match="which the environment may still hold"):
        env.step(np.array(1))
    env = arrayferry.wrap(Held(xp=jnp), "jax", copy=False, sanitize=True)
    env.reset()
    env.step(jnp.array(1))
    assert found(env) == {}


def test_what_render_writes_is_the_environment_s() -> None:
    class Renders(Held):
        def render(self) -> Any:
            self.state[:] = 9

    env = arrayferry.wrap(Renders(), "numpy", copy=False, sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="the environment wrote into obs of step 0"):
        env.render()
    env.step(1)
    assert ("agent-wrote", "obs") not in found(env)


def test_memory_is_bounded() -> None:
    class Large(Held):
        def reset(self, **kwargs: Any) -> Any:
            self.state = np.zeros(1000, np.uint8)
            return self.state, {}

    env = Large()
    env.observation_space = spaces.Box(0, 255, (1000,), np.uint8)
    for limit, held in ((500, 0), (1000, 1000), (2500, 2000), (100_000, 4000)):
        sanitizer = arrayferry.sanitizer.Sanitizer(env, limit=limit)
        sanitizer.reset()
        for _ in range(20):
            sanitizer.step(1)
        loans = sanitizer._writes._loans
        assert loans._bytes == sum(loan.bytes_then.nbytes for loan in loans) == held
    small = arrayferry.sanitizer.Sanitizer(env, limit=500)
    small.reset()
    assert "1,000 bytes are too many" in found(small)["unwatched", "obs"].message


# --- forms


def step_of(obs: Any, reward: Any = 0.0, info: Any = None) -> tuple[Any, ...]:
    return obs, reward, False, False, {} if info is None else info


ZERO = np.zeros(3, np.float32)


def test_a_leaf_changes_its_dtype_shape_or_framework() -> None:
    torch = pytest.importorskip("torch")
    for obs, kind, message in (
        (np.zeros(3), "dtype-changed", "its dtype was float32, and is float64"),
        (np.zeros(4, np.float32), "shape-changed", "its shape was (3,), and is (4,)"),
        (torch.zeros(3), "framework-changed", "its framework was numpy (float32), and is torch (float32)"),
        (1.5, "framework-changed", "its framework was numpy (float32), and is python (float)"),
    ):
        space = spaces.Dict(x=BOX)
        env: Any = Scripted(
            step_of({"x": ZERO}),
            step_of({"x": obs}),
            step_of({"x": obs}),
            reset=({"x": ZERO}, {}),
            observation_space=space,
        )
        env = arrayferry.wrap(env, "numpy", sanitize=True)
        env.reset()
        env.step(1)
        assert found(env) == {}
        with pytest.warns(SanitizerWarning):
            env.step(1)
        env.step(1)
        finding = found(env)[kind, 'obs["x"]']
        assert (finding.message, finding.step, finding.times) == (message, 2, 1)
        assert {key for key in found(env) if key[0].endswith("-changed")} == {(kind, 'obs["x"]')}


def test_a_python_int_and_an_int64_are_nearly_the_same() -> None:
    steps = [step_of(number) for number in (1, np.int64(1), np.array(1))]
    env = arrayferry.wrap(Scripted(*steps, observation_space=spaces.Discrete(3)), "numpy", sanitize=True)
    env.unwrapped._reset = (1, {})
    env.reset()
    for _ in steps:
        env.step(1)
    assert {key: (one.severity, one.times) for key, one in found(env).items()} == {
        ("framework-changed", "obs"): ("info", 1)
    }


def test_leaves_of_an_observation_appear_and_disappear() -> None:
    env: Any = Scripted(
        step_of({"b": ZERO}), reset=({"a": ZERO, "c": ZERO}, {}), observation_space=spaces.Dict(a=BOX, c=BOX)
    )
    env = arrayferry.wrap(env, "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning):
        env.step(1)
    assert {key for key in found(env) if "appeared" in key[0]} == {
        ("appeared", 'obs["b"]'),
        ("disappeared", 'obs["a"]'),
        ("disappeared", 'obs["c"]'),
    }
    assert found(env)["outside-space", "obs"].message.startswith("it is not in Dict(")


def test_infos_may_have_other_keys_and_other_forms_of_them_are_infos() -> None:
    infos = [{}, {"a": 1}, {"a": 1.5, "b": ZERO}, {"b": np.zeros(2)}, {"c": "text"}, {"c": None}]
    env = arrayferry.wrap(Scripted(*(step_of(ZERO, 0.0, info) for info in infos)), "numpy", sanitize=True)
    env.reset()
    for _ in infos:
        env.step(1)
    assert {key: finding.severity for key, finding in found(env).items()} == {
        ("dtype-changed", 'info["a"]'): "info",
        ("dtype-changed", 'info["b"]'): "info",
        ("shape-changed", 'info["b"]'): "info",
    }


def test_a_single_reward_becomes_a_float_in_any_case() -> None:
    env = arrayferry.wrap(
        Scripted(*(step_of(ZERO, r) for r in (1, 1.5, np.float32(1)))), "numpy", sanitize=True
    )
    env.reset()
    for _ in range(3):
        env.step(1)
    assert {finding.severity for finding in found(env).values()} == {"info"}


# --- spaces and numbers


def test_an_observation_outside_its_space() -> None:
    space = spaces.Dict(camera=spaces.Box(0, 1, (2, 2)), inner=spaces.Tuple([spaces.Discrete(3), BOX]))
    good = {"camera": np.zeros((2, 2), np.float32), "inner": (1, ZERO)}
    bad = {"camera": np.float32([[0, 0], [2, 0]]), "inner": (3, ZERO)}
    env = arrayferry.wrap(
        Scripted(step_of(bad), reset=(good, {}), observation_space=space), "numpy", sanitize=True
    )
    env.reset()
    with pytest.warns(SanitizerWarning) as caught:
        env.step(1)
    assert 'obs["camera"], step 1: it is not in Box(' in str(caught[0].message)
    assert len(caught) == 2
    messages = {path: finding.message for (_, path), finding in worse(env).items()}
    assert messages == {
        'obs["camera"]': "it is not in Box(0.0, 1.0, (2, 2), float32): it is float32[2,2] numpy, 0.0 to 2.0",
        'obs["inner"][0]': "it is not in Discrete(3): it is 3",
    }


NAN = np.array([0, np.nan, 0], np.float32)


@pytest.mark.parametrize(
    ("step", "path", "severity"),
    [
        (step_of(NAN), "obs", "error"),
        (step_of(ZERO, float("nan")), "reward", "error"),
        (step_of(ZERO, np.float64("nan")), "reward", "error"),
        (step_of(ZERO, 0.0, {"a": {"b": [NAN]}}), 'info["a"]["b"][0]', "warning"),
        (step_of(ZERO, 0.0, {"a": float("nan")}), 'info["a"]', "warning"),
        (step_of(ZERO, 0.0, {"a": np.array([None, NAN], object)}), 'info["a"][1]', "warning"),
        (step_of(ZERO, 0.0, {"a": NAN.astype(complex)}), 'info["a"]', "warning"),
    ],
)
def test_a_nan_crosses(step: Any, path: str, severity: str) -> None:
    env = arrayferry.wrap(Scripted(step, step), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="NaN"):
        env.step(1)
    env.step(1)
    assert {key: finding.severity for key, finding in found(env).items()} == {("nan", path): severity}
    assert found(env)["nan", path].times == 2


def test_an_action_of_nan_and_an_infinite_reward() -> None:
    env = arrayferry.wrap(Recorder(), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match=r"action, step 1: \[1\] is NaN; look at the policy"):
        env.step(NAN)
    env = arrayferry.wrap(Scripted(step_of(ZERO, -np.inf)), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="reward, step 1: it is infinite"):
        env.step(1)


def test_infinity_is_for_the_space_to_judge_and_infos_may_have_it() -> None:
    unbounded = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    step = step_of(np.full(3, np.inf, np.float32), 0.0, {"best": -np.inf})
    env = arrayferry.wrap(Scripted(step, observation_space=unbounded), "numpy", sanitize=True)
    env.reset()
    env.step(1)
    assert found(env) == {}
    env = arrayferry.wrap(Scripted(step), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match=r"obs, step 1: it is not in Box\(-10.0, 10.0"):
        env.step(1)


# --- how it says so


def test_it_warns_once_for_each_kind_and_path_where_the_agent_called() -> None:
    env = arrayferry.wrap(Scripted(*[step_of(NAN)] * 5), "numpy", sanitize=True)
    env.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            env.step(1)
    assert [warning.category for warning in caught] == [SanitizerWarning]
    assert caught[0].filename == __file__


def test_it_raises_if_it_shall() -> None:
    for sanitize in ("raise", True):
        env = arrayferry.wrap(Scripted(step_of(NAN), step_of(ZERO)), "numpy", sanitize=sanitize)
        env.reset()
        if sanitize == "raise":
            with pytest.raises(SanitizerError, match=r"obs, step 1: \[1\] is NaN") as raised:
                env.step(1)
            assert raised.value.finding == found(env)["nan", "obs"]
            assert isinstance(raised.value, arrayferry.FerryError)
            env.step(1)  # and goes on, if somebody wants to
        else:
            with pytest.warns(SanitizerWarning):
                env.step(1)


def test_an_info_is_not_raised() -> None:
    env = arrayferry.wrap(Reusing(), "numpy", sanitize="raise")
    env.reset()
    env.step(ACTION)
    assert len(arrayferry.findings(env)) > 0


def test_it_says_what_it_costs() -> None:
    env = arrayferry.wrap(Counter(), "numpy", sanitize=True)
    env.reset()
    env.step(1)
    report = arrayferry.findings(env)
    assert report.steps == 1
    assert report.seconds > 0
    assert report.watched == 2 * (12 + 16)  # twice an observation of three float32, an info of two int64
    assert str(report).startswith("safe as wrapped\n1 steps; watching")


def test_who_is_not_watched_has_no_findings() -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError, match="sanitize=True"):
        arrayferry.findings(arrayferry.wrap(Counter(), "numpy"))


def test_where_counts_prove_nothing_nobody_is_accused_for_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Python 3.14 and newer: everything is watched, and the environment may hold it."""
    monkeypatch.setattr(arrayferry._core.ownership, "COUNTS_PROVE", False)
    monkeypatch.setattr(arrayferry._core.ownership, "unshared", -1)
    for copy in (None, False):
        env = arrayferry.wrap(Held(FRESH["copy"]), "numpy", copy=copy, sanitize=True)
        obs, _ = env.reset()
        env.step(1)
        assert found(env) == {}
        obs += 1
        if copy is None:
            env.step(1)
        else:
            with pytest.warns(SanitizerWarning, match="which the environment may still hold"):
                env.step(1)
