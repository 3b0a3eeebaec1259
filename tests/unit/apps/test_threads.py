"""Threads are begun as work comes, and end when they are told to."""

import threading
from collections.abc import Callable

import pytest

from tokimori.apps.threads import Threads


def _at_once(_: float, act: Callable[[], None]) -> None:
    act()


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_each_has_a_thread_of_its_own_up_to_the_most() -> None:
    """Two that wait for each other both run; a third one waits for a place."""
    together, done = threading.Barrier(2, timeout=10), threading.Semaphore(0)
    names: list[str] = []

    def act(number: int) -> None:
        names.append(threading.current_thread().name)
        if number < 2:
            together.wait()
        done.release()

    threads = Threads[int](2, act, _at_once)
    for number in range(3):
        threads.give(number, busy=number)
    for _ in range(3):
        assert done.acquire(timeout=10)
    assert set(names) == {"tokimori_1", "tokimori_2"}
    threads.close()


def test_no_thread_is_begun_while_one_is_idle() -> None:
    """A second call with nothing in hand goes to the thread that there is; after `close` it ends."""
    done = threading.Semaphore(0)
    found: list[threading.Thread] = []

    def act(_: int) -> None:
        found.append(threading.current_thread())
        done.release()

    threads = Threads[int](2, act, _at_once)
    for _ in range(2):
        threads.give(0, busy=0)
        assert done.acquire(timeout=10)
    threads.close()
    assert len(set(found)) == 1
    found[0].join(10)
    assert not found[0].is_alive()


@pytest.mark.parametrize("taken", [True, False])
def test_of_many_that_come_together_only_those_get_a_thread_that_still_wait_a_moment_later(
    taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin one takes longer than a no-op; it is looked once for all of them."""
    done = threading.Semaphore(0)
    looks, begun = list[Callable[[], None]](), list[threading.Thread]()
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: begun.append(thread))  # noqa: PLW0108  bound so
    threads = Threads[int](8, lambda _: done.release(), lambda _, act: looks.append(act))
    for number in range(4):
        threads.give(number, busy=number)
    assert (len(begun), len(looks)) == (1, 1)
    if taken:
        start(begun[0])
        for _ in range(4):
            assert done.acquire(timeout=10)
    looks[0]()
    assert len(begun) == (1 if taken else 5)
    if not taken:
        threads.give(4, busy=8)
        threads.give(5, busy=9)
        assert len(looks) == 2
    threads.close()


def test_after_the_end_no_look_begins_a_thread() -> None:
    """One that is begun later would take the end of another one, which would wait for ever."""
    goes_on, done = threading.Event(), threading.Semaphore(0)
    looks, found = list[Callable[[], None]](), list[threading.Thread]()

    def act(_: int) -> None:
        found.append(threading.current_thread())
        goes_on.wait(10)
        done.release()

    threads = Threads[int](8, act, lambda _, look: looks.append(look))
    for number in range(3):
        threads.give(number, busy=number)
    threads.close()
    looks[0]()
    threads.give(3, busy=8)
    goes_on.set()
    for _ in range(3):
        assert done.acquire(timeout=10)
    assert len(set(found)) == 1
    found[0].join(10)
    assert not found[0].is_alive()


def test_where_the_machine_gives_no_thread_work_waits_for_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is there, that is told; and the next one is begun when there is room for it."""
    done, names = threading.Semaphore(0), list[str]()

    def act(_: int) -> None:
        names.append(threading.current_thread().name)
        done.release()

    threads = Threads[int](2, act, _at_once)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(RuntimeError):
            threads.give(0, busy=0)
    threads.give(1, busy=0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        threads.give(2, busy=1)
    for _ in range(2):
        assert done.acquire(timeout=10)
    threads.close()
    assert names == ["tokimori_1"] * 2
