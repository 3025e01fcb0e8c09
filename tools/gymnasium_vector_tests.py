"""Run Gymnasium's own tests of vector environments on `ProcessVectorEnv`, in place of `AsyncVectorEnv`.

The job `gymnasium` of ci.yml does so every week.

git clone https://github.com/Farama-Foundation/Gymnasium
python tools/gymnasium_vector_tests.py Gymnasium
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium.vector
import pytest
from gymnasium.vector import async_vector_env

from arrayferry.scale import ProcessVectorEnv

FILES = (
    "test_async_vector_env.py",
    "test_autoreset_mode.py",
    "test_vector_env.py",
    "test_vector_env_info.py",
)

# Tests of something that the two do not both promise, by a part of their name, and why they are skipped.
REASONS = {
    "test_reset_timeout": "there is no reset_async: a reset that takes too long is a fault",
    "test_step_timeout": "step_wait takes no timeout: step_timeout is the same for all steps",
    "test_reset_out_of_order": "there is no reset_async",
    "test_step_out_of_order": "the same errors, in other words",
    "test_custom_space_async_vector_env_shared_memory": "spaces of no fixed shape work",
    "test_async_vector_subenv_error": "the exception is raised once, and not logged besides",
    "test_partial_reset_failure[Async": "the same errors, in other words",
}


class InPlaceOfAsync(ProcessVectorEnv):
    """Takes the arguments of `AsyncVectorEnv`; what it returns is always copied out of shared memory."""

    def __init__(
        self,
        env_fns: Any,
        shared_memory: bool = True,
        copy: bool = True,
        context: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env_fns, context=context or "fork", **options)


class LeaveOut:
    """A plugin that skips the tests in `REASONS`."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Mark the tests."""
        for item in items:
            for part, reason in REASONS.items():
                if part in item.nodeid:
                    item.add_marker(pytest.mark.skip(reason=reason))


def main() -> int:
    """Run them, and return pytest's exit code."""
    folder = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(folder))
    gymnasium.vector.AsyncVectorEnv = InPlaceOfAsync  # type: ignore[assignment, misc]
    async_vector_env.AsyncVectorEnv = InPlaceOfAsync  # type: ignore[assignment, misc]
    files = [str(folder / "tests/vector" / name) for name in FILES]
    options = [
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        f"--rootdir={folder}",
        f"--confcutdir={folder}/tests/vector",
    ]
    return pytest.main([*options, *files, *sys.argv[2:]], plugins=[LeaveOut()])


if __name__ == "__main__":
    sys.exit(main())
