"""Each pair of frameworks is examined: its route, whether memory is shared, and its times."""

from __future__ import annotations

import sys

from arrayferry.cli.pairs import examine

# Until Python 3.11, whoever calls a function holds its arguments while it runs.
TEMPORARY = "copied" if sys.version_info < (3, 11) else "taken over"


def test_every_pair(pair):
    source, target = pair
    found = examine(source, target)
    assert (found.source, found.target, found.problem) == (source, target, "")
    assert (found.route[0], found.route[-1]) == (source, target)
    assert found.temporary in ("taken over", "copied")
    assert found.shares in ("yes", "no", "if aligned")
    assert found.small > 0
    assert found.large > 0


def test_numpy_is_taken_over_and_shared():
    found = examine("numpy", "numpy")
    assert (found.temporary, found.shares, found.route) == (TEMPORARY, "yes", ("numpy", "numpy"))
