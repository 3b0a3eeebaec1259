"""Threads are begun as work comes, and end when they are told to."""

import threading
import time
from collections.abc import Callable

import pytest

from tokimori.apps.threads import GLANCE, LONG_GLANCE, Later, Threads, WorkThread


def _no_look(_: float, act: Callable[[], None]) -> None:
    """Whatever has to go on does so without one."""


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


class Still:
    """Clocks that stand still: nothing is seen of what threads use."""

    def now(self) -> float:
        """See `Clocks`."""
        return 0.0

    def cpu(self) -> float:
        """See `Clocks`."""
        return 0.0

    def of_this_thread(self) -> Callable[[], float]:
        """See `Clocks`."""
        return float


def _threads(most: int, act: Callable[[int], None], later: Later) -> Threads[int]:
    return Threads[int](most, lambda thing, _: act(thing), later, Still())


def _until(condition: Callable[[], bool]) -> None:
    """Until that is so, which nothing tells."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end


def _until_taken(threads: Threads[int]) -> None:
    _until(lambda: not threads._given)


def _come(threads: Threads[int], *numbers: int, in_hand: int) -> None:
    for number in numbers:
        threads.give(number)
    threads.ensure_thread(in_hand)


def _until_idle(threads: Threads[int], number: int) -> None:
    _until(lambda: len(threads._idle) >= number)


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

    threads = _threads(2, act, _no_look)
    _come(threads, 0, in_hand=1)
    _until_taken(threads)
    _come(threads, 1, in_hand=2)
    _come(threads, 2, in_hand=3)
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

    threads = _threads(2, act, _no_look)
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

    threads = _threads(2, act, _no_look)
    _come(threads, 1, in_hand=1)
    _until_taken(threads)
    _come(threads, 2, in_hand=2)
    _until_taken(threads)
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
    threads = _threads(8, lambda _: done.release(), begun.later)
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
    threads = _threads(8, act, begun.later)
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
    assert (len(begun), len(begun.looks)) == (3, 1)
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

    threads = _threads(8, act, lambda _, look: looks.append(look))
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
    threads = _threads(8, act, lambda _, look: looks.append(look))
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

    threads = _threads(2, act, _no_look)
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


def test_what_no_thread_could_be_begun_for_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is there may rest when it has done what it has in hand."""
    begun = Begun(monkeypatch)
    threads = _threads(8, lambda _: None, begun.later)
    _come(threads, 0, in_hand=1)
    threads._given.clear()  # as if the thread had it
    begun.looks.clear()
    threads._looked_at = None
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    _come(threads, 1, in_hand=2)
    assert len(begun.looks) == 1
    threads.close()


