"""What functions are told by way of the node."""

import asyncio
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from tests.unit.examples import a_task
from tokimori.executors.functions import wire
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.functions.process import WorkerProcess
from tokimori.executors.functions.processes import Processes
from tokimori.executors.functions.pulse import Pulse
from tokimori.executors.functions.wire import Frames, SendSignal, ToWorker
from tokimori.executors.keeper.kernel import boottime
from tokimori.model.ids import JobId, RunId
from tokimori.model.lease import LEASE
from tokimori.model.order import MOST_SIGNALS
from tokimori.model.outcome import Released
from tokimori.model.target import Function
from tokimori.ports.executor import Ended, Noted, Report, Signal, Started, StopReason
from tokimori.testing.manual import VirtualClock

TASK = a_task(Function(name="f"), run_id=RunId("r1"), job_id=JobId("a"))


class OneProcess:
    """A pool of one process, which has a place once it is ready."""

    able = True

    def __init__(self, places: int = 1) -> None:
        self.sent: list[bytes] = []
        self.asked = 0
        self.process = WorkerProcess(1, 0, 1, places)
        self.pulse = Pulse(lambda: [self.process], lambda: None)

    def get_ready(self) -> None:
        """It has said hello."""
        self.process.connect(cast(asyncio.WriteTransport, self), 7)

    def place(self, _cell: int) -> WorkerProcess | None:
        """See `Processes`."""
        self.asked += 1
        return self.process if self.process.has_room else None

    def need(self, *_: object) -> None:
        """See `Processes`."""

    def renew(self, sent: float) -> None:
        """See `Processes`."""
        self.process.renew(sent + LEASE)

    def flush(self) -> None:
        """See `Processes`."""
        self.process.flush()

    def look_at(self, _process: WorkerProcess) -> None:
        """See `Processes`."""

    def is_closing(self) -> bool:
        """See `asyncio.WriteTransport`."""
        return False

    def write(self, data: bytes) -> None:
        """See `asyncio.WriteTransport`."""
        self.sent.append(data)


@pytest.mark.parametrize("is_known", [True, False])
async def test_who_waits_for_a_process_is_told_the_newest_signals(is_known: bool) -> None:
    """In their order, and no more than a function hears that listens late: however many are sent, a node keeps few."""
    executor, pool = FunctionExecutor(VirtualClock()), OneProcess()
    executor._processes = cast(Processes, pool)
    if is_known:
        executor.start([TASK])
    for n in range(MOST_SIGNALS + 5):
        executor.signal(TASK.run_id, TASK.token, Signal("n", str(n)))
    pool.get_ready()
    executor.start([] if is_known else [TASK])
    frames: Frames[Any] = Frames(ToWorker)
    told = [said.data for sent in pool.sent for said in frames.feed(sent) if isinstance(said, SendSignal)]
    assert told == [str(n) for n in range(5, MOST_SIGNALS + 5)]


async def test_a_deadline_counts_from_when_the_attempt_is_given_to_its_process() -> None:
    """What it waits for, and what others that came with it import first, takes nothing from its time."""
    clock, pool = VirtualClock(), OneProcess()
    executor = FunctionExecutor(clock)
    executor._processes = cast(Processes, pool)
    executor.start([msgspec.structs.replace(TASK, timeout=1.5)])
    clock.advance(10)
    pool.get_ready()
    executor.start([])
    frames: Frames[Any] = Frames(ToWorker)
    (begin,) = (said for sent in pool.sent for said in frames.feed(sent))
    assert begin.deadline == clock.now() + 1_500_000


@pytest.mark.parametrize("is_ours", [True, False])
async def test_what_waited_while_its_node_was_frozen_waits_for_the_lease(is_ours: bool) -> None:
    """A process that has come meanwhile is given nothing: the run may be another node's, and never begins here then."""
    executor, pool, told = FunctionExecutor(VirtualClock()), OneProcess(), list[Report]()
    executor._processes = cast(Processes, pool)
    await executor.open(told.append)
    executor.renew(boottime())
    executor.start([TASK])
    executor.renew(boottime() - LEASE)
    pool.get_ready()
    executor._get_on()
    assert pool.process.load == 0
    if not is_ours:
        executor.stop(TASK.run_id, TASK.token, StopReason.DISOWN)
    executor.renew(boottime())
    assert pool.process.load == is_ours
    assert len(told) == (not is_ours)


async def test_a_process_is_told_until_when_what_it_is_given_may_begin() -> None:
    """Ahead of the runs that it counts for, once for all of them, and with each beat as long as it has any."""
    executor, pool, told = FunctionExecutor(VirtualClock()), OneProcess(9), list[Report]()
    executor._processes = cast(Processes, pool)
    await executor.open(told.append)
    pool.get_ready()
    sent = boottime()
    executor.renew(sent)
    executor.start([TASK, msgspec.structs.replace(TASK, run_id=RunId("r2"))])
    executor.start([msgspec.structs.replace(TASK, run_id=RunId("r3"))])
    executor.renew(sent + 1)
    frames: Frames[Any] = Frames(ToWorker)
    said = [each for data in pool.sent for each in frames.feed(data)]
    assert [type(each) for each in said] == [wire.Renew, wire.Begin, wire.Begin, wire.Begin, wire.Renew]
    assert [each.until for each in said if isinstance(each, wire.Renew)] == [sent + LEASE, sent + 1 + LEASE]


