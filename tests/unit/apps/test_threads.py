"""Threads are begun as work comes, and end when they are told to."""

import threading
import time
from collections.abc import Callable

import pytest

from tokimori.apps.threads import Threads


def _at_once(_: float, act: Callable[[], None]) -> None:
    act()


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def _come(threads: Threads[int], *numbers: int, in_hand: int) -> None:
    for number in numbers:
        threads.give(number)
    threads.set_going(in_hand)


def _until_idle(threads: Threads[int], number: int) -> None:
    """Until so many of its threads wait, which nothing tells."""
    end = time.monotonic() + 10
    while len(threads._idle) < number:
        assert time.monotonic() < end


class Begun:
    """Threads that were begun, and have not started: the test starts them. `looks` are those that were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._start = threading.Thread.start
        self.threads: list[threading.Thread] = []
        self.looks: list[Callable[[], None]] = []
        monkeypatch.setattr(threading.Thread, "start", lambda thread: self.threads.append(thread))  # noqa: PLW0108  bound so

    def __len__(self) -> int:
        return len(self.threads)

    def start(self, number: int) -> None:
        self._start(self.threads[number])

    def later(self, _: float, act: Callable[[], None]) -> None:
        self.looks.append(act)

    def look(self) -> None:
        self.looks.pop()()


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
        _come(threads, number, in_hand=number + 1)
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
        _come(threads, 0, in_hand=1)
        assert done.acquire(timeout=10)
    threads.close()
    assert len(set(found)) == 1
    found[0].join(10)
    assert not found[0].is_alive()


def test_who_became_idle_last_is_woken_first() -> None:
    """Of two idle threads one does all that comes alone: what it needs is still near."""
    first, second, done = threading.Event(), threading.Event(), threading.Semaphore(0)
    names: list[str] = []

    def act(number: int) -> None:
        names.append(threading.current_thread().name)
        if number == 1:
            first.wait(10)
        if number == 2:
            second.wait(10)
        done.release()

    threads = Threads[int](2, act, _at_once)
    _come(threads, 1, in_hand=1)
    _come(threads, 2, in_hand=2)
    first.set()
    assert done.acquire(timeout=10)
    second.set()
    assert done.acquire(timeout=10)
    for _ in range(3):
        _until_idle(threads, 2)
        _come(threads, 0, in_hand=1)
        assert done.acquire(timeout=10)
    threads.close()
    assert len(set(names[2:])) == 1


@pytest.mark.parametrize("taken", [True, False])
def test_of_many_that_come_together_only_those_get_a_thread_that_still_wait_a_moment_later(
    taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin one takes longer than a no-op; it is looked once for all of them."""
    done, begun = threading.Semaphore(0), Begun(monkeypatch)
    threads = Threads[int](8, lambda _: done.release(), begun.later)
    _come(threads, 0, 1, 2, 3, in_hand=4)
    assert (len(begun), len(begun.looks)) == (1, 1)
    if taken:
        begun.start(0)
        for _ in range(4):
            assert done.acquire(timeout=10)
    begun.look()
    assert len(begun) == (1 if taken else 5)
    threads.close()