def test_what_a_thread_is_on_its_way_to_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be held up there: then the thing gets another thread at the look."""
    begun = Begun(monkeypatch)
    threads = _threads(8, lambda _: None, begun.later)
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

    class Idle(list[WorkThread]):
        def append(self, thread: WorkThread) -> None:
            begun.wait(10)
            if what == "given" and len(found) == 1:
                _come(threads, 1, in_hand=1)
            if what == "closed":
                threads.close()
            super().append(thread)

    threads = _threads(1, act, lambda *_: None)
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

    looks = list[Callable[[], None]]()
    threads = _threads(3, act, lambda _, look: looks.append(look))
    for number in range(3_000):
        _come(threads, *range(number % 3 + 1), in_hand=3)
        if looks:
            looks.pop()()
        for _ in range(number % 3 + 1):
            assert done.acquire(timeout=10)
    threads.close()
    assert len(found) > 1
    for thread in found:
        thread.join(10)
        assert not thread.is_alive()


# Threads that would only wait for each other


class Bench:
    """Four threads whose acts end when the test lets them, whose CPU it tells, and for which it looks."""

    def __init__(self, *, given: int, most: int = 4) -> None:
        self.looks, self.pauses = list[Callable[[], None]](), list[float]()
        self.may_end = {f"tokimori_{number}": threading.Semaphore(0) for number in range(1, most + 1)}
        self.took = threading.Semaphore(0)
        self.names = list[str]()
        self.at = self.used = self.used_by_each = 0.0
        self.threads = Threads[int](most, self._act, self.later, self)
        _come(self.threads, *range(given), in_hand=given)

    def _act(self, _: int, __: WorkThread) -> None:
        name = threading.current_thread().name
        self.names.append(name)
        self.took.release()
        self.may_end[name].acquire(timeout=60)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """A look that is asked for."""
        self.pauses.append(seconds)
        self.looks.append(act)

    def now(self) -> float:
        """See `Clocks`."""
        return self.at

    def cpu(self) -> float:
        """See `Clocks`."""
        return self.used

    def of_this_thread(self) -> Callable[[], float]:
        """See `Clocks`. Each of them uses as much."""
        before = self.used_by_each
        return lambda: self.used_by_each - before

    def let_each_end(self, acts: int = 1) -> None:
        """So many acts of each thread that is at one."""
        for gate in self.may_end.values():
            for _ in range(acts):
                gate.release()

    def wait_for(self, acts: int) -> None:
        """Until so many more are under way."""
        for _ in range(acts):
            assert self.took.acquire(timeout=10)

    def look(self, share: float, after: float = 0.1) -> None:
        """Each thread that goes has used that share of a core since the last look, which was so long ago."""
        self.at += after
        self.used_by_each += share * after
        self.used += share * after * sum(thread.goes for thread in self.threads._begun)
        self.looks.pop()()

    def close(self) -> None:
        """All may end."""
        self.let_each_end(100)
        self.threads.close()


def _all_four_go() -> Bench:
    """Each has taken something since the last look."""
    bench = Bench(given=40)
    bench.look(0)
    bench.wait_for(4)
    bench.let_each_end()
    bench.wait_for(4)
    return bench


def _one_goes() -> Bench:
    """It has taken the ninth thing, when the three others were told to rest."""
    bench = _all_four_go()
    bench.look(0.2)
    bench.let_each_end()
    bench.wait_for(1)
    _until_idle(bench.threads, 3)
    return bench


def test_of_four_that_burn_cpu_three_rest_when_they_have_done_what_they_had() -> None:
    """They would wait for the interpreter's lock all the time, and get no more done."""
    bench = _one_goes()
    for _ in range(3):
        bench.may_end[bench.names[8]].release()
        bench.wait_for(1)
    assert len(set(bench.names[8:])) == 1
    assert bench.pauses == [GLANCE, LONG_GLANCE, LONG_GLANCE]
    for _ in range(3):
        bench.look(0.9)
        bench.may_end[bench.names[8]].release()
        bench.wait_for(1)
    bench.wait_for(1)
    (tried,) = set(bench.names[8:]) - {bench.names[8]}
    bench.may_end[tried].release()  # the one that is tried beside it goes on, too
    bench.wait_for(1)
    assert bench.names[-1] == tried
    bench.close()


def test_one_more_is_tried_where_all_that_waits_has_just_come() -> None:
    """What works without the lock may be as quick as that, and would have one core for ever."""
    bench = _one_goes()
    goes = bench.may_end[bench.names[8]]
    for _ in range(2):
        bench.look(0.9)
        goes.release()
        bench.wait_for(1)
    while len(bench.threads._given) > 1:
        goes.release()
        bench.wait_for(1)
    _come(bench.threads, *range(5), in_hand=6)
    goes.release()
    bench.wait_for(1)
    assert len(set(bench.names[8:])) == 1
    bench.look(0.9)
    bench.wait_for(1)
    assert len(set(bench.names[8:])) == 2
    bench.close()


