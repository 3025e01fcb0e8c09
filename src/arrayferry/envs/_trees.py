"""Trees of JAX arrays, such as states, observations and infos."""

from __future__ import annotations

from functools import partial
from typing import Any

from arrayferry._frameworks.jax import jax, jnp
from arrayferry.errors import UnsupportedError

__all__ = ["copied", "filled", "in_dtypes_of", "select", "shape_of", "strong", "untraced"]


def shape_of(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return JAX's record of a shape and a dtype, which has no type hints."""
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def strong(shapes: Any) -> Any:
    """Return shapes and dtypes without the mark of weak types."""
    return jax.tree.map(lambda leaf: shape_of(leaf.shape, leaf.dtype), shapes)


def in_dtypes_of(like: Any, tree: Any) -> Any:
    """Return a tree in the dtypes of another, no longer weakly typed; typed keys stay as they are."""

    def cast(to: Any, leaf: Any) -> Any:
        is_key = jnp.issubdtype(to.dtype, jax.dtypes.extended)
        return leaf if is_key else jax.lax.convert_element_type(leaf, to.dtype)

    return jax.tree.map(cast, like, tree)


def copied(tree: Any) -> Any:
    """Return a copy of a tree of arrays."""
    return jax.tree.map(partial(jnp.array, copy=True), tree)


def select(mask: Any, chosen: Any, other: Any) -> Any:
    """Return, for each environment or for all together, the leaves of one tree or of the other."""

    def select_rows(new: Any, old: Any) -> Any:
        if old.shape[: mask.ndim] != mask.shape:  # some arrays of MuJoCo Warp's have no axis for environments
            return old
        return jnp.where(mask.reshape(mask.shape + (1,) * (old.ndim - mask.ndim)), new, old)

    return jax.tree.map(select_rows, chosen, other)


def filled(shapes: dict[str, Any], info: dict[str, Any], count: int | None) -> dict[str, Any]:
    """Return infos of many environments with zeros for what they lack, given the shapes for one."""
    result = dict(info)
    for key, shape in shapes.items():
        if key not in info:
            result[key] = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), shape)
        elif isinstance(shape, dict):
            result[key] = filled(shape, info[key], count)
    return result


def untraced(array: Any) -> Any:
    """Return an array, unless it stands for one in a function that JAX traces."""
    if isinstance(array, jax.core.Tracer):
        what = "an environment was reset or stepped in a function that JAX traces"
        raise UnsupportedError(what, "call it outside, or use arrayferry.in_jit")
    return array