async def test_what_came_too_late_to_its_process_has_not_begun() -> None:
    """It goes back unpenalised: even a run that is never begun twice."""
    executor, pool, told = FunctionExecutor(VirtualClock()), OneProcess(), list[Report]()
    executor._processes = cast(Processes, pool)
    await executor.open(told.append)
    pool.get_ready()
    executor.start([TASK])
    now = boottime()
    executor._receive_messages(
        pool.process, [wire.FunctionEnded(number=1, began=now, at=now, end=wire.LATE, text="late")]
    )
    (ended,) = told
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.started) == (Released("late"), None)


async def test_what_can_not_be_started_goes_back() -> None:
    """Neither what waits when no process can be started any more, nor what was claimed at that moment, is kept."""
    executor, pool, told = FunctionExecutor(VirtualClock()), OneProcess(), list[Report]()
    executor._processes = cast(Processes, pool)
    await executor.open(told.append)
    executor.start([TASK])
    assert (told, executor.able()) == ([], True)
    pool.able = False
    executor._get_on()
    executor.start([TASK])
    assert [isinstance(each, Ended) and type(each.outcome) for each in told] == [Released, Released]
    assert not executor.able()


async def test_what_new_code_does_not_know_goes_back() -> None:
    """Of what waits for a place; all else is given to that code."""
    declared, told = list[wire.Hello](), list[Report]()
    executor, pool = FunctionExecutor(VirtualClock(), changed=declared.append), OneProcess(9)
    executor._processes = cast(Processes, pool)
    await executor.open(told.append)
    for name in ("f", "gone", "mails.old"):
        executor.start([msgspec.structs.replace(TASK, run_id=RunId(name), target=Function(name=name))])
    hello = wire.Hello(number=1, pid=7, app="a", handlers=["f"], patterns=["mails.*"], jobs=[])
    executor._take_over(hello)
    assert [(each.run_id, type(each.outcome)) for each in told if isinstance(each, Ended)] == [("gone", Released)]
    assert declared == [hello]
    pool.get_ready()
    executor._get_on()
    assert pool.process.load == 2


async def test_who_waits_is_not_looked_at_while_all_is_full() -> None:
    """An end gives its place to the next one, and costs nothing for all others that wait."""
    executor, pool = FunctionExecutor(VirtualClock()), OneProcess()
    executor._processes = cast(Processes, pool)
    pool.get_ready()
    executor.start([msgspec.structs.replace(TASK, run_id=RunId(f"r{n}")) for n in range(100)])
    assert (pool.process.load, pool.asked) == (1, 2)


async def test_a_start_is_told_only_of_who_still_runs_some_time_later() -> None:
    """The end of a short attempt says when it began and where; one that runs on is told of once, with its process."""
    executor, pool, told = FunctionExecutor(VirtualClock()), OneProcess(2), list[Report]()
    executor._processes = cast(Processes, pool)
    pool.get_ready()
    await executor.open(told.append)
    short = msgspec.structs.replace(TASK, run_id=RunId("r2"))
    executor.start([TASK, short])
    executor._receive_messages(pool.process, [wire.FunctionEnded(number=2, began=1.0, at=1.0, end=wire.SUCCEEDED)])
    assert [(type(each), each.run_id) for each in told] == [(Ended, "r2")]
    executor._report_starts()
    executor._report_starts()
    assert [(each.run_id, each.pid) for each in told if isinstance(each, Started)] == [("r1", 7)]


async def test_what_is_said_together_is_heard_in_its_order() -> None:
    """What an attempt notes comes before its end; places that ends make free are filled behind all of them."""
    executor, pool, told = FunctionExecutor(VirtualClock()), OneProcess(2), list[Report]()
    executor._processes = cast(Processes, pool)
    pool.get_ready()
    await executor.open(told.append)
    executor.start([msgspec.structs.replace(TASK, run_id=RunId(f"r{n}")) for n in range(1, 5)])
    asked, ended = pool.asked, partial(wire.FunctionEnded, began=1.0, at=1.0, end=wire.SUCCEEDED)
    said: list[wire.FromWorker] = [
        wire.Noted(number=2, progress=1.0),
        ended(number=2),
        wire.Noted(number=2),
        ended(number=9),
        ended(number=1),
    ]
    executor._receive_messages(pool.process, said)
    assert [(type(each), each.run_id) for each in told] == [(Noted, "r2"), (Ended, "r2"), (Ended, "r1")]
    assert (sorted(pool.process.attempts), pool.asked) == ([3, 4], asked + 2)


async def test_who_has_begun_can_not_say_anew_how() -> None:
    """A function that says so in the name of its process gets nothing by it; ends that were said beside it count."""
    executor, pool, told = FunctionExecutor(VirtualClock()), OneProcess(), list[Report]()
    executor._processes = cast(Processes, pool)
    pool.get_ready()
    await executor.open(told.append)
    executor.start([TASK])
    hello = wire.Hello(number=1, pid=7, app="a", handlers=[], patterns=[], jobs=[])
    said: list[wire.FromWorker] = [hello, wire.Unloadable(number=1, message="no")]
    executor._receive_messages(pool.process, said)
    assert (told, pool.process.load) == ([], 1)
    executor._receive_messages(
        pool.process, [*said, wire.FunctionEnded(number=1, began=1.0, at=1.0, end=wire.SUCCEEDED), *said]
    )
    assert ([type(each) for each in told], pool.process.load) == ([Ended], 0)
