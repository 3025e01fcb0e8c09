"""Gymnasium spaces and arrays: actions as members of a space, and a space seen from another framework.

| file | the one idea |
|---|---|
| `members.py` | from an action to what `space.sample()` would have returned in its place |
| `batched.py` | the spaces of vector environments that have only those of a single one |
| `casting.py` | observations in the dtypes that their space declares, and rewards in one, checked |
| `target.py` | a space whose `sample` returns and whose `contains` accepts another framework's arrays |
"""

from __future__ import annotations

from arrayferry.spaces.casting import cast_to_space
from arrayferry.spaces.members import member_caster
from arrayferry.spaces.target import convert_space

__all__ = ["cast_to_space", "convert_space", "member_caster"]
