"""The pytest plugin: what it watches, what it reports, and that it costs nothing while it is off."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = "pytester"

ENVIRONMENT = """
    import gymnasium as gym
    import numpy as np
    import pytest

    import arrayferry


    class Counter(gym.Env):
        "Returns NaN from the third step on."

        observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.count = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.count += 1
            return np.float32([self.count if self.count < 3 else np.nan]), 0.0, False, False, {}
"""
TESTS = """
    def play(env, steps):
        env.reset(seed=1)
        for _ in range(steps):
            env.step(1)


    def test_two_steps():
        play(arrayferry.wrap(Counter(), "numpy"), 2)


    @pytest.fixture
    def env():
        return arrayferry.wrap(Counter(), "numpy")


    def test_three_steps(env):
        play(env, 3)
"""
CHECKS = """
    def test_good(check_environment):
        assert check_environment(gym.make("CartPole-v1"), steps=20).ok


    def test_bad(check_environment):
        check_environment(Counter(), steps=20)
"""


@pytest.fixture
def run(pytester):
    """Run a file of tests in a process of its own, with the plugin."""

    def run_tests(text, *arguments):
        pytester.makepyfile(ENVIRONMENT + text)
        return pytester.runpytest_subprocess("-p", "pytest_arrayferry", *arguments)

    return run_tests


def test_findings_fail_the_tests_in_which_they_are_made(run):
    result = run(TESTS, "--arrayferry-sanitize")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED *test_three_steps*", "*1 failed, 1 passed*"])
    assert "NaN" in result.stdout.str()


def test_nothing_is_watched_without_the_option(run):
    run(TESTS).assert_outcomes(passed=2)


def test_the_fixture_fails_with_the_report(run):
    result = run(CHECKS)
    result.assert_outcomes(passed=1, failed=1)
    assert "NaN" in result.stdout.str()


def test_the_plugin_imports_nothing_before_it_is_used():
    program = (
        "import sys, pytest; old = {*sys.modules}; import pytest_arrayferry; print(*({*sys.modules} - old))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "pytest_arrayferry"