def test_what_was_used_before_a_look_was_asked_for_does_not_count() -> None:
    """One may have burned CPU for an hour while nothing waited behind it."""
    bench = Bench(given=1, most=8)
    bench.wait_for(1)
    while bench.looks:  # where it was not taken at once
        bench.looks.pop()()
    bench.used = 0.09
    _come(bench.threads, *range(7), in_hand=8)
    bench.look(0)
    bench.wait_for(7)
    assert len(set(bench.names)) == 8
    bench.close()


def test_what_a_moment_shows_is_no_reason_to_rest() -> None:
    """The interpreter lets one have the lock for 5 ms: each of them may be about to block."""
    bench = _all_four_go()
    bench.look(0.2, after=0.004)
    bench.let_each_end()
    bench.wait_for(4)
    assert len(set(bench.names[8:])) == 4
    bench.close()


def test_four_that_wait_for_other_things_go_on() -> None:
    """A function that sleeps needs a thread of its own."""
    bench = _all_four_go()
    bench.look(0.01)
    bench.let_each_end()
    bench.wait_for(4)
    assert not bench.threads._idle
    bench.close()


def test_those_that_rest_go_on_where_the_loop_may_be_held() -> None:
    """Nothing waits for a look then: no look may come for long."""
    bench = _one_goes()
    bench.threads.begin_missing()
    bench.wait_for(3)
    bench.let_each_end()
    bench.wait_for(4)
    bench.look(0.2)
    bench.let_each_end()
    bench.wait_for(4)
    bench.threads.ensure_thread(20)
    bench.look(0.2)
    bench.let_each_end()
    bench.wait_for(4)
    bench.look(0.2)
    assert sum(thread.rests for thread in bench.threads._begun) == 3
    bench.close()


def test_one_that_waits_for_work_is_not_the_one_that_goes_on() -> None:
    """It took and ended something since the last look: then another one must not rest for it."""
    bench = _all_four_go()
    first, *others = bench.threads._begun
    first.goes = False  # as if it waited
    bench.look(0.3)
    assert [thread.rests for thread in others] == [False, True, True]
    first.goes = True
    bench.close()


def test_one_that_was_to_rest_until_it_came_to_do_so_goes_on() -> None:
    """The loop has seen nobody wait, and woken nobody; there may be no look soon."""
    bench = _all_four_go()
    bench.look(0.2)

    class Idle(list[WorkThread]):
        def append(self, thread: WorkThread) -> None:
            bench.threads.begin_missing()
            super().append(thread)

    bench.threads._idle = Idle()
    bench.let_each_end()
    bench.wait_for(4)
    assert len(set(bench.names[8:])) == 4
    bench.close()


def test_a_look_after_the_end_looks_at_no_thread_that_has_ended() -> None:
    """The clock of a thread is gone with it."""
    bench = _all_four_go()
    bench.close()
    for thread in bench.threads._begun:
        thread.cpu = _gone
    bench.look(0.2)
    _come(bench.threads, 0, in_hand=1)
    assert not bench.looks


def _gone() -> float:
    raise OSError("no such thread")


def test_a_thread_that_broke_costs_one_place_and_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it calls raises nothing, but for want of memory: its clock is gone with it."""
    broke = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: broke.set())
    bench = _all_four_go()
    first = bench.threads._begun[0]
    first.cpu = _gone
    monkeypatch.setattr(bench.threads, "_act", lambda *_: _gone())
    bench.may_end["tokimori_1"].release()
    assert broke.wait(10)
    bench.threads._act = bench._act
    _until(lambda: not first.goes)
    bench.look(0.2)
    assert bench.looks
    bench.close()


def test_what_begin_missing_could_begin_no_thread_for_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """No frame may follow, and the only thread may be at something for an hour."""
    begun = Begun(monkeypatch)
    threads = _threads(8, lambda _: None, begun.later)
    threads.give(0)
    threads._given.clear()  # as if the thread had it
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    threads.give(1)
    threads.begin_missing()
    assert len(begun.looks) == 1
    threads.close()
