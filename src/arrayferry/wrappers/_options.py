"""The keyword options of the wrappers, for type checkers, where a call passes them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from arrayferry.wrappers._watch import SanitizeMode

__all__ = ["Options", "SingleOptions", "VectorOptions"]


class Options(TypedDict, total=False):
    """What all of them take."""

    copy: bool | None
    dtypes: Mapping[Any, Any] | Literal["space"] | None
    reward_dtype: Any
    spaces: Literal["env", "target"]
    sanitize: SanitizeMode | None


class SingleOptions(Options, total=False):
    """What the wrapper for single environments takes."""

    scalars: Literal["python", "target"]


class VectorOptions(Options, total=False):
    """What the wrapper for vector environments takes."""

    dense_final: bool
