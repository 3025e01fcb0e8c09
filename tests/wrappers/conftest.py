"""Tests that take `target` run for every framework."""

from helpers.targets import array_type, pytest_generate_tests

__all__ = ["array_type", "pytest_generate_tests"]
