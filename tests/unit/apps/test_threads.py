"""Threads are begun as work comes, and end when they are told to."""

import threading

import pytest

from tokimori.apps.threads import Threads


def test_each_has_a_thread_of_its_own_up_to_the_most() -> None:
    """Two that wait for each other both run; a third one waits for a place."""
    together, done = threading.Barrier(2, timeout=10), threading.Semaphore(0)
    names: list[str] = []

    def act(number: int) -> None:
        names.append(threading.current_thread().name)
        if number < 2:
            together.wait()
        done.release()

    threads = Threads[int](2, act)
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

    threads = Threads[int](2, act)
    for _ in range(2):
        threads.give(0, busy=0)
        assert done.acquire(timeout=10)
    threads.close()
    assert len(set(found)) == 1
    found[0].join(10)
    assert not found[0].is_alive()


def test_what_was_done_is_told_while_another_call_takes_long() -> None:
    """No end waits for a call that was begun after it: whoever acts alone tells first what others have to tell."""
    told, done = threading.Event(), threading.Semaphore(0)
    ended: list[int] = []

    def act(number: int) -> None:
        if number == 2:
            assert told.wait(10)
        ended.append(number)
        done.release()

    def say() -> None:
        if ended[:2] == [0, 1]:
            told.set()

    threads = Threads[int](1, act, say)
    for number in range(3):
        threads.give(number, busy=number)
    for _ in range(3):
        assert done.acquire(timeout=10)
    assert ended == [0, 1, 2]
    threads.close()


def test_where_no_more_threads_can_be_begun_the_others_do_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that gives no more threads loses no call; only where there is none at all that is an error."""
    begun, done = threading.Event(), threading.Semaphore(0)

    def act(_: int) -> None:
        assert begun.wait(10)
        done.release()

    threads = Threads[int](3, act)
    threads.give(0, busy=0)
    monkeypatch.setattr(threading.Thread, "start", _refuse)
    threads.give(1, busy=1)
    begun.set()
    for _ in range(2):
        assert done.acquire(timeout=10)
    with pytest.raises(RuntimeError):
        Threads[int](3, act).give(0, busy=0)
    threads.close()


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
