"""`in_jit`: any Gymnasium environment inside `jax.jit`, `lax.scan`, `while_loop` and `cond`.

A step is a callback to the host. Its order is that of the state, which each call takes and returns: the host
knows which state is the newest, and refuses every other. What the environment returns is checked against what
its spaces declare before XLA gets it, because XLA would take whatever bytes there are.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from arrayferry._core.dtypes import cast_exactly
from arrayferry._core.registry import describe
from arrayferry._core.walk import key_text
from arrayferry.errors import NarrowingError, UnsupportedError
from arrayferry.wrappers import wrap

if TYPE_CHECKING:
    import gymnasium as gym
    import jax

    State = jax.Array
    Reset = Callable[..., tuple[State, Any]]
    Step = Callable[[State, Any], tuple[State, tuple[Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]]]

__all__ = ["in_jit"]

# Arrays, and numbers or lists of numbers that become arrays of the declared dtype.
Leaves = list[Any]


def in_jit(
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any],
    *,
    info: Iterable[str] | Mapping[str, Any] = (),
    autoreset: bool = False,
) -> tuple[Reset, Step]:
    """Return `reset` and `step` functions of an environment that work inside `jax.jit`.

    Both take and return a state, which says what comes after what: `reset(key)` starts one, and each
    `step(state, action)` uses one up. A state that is used twice is an error, not a second step. Pass
    `reset(key, state)` to reset after the steps that led to `state`, if both are in one compiled function.
    The seed that a key gives is `int(jax.random.bits(key) >> 1)`, so that a Python loop can do the same.

    Rewards are JAX's default float; observations have the dtypes of the space, as far as JAX holds them. An
    environment's own exception comes as JAX's `JaxRuntimeError` with its message, and the state that was
    given can be used again.

    Args:
        env: the environment, single or vector, of any framework. Its observation space has fixed shapes.
        info: the names of the infos that `step` returns. Their shapes are those of a first reset and step,
            which are made at once; or give examples, as `{"episode": {"r": np.zeros(8)}}`. In a step that
            lacks one, it is zeros. `"final_obs"` needs no example.
        autoreset: of single environments, whether the step that ends an episode resets, and returns the next
            episode's first observation. Vector environments do as they do.

    Returns:
        `reset(key, state=None) -> state, obs` and
        `step(state, action) -> state, (obs, reward, terminated, truncated, info)`.

    Raises:
        UnsupportedError: the observation space has no fixed shape, an info is unknown, or, when a step is
            traced, it is under `vmap` or `grad`.

    Example:
        >>> import arrayferry, gymnasium as gym, jax
        >>> reset, step = arrayferry.in_jit(gym.make("CartPole-v1"), autoreset=True)
        >>> @jax.jit
        ... def rollout(key):
        ...     state, obs = reset(key)
        ...     actions = jax.numpy.tile(jax.numpy.array([0, 1]), 50)
        ...     return jax.lax.scan(step, state, actions)[1]
        >>> obs, reward, terminated, truncated, info = rollout(jax.random.key(0))
        >>> obs.shape, float(reward.sum())
        ((100, 4), 100.0)
    """
    import jax

    host = _Host(env, info, autoreset)
    on_host = partial(_on_host, _by_buffers if _buffers_work() else _by_io)

    def reset(key: jax.Array, state: jax.Array | None = None) -> tuple[jax.Array, Any]:
        after = jax.numpy.zeros(2, "uint32") if state is None else state
        seed = jax.random.bits(key, (), "uint32") >> 1
        new, *values = on_host("reset", host.reset, [_STATE, *host.obs.leaves], after, seed)
        return new, host.obs.build(iter(values))

    def step(state: jax.Array, action: Any) -> tuple[jax.Array, Any]:
        leaves, form = jax.tree.flatten(action)
        call = lambda state, *leaves: host.step(state, jax.tree.unflatten(form, leaves))  # noqa: E731
        new, *values = on_host("step", call, [_STATE, *host.leaves], state, *leaves)
        rest = iter(values)
        return new, tuple(part.build(rest) for part in host.parts)

    # Compiled here, so that a call outside of `jit` is not compiled each time.
    return jax.jit(reset), jax.jit(step)


class _Leaf(NamedTuple):
    """An array whose shape and dtype are declared before there is one."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def check(self, value: Any) -> Any:
        """Return a value as this array, or as a number that becomes it exactly; floats may round."""
        kind = type(value)
        if kind is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            return value
        is_number = self.dtype.kind == ("b" if kind is bool else "f" if kind is float else "")
        if is_number and not self.shape and abs(value) < _SAFE:
            return value
        array = np.asarray(value)
        if array.shape != self.shape:
            what = f"{describe(array)} where {self.dtype}[{','.join(map(str, self.shape))}] was declared"
            raise UnsupportedError(what, "compiled code needs the declared shape in every step", self.path)
        if array.dtype == self.dtype:
            return array
        new, lost = cast_exactly(array, self.dtype)
        if lost:
            what = f"{describe(array)} -> {self.dtype} jax: {lost} does not fit"
            raise NarrowingError(what, 'jax.config.update("jax_enable_x64", True), or scale it', self.path)
        return new


