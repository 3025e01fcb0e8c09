"""Register the late device for this process, and begin each test with an idle one."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True, scope="session")
def _registered():
    from late_device import device

    if (reason := device.why_not()) is not None:
        pytest.skip(reason)
    device.library()


@pytest.fixture(autouse=True)
def late(_registered):
    """The module that controls the device; what goes wrong there, without an error, fails the test."""
    from late_device import device

    device.reset()
    yield device
    device.run_all()
    faults = device.faults()
    device.reset()
    assert not faults
