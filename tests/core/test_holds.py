"""What work on devices still reads is kept alive until it is done, whatever becomes of the device."""

from __future__ import annotations

import weakref

import pytest

from arrayferry._core import holds


class Source:
    """What some work reads."""


class Work:
    """Work on a device that may be lost, whose events then raise."""

    def __init__(self):
        self.done = self.lost = False
        self.waits = 0

    def is_done(self):
        if self.lost:
            raise RuntimeError("the device is lost")
        return self.done

    def synchronize(self):
        self.is_done()
        self.waits += 1
        self.done = True


@pytest.fixture(autouse=True)
def _empty():
    holds.release()
    yield
    holds._holds.clear()


def held(work):
    source = Source()
    holds.hold(work.is_done, work.synchronize, [source])
    return weakref.ref(source)


def test_it_is_kept_until_the_next_step_after_the_work_is_done():
    first, second = Work(), Work()
    source = held(first)
    held(second)
    assert source() is not None
    first.done = True
    assert source() is not None
    held(second)
    assert source() is None
    assert first.waits == 0


def test_the_end_waits_for_what_is_left_and_for_nothing_else():
    works = [Work(), Work(), Work()]
    sources = [*map(held, works)]
    works[1].done = True
    holds.release()
    assert [work.waits for work in works] == [1, 0, 1]
    assert [source() for source in sources] == [None] * 3


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_end_comes_with_a_lost_device_too(lost):
    works = [Work(), Work(), Work()]
    sources = [*map(held, works)]
    works[lost].lost = True
    holds.release()
    assert [work.waits for work in works] == [number != lost for number in range(3)]
    assert [source() for source in sources] == [None] * 3


def test_the_oldest_is_waited_for_when_too_many_are_pending(monkeypatch):
    monkeypatch.setattr(holds, "MOST", 2)
    works = [Work(), Work(), Work()]
    sources = [*map(held, works)]
    assert [work.waits for work in works] == [1, 0, 0]
    assert [source() is None for source in sources] == [True, False, False]