def test_a_look_begins_no_thread_for_what_came_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be done in a moment by the thread that there is; what still waits at the next look gets one."""
    took, goes_on, done = threading.Event(), threading.Event(), threading.Semaphore(0)

    def act(number: int) -> None:
        if number == 2:
            took.set()
            goes_on.wait(10)
        done.release()

    begun = Begun(monkeypatch)
    threads = Threads[int](8, act, begun.later)
    _come(threads, 0, 1, in_hand=2)
    begun.start(0)
    for _ in range(2):
        assert done.acquire(timeout=10)
    _until_idle(threads, 1)
    _come(threads, 2, 3, 4, in_hand=3)
    assert took.wait(10)
    begun.look()
    assert (len(begun), len(begun.looks)) == (1, 1)
    begun.look()
    assert (len(begun), len(begun.looks)) == (3, 0)
    goes_on.set()
    threads.close()


def test_after_the_end_no_look_begins_a_thread() -> None:
    """What still waits has lost its node: the threads that there are may do it, and end."""
    goes_on, done = threading.Event(), threading.Semaphore(0)
    looks, found = list[Callable[[], None]](), list[threading.Thread]()

    def act(_: int) -> None:
        found.append(threading.current_thread())
        goes_on.wait(10)
        done.release()

    threads = Threads[int](8, act, lambda _, look: looks.append(look))
    _come(threads, 0, in_hand=1)
    _come(threads, 1, 2, 3, in_hand=4)
    threads.close()
    for look in looks:
        look()
    _come(threads, 4, in_hand=8)
    goes_on.set()
    for _ in range(5):
        assert done.acquire(timeout=10)
    assert looks
    assert len(set(found)) <= 2
    for thread in found:
        thread.join(10)
        assert not thread.is_alive()


def test_one_that_waits_behind_one_that_blocks_is_looked_after() -> None:
    """However soon the first thread took the first thing: what came with it gets a thread at the look."""
    goes_on, done = threading.Event(), threading.Semaphore(0)

    def act(number: int) -> None:
        if number != 1:
            goes_on.wait(10)
        done.release()

    looks = list[Callable[[], None]]()
    threads = Threads[int](8, act, lambda _, look: looks.append(look))
    for before in (0, 3):
        _come(threads, before, before + 2, 1, in_hand=3)
        while looks:
            looks.pop()()
        assert done.acquire(timeout=10)
    goes_on.set()
    threads.close()


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
            threads.give(0)
    _come(threads, 1, in_hand=1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        _come(threads, 2, in_hand=2)
    for _ in range(2):
        assert done.acquire(timeout=10)
    threads.close()
    assert names == ["tokimori_1"] * 2


def test_what_a_thread_is_on_its_way_to_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be held up there: then the thing gets another thread at the look."""
    begun = Begun(monkeypatch)
    threads = Threads[int](8, lambda _: None, begun.later)
    _come(threads, 0, in_hand=1)
    threads._given.clear()  # as if the thread had it, and had told its end
    begun.look()
    _come(threads, 1, in_hand=1)
    assert (len(begun), len(begun.looks)) == (1, 1)
    begun.look()
    assert len(begun) == 2
    threads.close()


@pytest.mark.parametrize("what", ["given", "closed"])
def test_nothing_is_missed_by_a_thread_that_is_about_to_wait(what: str) -> None:
    """It has found nothing, and does not stand among the idle ones yet: whatever comes then, it gets on with."""
    found, begun, done = list[threading.Thread](), threading.Event(), threading.Semaphore(0)

    def act(_: int) -> None:
        found.append(threading.current_thread())
        done.release()

    class Idle(list[threading.Lock]):
        def append(self, lock: threading.Lock) -> None:
            begun.wait(10)
            if what == "given" and len(found) == 1:
                _come(threads, 1, in_hand=1)
            if what == "closed":
                threads.close()
            super().append(lock)

    threads = Threads[int](1, act, lambda *_: None)
    threads._idle = Idle()
    _come(threads, 0, in_hand=1)
    begun.set()
    for _ in range(2 if what == "given" else 1):
        assert done.acquire(timeout=10)
    _until_idle(threads, 1 if what == "given" else 0)
    threads.close()
    found[0].join(10)
    assert not found[0].is_alive()


def test_whatever_comes_is_done() -> None:
    """Of what comes in ones, twos and threes none is left, whatever the three threads do then; and all end."""
    done, found = threading.Semaphore(0), set[threading.Thread]()

    def act(_: int) -> None:
        found.add(threading.current_thread())
        done.release()

    threads = Threads[int](3, act, lambda _, look: look())
    for number in range(3_000):
        _come(threads, *range(number % 3 + 1), in_hand=3)
        for _ in range(number % 3 + 1):
            assert done.acquire(timeout=10)
    threads.close()
    assert len(found) > 1
    for thread in found:
        thread.join(10)
        assert not thread.is_alive()