_SAFE = 3e38  # a float of Python's below this rounds to a finite float32
_STATE = _Leaf("state", (2,), np.dtype("uint32"))


class _Part(NamedTuple):
    """One of the values of a step: its leaves, how to find them in a value, and how to put them together."""

    leaves: list[_Leaf]
    flatten: Callable[[Any], Iterable[Any]]
    build: Callable[[Iterator[Any]], Any]

    def check(self, value: Any) -> Leaves:
        """Return the leaves of a value, each as it was declared."""
        return [leaf.check(one) for leaf, one in zip(self.leaves, self.flatten(value))]


class _Host:
    """The environment, which steps where Python runs; and the newest state, the only one that it takes."""

    def __init__(self, env: Any, info: Iterable[str] | Mapping[str, Any], autoreset: bool) -> None:
        is_vector = isinstance(env, VectorEnv)
        self.env = wrap(env, "numpy", dense_final=True) if is_vector else wrap(env, "numpy")
        self._resets = autoreset and not is_vector
        self._newest, self._lock = [0, 0], threading.Lock()  # the number of resets, and of steps since
        batch = (env.num_envs,) if is_vector else ()
        objectives = getattr(env.unwrapped, "reward_space", None)  # as MO-Gymnasium has it
        rewards = batch if objectives is None else (*batch, *objectives.shape)
        self.obs = _part_of_space("obs", env.observation_space)
        flags = [_part_of_array(name, batch, bool) for name in ("terminated", "truncated")]
        self.parts = [self.obs, _part_of_array("reward", rewards, float), *flags, self._declare_info(info)]
        self.leaves = [leaf for part in self.parts for leaf in part.leaves]

    def reset(self, after: np.ndarray[Any, Any], seed: np.ndarray[Any, Any]) -> Leaves:
        """Reset, if `after` is zeros or the newest state; return the new state and the observation."""
        with self._lock:
            if after.any():
                self._refuse_old(after)
            obs, _ = self.env.reset(seed=int(seed))
            self._newest = [(self._newest[0] + 1) % 2**32, 0]
            return [self._newest, *self.obs.check(obs)]

    def step(self, state: np.ndarray[Any, Any], action: Any) -> Leaves:
        """Step, if this is the newest state; return the new one and all leaves."""
        with self._lock:
            self._refuse_old(state)
            obs, reward, terminated, truncated, info = self.env.step(action)
            self._newest = [self._newest[0], (self._newest[1] + 1) % 2**32]
            if self._resets and (terminated or truncated):
                info = {**info, "final_obs": obs}
                obs, _ = self.env.reset()
            values = obs, reward, terminated, truncated, info
            leaves = [self._newest]
            for part, value in zip(self.parts, values):
                leaves += part.check(value)
            return leaves

    def _refuse_old(self, state: np.ndarray[Any, Any]) -> None:
        if state.tolist() != self._newest:
            what = "this state was used already, or is older than the last reset"
            raise UnsupportedError(what, "go on from the state that the last reset or step returned", "state")

    def _declare_info(self, info: Iterable[str] | Mapping[str, Any]) -> _Part:
        examples = dict(info) if isinstance(info, Mapping) else self._first_infos(tuple(info))
        parts = {
            name: self.obs if name == "final_obs" else _part_of_example(f'info["{name}"]', example)
            for name, example in examples.items()
        }
        zeros = {
            name: [np.zeros(one.shape, one.dtype) for one in part.leaves] for name, part in parts.items()
        }

        def flatten(found: dict[str, Any]) -> Iterator[Any]:
            for name, part in parts.items():
                yield from part.flatten(found[name]) if name in found else zeros[name]

        leaves = [leaf for part in parts.values() for leaf in part.leaves]
        return _Part(leaves, flatten, lambda rest: {name: part.build(rest) for name, part in parts.items()})

    def _first_infos(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Look the named infos up in those of a first reset and step."""
        wanted = [name for name in names if name != "final_obs"]
        found: dict[str, Any] = {"final_obs": None}
        if wanted:
            self.env.action_space.seed(0)
            _, first = self.env.reset(seed=0)
            found |= {**self.env.step(self.env.action_space.sample())[-1], **first}
        for name in wanted:
            if name not in found:
                hint = f'give an example of it, info={{"{name}": ...}}; there are: {", ".join(found)}'
                raise UnsupportedError(f"no info {name!r} in the first reset or step", hint, "info")
        return {name: found[name] for name in names}


def _part_of_array(path: str, shape: tuple[int, ...], dtype: Any) -> _Part:
    return _Part([_Leaf(path, shape, _jax_dtype(dtype))], lambda value: (value,), next)


def _part_of_example(path: str, example: Any) -> _Part:
    import jax

    form: Any
    paths, form = jax.tree_util.tree_flatten_with_path(example)
    leaves = [(path + jax.tree_util.keystr(keys), np.asarray(leaf)) for keys, leaf in paths]
    count = len(leaves)
    return _Part(
        [_Leaf(where, leaf.shape, _jax_dtype(leaf.dtype)) for where, leaf in leaves],
        form.flatten_up_to,
        lambda rest: jax.tree.unflatten(form, itertools.islice(rest, count)),
    )


def _part_of_space(path: str, space: spaces.Space[Any]) -> _Part:
    """Declare the members of a space: a dict for `Dict`, a tuple for `Tuple`, arrays for the rest."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        items = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        parts = {key: _part_of_space(path + key_text(key), one) for key, one in items}
        make: Any = dict if isinstance(space, spaces.Dict) else lambda pairs: tuple(one for _, one in pairs)
        return _Part(
            [leaf for part in parts.values() for leaf in part.leaves],
            lambda value: (one for key, part in parts.items() for one in part.flatten(value[key])),
            lambda rest: make([(key, part.build(rest)) for key, part in parts.items()]),
        )
    if space.shape is None or space.dtype is None or isinstance(space, spaces.Text):
        raise UnsupportedError(f"{space} has no fixed shape", "give it one with a wrapper inside", path)
    return _part_of_array(path, space.shape, space.dtype)


def _jax_dtype(dtype: Any) -> np.dtype[Any]:
    import jax

    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def _on_host(
    callback: Callable[..., Any],
    name: str,
    function: Callable[..., Leaves],
    declared: list[_Leaf],
    *args: Any,
) -> Any:
    """Call a function where Python runs, in compiled code; refuse what would call it once for many."""
    import jax
    from jax.custom_derivatives import SymbolicZero

    outs = [_struct(leaf.shape, leaf.dtype) for leaf in declared]

    @jax.custom_batching.custom_vmap
    def unbatched(*args: Any) -> Any:  # not around the callback: before 0.8.3, JAX drops an unused one
        return args

    @unbatched.def_vmap
    def refuse(size: int, batched: Any, *args: Any) -> NoReturn:
        hint = "make a vector environment, and pass that to in_jit"
        raise UnsupportedError(f"{name} cannot be under vmap: there is one environment", hint)

    differentiable = jax.custom_jvp(lambda *args: callback(function, outs, *unbatched(*args)))

    def derive(primals: Any, tangents: Any) -> Any:
        if not all(isinstance(one, SymbolicZero) for one in tangents):
            hint = "jax.lax.stop_gradient(action)"
            raise UnsupportedError(f"{name} has no gradient: it runs outside of JAX", hint)
        found = differentiable(*primals)
        return found, [np.zeros(leaf.shape, _tangent_dtype(leaf.dtype)) for leaf in declared]

    differentiable.defjvp(derive, symbolic_zeros=True)
    return differentiable(*args)


def _tangent_dtype(dtype: np.dtype[Any]) -> Any:
    import jax

    return dtype if dtype.kind == "f" else jax.dtypes.float0


def _struct(shape: tuple[int, ...], dtype: Any) -> Any:
    import jax

    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _by_io(function: Callable[..., Leaves], outs: list[Any], *args: Any) -> Any:
    from jax.experimental import io_callback

    def call(*args: Any) -> Leaves:
        found = function(*(np.array(arg) for arg in args))
        return [np.asarray(value, out.dtype) for value, out in zip(found, outs)]

    return io_callback(call, outs, *args)


def _by_buffers(function: Callable[..., Leaves], outs: list[Any], *args: Any) -> Any:
    from jax.experimental.buffer_callback import buffer_callback

    def call(context: Any, buffers: list[Any], *args: Any) -> None:
        # The buffers are XLA's, and gone after the call.
        for buffer, value in zip(buffers, function(*(np.asarray(arg).copy() for arg in args))):
            np.asarray(buffer)[...] = value

    return buffer_callback(call, outs, has_side_effect=True)(*args)


@cache
def _buffers_work() -> bool:
    """Whether `buffer_callback`, which is experimental, does here what we need of it."""
    import jax

    def count(old: np.ndarray[Any, Any], value: np.ndarray[Any, Any]) -> Leaves:
        return [old + np.uint32(1), value * 2]

    outs = [_struct((2,), "uint32"), _struct((), "float32")]
    if jax.default_backend() != "cpu":  # elsewhere its buffers are not memory that NumPy sees
        return False
    try:
        step = lambda state, value: tuple(_by_buffers(count, outs, state, value))  # noqa: E731
        start, values = jax.numpy.zeros(2, "uint32"), jax.numpy.arange(3.0)
        last, doubled = jax.jit(lambda: jax.lax.scan(step, start, values))()
        return bool(last.tolist() == [3, 3] and doubled.tolist() == [0.0, 2.0, 4.0])
    except Exception:  # whatever it is, the other way works
        return False
