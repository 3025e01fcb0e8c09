"""What one process with eight devices must do; run by `test_global_arrays.py` in a process of its own."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import arrayferry
from arrayferry.errors import DeviceError, FerryError, SharingError
from scale.episodes import SEED, Episodes, make, policy, record, reference

ROWS = 16


def _mesh(shape: tuple[int, ...], *, kind: AxisType = AxisType.Auto, order: int = 1) -> Mesh:
    devices = np.array(jax.devices()[::order]).reshape(shape)
    return Mesh(devices, ("env", "model")[: len(shape)], axis_types=(kind,) * len(shape))


def _shardings() -> list[NamedSharding]:
    lines = [_mesh((8,)), _mesh((8,), kind=AxisType.Explicit), _mesh((8,), order=-1)]
    specs = [P("env"), P("model"), P(("env", "model")), P(("model", "env")), P(), P(None)]
    kinds = [memory.kind for memory in jax.devices()[0].addressable_memories()]
    return [
        *(NamedSharding(mesh, P("env")) for mesh in lines),
        *(NamedSharding(_mesh((4, 2)), spec) for spec in specs),
        *(NamedSharding(lines[0], P("env"), memory_kind=kind) for kind in kinds),
    ]


EIGHT = NamedSharding(_mesh((8,)), P("env"))


def _refused(call: Callable[[], Any], *words: str, kind: type[FerryError] = DeviceError) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def every_row_is_that_of_the_bare_environments() -> None:
    wanted = reference(ROWS, 40)
    for sharding in _shardings():
        envs = arrayferry.wrap(make(ROWS), "jax", sharding)
        act = jax.jit(lambda obs: policy(obs, jnp))
        obs, info = envs.reset(seed=SEED)
        found = [(obs, info)]
        for _ in range(40):
            obs, *others = envs.step(act(obs))
            found.append((obs, *others))
        assert act._cache_size() == 1, sharding
        for step, (*arrays, info) in enumerate(found):
            for leaf in jax.tree.leaves(arrays):
                assert leaf.sharding == sharding, (leaf.sharding, sharding)
            seen = record(ROWS, *arrayferry.convert((*arrays, info), "numpy"))
            assert seen == wanted[step], (sharding, step)


def arrays_are_those_that_device_put_makes() -> None:
    for sharding in _shardings():
        box = spaces.Box(-1, 1, (1,), np.float32)
        envs = arrayferry.wrap(_Shown({"x": box}, None), "jax", sharding)
        shapes = [(), (3,), (0,), (2, 0, 3), (7, 5), (100, 50)]
        for shape in [*shapes, *shapes]:  # the second time by the private part of JAX
            for dtype in "float32", "int8", "bool":
                batch = (np.arange(ROWS * np.prod(shape, dtype=int)) % 2).reshape(ROWS, *shape).astype(dtype)
                for order in "C", "F":
                    envs.unwrapped.shown = {"x": np.array(batch, order=order)}
                    found, wanted = envs.reset()[0]["x"], jax.device_put(batch, sharding)
                    for attribute in "shape dtype aval weak_type sharding _committed".split():
                        assert getattr(found, attribute) == getattr(wanted, attribute), (attribute, sharding)
                    assert np.asarray(found).tobytes() == batch.tobytes()
                    pairs = zip(found.addressable_shards, wanted.addressable_shards, strict=True)
                    assert all(
                        one.device == other.device and one.index == other.index for one, other in pairs
                    )


class _Shown(VectorEnv):
    """Shows what it is told to."""

    metadata: Any = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(self, parts: dict[str, Any], shown: Any, info: Any = None) -> None:
        self.num_envs, self.shown, self.info = ROWS, shown, info or {}
        self.single_observation_space = spaces.Dict(parts)
        self.observation_space = batch_space(self.single_observation_space, ROWS)
        self.single_action_space = spaces.Discrete(2)
        self.action_space = batch_space(self.single_action_space, ROWS)

    def reset(self, *, seed=None, options=None):
        self.options = options
        return self.shown, self.info

    def step(self, actions):
        self.actions = actions
        zeros = np.zeros(ROWS)
        return self.shown, zeros, zeros > 0, zeros > 0, self.info


def infos_stay_on_one_device() -> None:
    # As many features as devices, and as many rows.
    info = {
        "a": np.zeros(8),
        "b": np.zeros((ROWS, 2)),
        "c": 3,
        "d": np.float32(1),
        "e": [np.zeros((8, ROWS))],
    }
    envs = arrayferry.wrap(_Shown({}, {}, info), "jax", EIGHT)
    for _, found in [envs.reset(), (envs.step(np.zeros(ROWS, int))[::4])]:
        assert all(leaf.devices() == {jax.devices()[0]} for leaf in jax.tree.leaves(found)), found
    for dense in False, True:
        envs = arrayferry.wrap(make(ROWS), "jax", EIGHT, dense_final=dense)
        envs.reset(seed=0)
        finals = [envs.step(np.zeros((ROWS, 2), int))[-1].get("final_obs") for _ in range(20)]
        leaves = jax.tree.leaves(
            [list(final) if not dense else final for final in finals if final is not None]
        )
        assert leaves
        assert all(len(leaf.devices()) == 1 for leaf in leaves)


def what_has_no_rows_goes_to_one_device() -> None:
    box = spaces.Box(-1, 1, (8,), np.float32)
    parts = {"rows": box, "number": box, "mask": box}
    shown = {
        "rows": np.zeros((ROWS, 8), np.float32),
        "number": np.float32(1),
        "mask": np.zeros((8, ROWS), bool),
    }
    obs, _ = arrayferry.wrap(_Shown(parts, shown), "jax", EIGHT).reset()
    assert obs.pop("rows").sharding == EIGHT
    assert all(leaf.devices() == {jax.devices()[0]} for leaf in jax.tree.leaves(obs))
    # An array in a sequence may have as many rows as there are environments, by accident.
    for any_length in spaces.Sequence(box, stack=True), spaces.Graph(box, None):
        many = _Shown(parts | {"any": spaces.Tuple([any_length])}, {})
        _refused(lambda: arrayferry.wrap(many, "jax", EIGHT), "not arrays with a row", kind=FerryError)  # noqa: B023
    text = arrayferry.wrap(
        _Shown({"a": spaces.Text(3), "b": box}, {"a": ("x",) * ROWS, "b": shown["rows"]}), "jax", EIGHT
    )
    assert text.reset()[0]["b"].sharding == EIGHT


def actions_may_lie_anywhere() -> None:
    wanted = np.arange(2 * ROWS).reshape(ROWS, 2) % 3
    columns = NamedSharding(_mesh((4, 2)), P(None, "model"))
    for device in _shardings():
        env = _Shown({"x": spaces.Box(-1, 1, (1,))}, {"x": np.zeros((ROWS, 1))})
        env.single_action_space = spaces.Dict(
            a=spaces.MultiDiscrete([3, 3]), b=spaces.Tuple([spaces.Discrete(9)])
        )
        env.action_space = batch_space(env.single_action_space, ROWS)
        envs = arrayferry.wrap(env, "jax", device)
        for place in [*_shardings(), columns, jax.devices()[5], None]:
            action = jax.device_put(jnp.asarray(wanted), place) if place is not None else wanted
            envs.step({"a": action, "b": (jax.device_put(wanted[:, 0], device),)})
            assert env.actions in env.action_space, env.actions
            assert (env.actions["a"] == wanted).all()
            assert (env.actions["b"][0] == wanted[:, 0]).all()
        envs.reset(options={"reset_mask": jax.device_put(wanted[:, 0] > 0, device), "other": 3})
        assert type(env.options["reset_mask"]) is np.ndarray
        assert (env.options["reset_mask"] == (wanted[:, 0] > 0)).all()
        assert env.options["other"] == 3


def a_deleted_action_is_refused() -> None:
    envs = arrayferry.wrap(_Shown({}, {}), "jax", EIGHT)
    action = jax.device_put(np.zeros(ROWS, int), EIGHT)
    action.delete()
    _refused(lambda: envs.step(action), "action", "deleted", kind=FerryError)


def target_spaces_sample_what_the_agent_sees() -> None:
    for sharding in _shardings():
        envs = arrayferry.wrap(make(ROWS), "jax", sharding, spaces="target")
        twin = pickle.loads(pickle.dumps(envs))
        for one in envs, twin:
            action, seen = one.action_space.sample(), one.observation_space.sample()
            assert all(leaf.sharding == sharding for leaf in jax.tree.leaves((action, seen)))
            assert action in one.action_space
            assert seen in one.observation_space
            assert one.reset(seed=0)[0] in one.observation_space
            alone = one.single_action_space.sample(), one.single_observation_space.sample()
            assert all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(alone))
            assert alone[0] in one.single_action_space


def copies_are_split_alike() -> None:
    for sharding in _shardings():
        envs = arrayferry.wrap(make(ROWS), "jax", sharding)
        for twin in pickle.loads(pickle.dumps(envs)), copy.deepcopy(envs):
            assert twin.reset(seed=1)[0]["place"].sharding == sharding, sharding
            assert twin.step(np.zeros((ROWS, 2), int))[1].sharding == sharding


def an_outer_wrapper_passes_rows_on() -> None:
    inner = arrayferry.wrap(make(ROWS), "jax", EIGHT)
    outer = arrayferry.wrap(inner, "numpy")
    outer.reset(seed=1, options={"mask": np.zeros(ROWS)})  # an array goes in before any has come out
    for twin in outer, pickle.loads(pickle.dumps(outer)), copy.deepcopy(outer):
        twin.reset(seed=1, options={"mask": np.zeros(3)})  # which has no rows
        wanted = np.arange(2 * ROWS).reshape(ROWS, 2) % 2
        action = twin._boundary.convert_action(wanted)
        assert action.sharding == EIGHT
        assert type(twin.step(wanted)[1]) is np.ndarray


def other_sources_are_split_too() -> None:
    for sharding in _shardings():
        for xp in (jnp, "torch") if find_spec("torch") else (jnp,):
            convert = partial(arrayferry.convert, to=xp)
            batch = np.arange(3.0 * ROWS, dtype=np.float32).reshape(ROWS, 3)
            box, shown = spaces.Box(-1, 1, (3,)), {"x": batch, "number": np.float32(1)}
            env = _Shown({"x": box, "number": box}, convert(shown), {"y": convert(batch)})
            obs, info = arrayferry.wrap(env, "jax", sharding, dtypes={"float32": "float16"}).reset()
            assert obs["x"].sharding == sharding
            assert obs["x"].dtype == jnp.float16
            assert (np.asarray(obs["x"]) == batch).all()
            assert info["y"].devices() == {next(iter(obs["x"].sharding.mesh.devices.flat))}
            if xp is jnp:  # it may be donated
                env.shown["x"].delete()
                env.shown["number"].delete()
                assert float(obs["number"]) == 1
                assert (np.asarray(obs["x"]) == batch).all()


def casts_are_made_before_the_split() -> None:
    envs = arrayferry.wrap(make(ROWS), "jax", EIGHT, dtypes="space", reward_dtype="float16")
    envs.reset(seed=0)
    _, reward, *_ = envs.step(np.zeros((ROWS, 2), int))
    assert reward.sharding == EIGHT
    assert reward.dtype == np.float16


def what_an_agent_holds_does_not_change() -> None:
    for shape in (4,), (100, 100):
        buffer = np.zeros((ROWS, *shape), np.float32)
        envs = arrayferry.wrap(_Shown({"x": spaces.Box(-1, 1, shape)}, {"x": buffer}), "jax", EIGHT)
        held = []
        for number in range(20):
            buffer[:] = number
            held.append(envs.reset()[0]["x"])
        assert all((np.asarray(one) == number).all() for number, one in enumerate(held))


def transfers_are_explicit() -> None:
    envs = arrayferry.wrap(make(ROWS), "jax", EIGHT)
    envs.reset(seed=0)
    with jax.transfer_guard("disallow"):
        for _ in range(3):
            envs.step(np.zeros((ROWS, 2), int))


def a_converter_splits_by_any_spec() -> None:
    mesh = _mesh((4, 2))
    batch = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    for spec in P("env"), P("env", "model"), P(None, "model"), P("model", "env"), P():
        sharding = NamedSharding(mesh, spec)
        to_jax = arrayferry.Converter("jax", sharding)
        for _ in range(2):
            found, wanted = to_jax(batch), jax.device_put(batch, sharding)
            assert found.aval == wanted.aval
            assert found.sharding == wanted.sharding
            assert (np.asarray(found) == batch).all()
            pairs = zip(found.addressable_shards, wanted.addressable_shards, strict=True)
            assert all((one.data == other.data).all() for one, other in pairs)


def what_cannot_be_split_is_refused_at_once() -> None:
    ten = SyncVectorEnv([Episodes] * 10)
    wrap = partial(arrayferry.wrap, to="jax")
    _refused(lambda: wrap(ten, device=EIGHT), "10 environments", "8", "multiple")
    grid = _mesh((4, 2))
    for spec in P("env", "model"), P(None, "model"):
        _refused(lambda spec=spec: wrap(make(ROWS), device=NamedSharding(grid, spec)), "first axis")
    _refused(
        lambda: wrap(make(ROWS), device=EIGHT, copy=False).reset(), "obs", "copy=None", kind=SharingError
    )
    assert wrap(ten, device=NamedSharding(grid, P("model"))).reset()[0]["count"].shape == (10,)


def wrappers_outside_compute_with_it() -> None:
    from arrayferry.wrappers.vector import NormalizeReward, RecordEpisodeStatistics

    bare = RecordEpisodeStatistics(NormalizeReward(gym.make_vec("CartPole-v1", ROWS)))
    envs = arrayferry.wrap(gym.make_vec("CartPole-v1", ROWS), "jax", EIGHT)
    envs = RecordEpisodeStatistics(NormalizeReward(envs))
    bare.reset(seed=0)
    envs.reset(seed=0)
    for number in range(50):
        action = np.full(ROWS, number % 2)
        wanted, found = bare.step(action), envs.step(jax.device_put(action, EIGHT))
        np.testing.assert_allclose(np.asarray(found[1]), wanted[1], rtol=1e-4)
        assert (np.asarray(found[2]) == wanted[2]).all()


CHECKS: list[Callable[[], None]] = [
    every_row_is_that_of_the_bare_environments,
    arrays_are_those_that_device_put_makes,
    infos_stay_on_one_device,
    what_has_no_rows_goes_to_one_device,
    actions_may_lie_anywhere,
    a_deleted_action_is_refused,
    target_spaces_sample_what_the_agent_sees,
    copies_are_split_alike,
    an_outer_wrapper_passes_rows_on,
    other_sources_are_split_too,
    casts_are_made_before_the_split,
    what_an_agent_holds_does_not_change,
    transfers_are_explicit,
    a_converter_splits_by_any_spec,
    what_cannot_be_split_is_refused_at_once,
    wrappers_outside_compute_with_it,
]

if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)  # rewards are float64
    for check in CHECKS:
        try:
            check()
        except Exception:  # the others are checked nevertheless
            print(f"{check.__name__} failed: {traceback.format_exc()}")
        else:
            print(check.__name__)
