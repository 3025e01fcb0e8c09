"""Gymnasium spaces and arrays: actions as members of a space, and a space seen from another framework.

| file | the one idea |
|---|---|
| `structure.py` | what spaces consist of, which have members of one shape, and the spaces of a batch |
| `members.py` | from an action to what `space.sample()` would have returned in its place |
| `casting.py` | observations cast to the dtypes that their space declares, rewards to one dtype; checked |
| `target.py` | a space whose `sample` returns and whose `contains` accepts another framework's arrays |
"""

from __future__ import annotations

from arrayferry.spaces.casting import cast_to_space
from arrayferry.spaces.members import member_caster
from arrayferry.spaces.target import convert_space

__all__ = ["cast_to_space", "convert_space", "member_caster"]
