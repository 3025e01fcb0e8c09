"""The keyword options of the wrappers, for type checkers, where a call passes them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from arrayferry.wrappers._watch import SanitizeMode

__all__ = ["Options", "SingleOptions", "VectorOptions"]


class Options(TypedDict, total=False):
    """The options of every wrapper."""

    copy: bool | None
    dtypes: Mapping[Any, Any] | Literal["space"] | None
    reward_dtype: Any
    spaces: Literal["env", "target"]
    sanitize: SanitizeMode | None


class SingleOptions(Options, total=False):
    """The options of the wrapper for single environments."""

    scalars: Literal["python", "target"]


class VectorOptions(Options, total=False):
    """The options of the wrapper for vector environments."""

    dense_final: bool
