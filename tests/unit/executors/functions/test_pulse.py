"""Worker processes are asked whether they go on, and who blocks them is told."""

import asyncio
import os
import subprocess
import threading
from typing import Any, cast

import pytest

from tests.unit.apps.orders import begin
from tests.unit.examples import a_task
from tests.unit.executors.functions.test_drains import busy
from tokimori.executors.functions import wire
from tokimori.executors.functions.process import SILENT, Assignment, WorkerProcess
from tokimori.executors.functions.pulse import LOGGED, Pulse, blamed
from tokimori.executors.functions.stacks import LOOP, Look, Seen, Stacks
from tokimori.model.ids import RunId
from tokimori.model.target import Function


class Taking:
    """A line, and what was sent on it."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self._frames: wire.Frames[wire.ToWorker] = wire.Frames(wire.ToWorker)

    def is_closing(self) -> bool:
        """See `asyncio.WriteTransport`."""
        return False

    def write(self, data: bytes) -> None:
        """See `asyncio.WriteTransport`."""
        self.said += self._frames.feed(data)


def test_a_process_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """After 2 s it has no room, after 5 s people are told, once; with an answer all is as before."""
    process, changed = busy(1, runs=1), list[bool]()
    pulse = Pulse(lambda: [process], lambda: changed.append(process.answers))
    pulse.ask(process)
    pulse.answered(process)
    assert (process.silence, changed) == (None, [])
    for second in range(LOGGED + 3):
        assert (process.answers, process.has_room) == ((second <= SILENT),) * 2
        pulse.ask(process)
    assert changed == [False, False]
    said = "worker process 1 (pid 101) has not answered for 5 s: run r1-0 of job blocks it"
    assert [text.partition(";")[0] for text in caplog.messages] == [said]
    assert (pulse.words(), pulse.silent()) == ((said,), [process])
    pulse.answered(process)
    assert (changed, process.has_room, pulse.words(), pulse.silent()) == ([False, False, True], True, (), [])


def test_what_a_process_does_not_take_comes_back() -> None:
    """But nothing that was sent before, and nothing that was said of others is lost."""
    line, process = Taking(), WorkerProcess(1, 0, 1, 9)
    process.connect(cast(asyncio.WriteTransport, line), 7)
    attempts = [Assignment(a_task(Function(name="f"), run_id=RunId(f"r{n}")), n) for n in range(3)]
    for number, attempt in enumerate(attempts):
        process.give(attempt, begin(number=number), 1.0)
        process.flush()
        process.room(False)
    process.end(attempts[0], "it was cancelled", lost=False)
    process.end(attempts[1], "it was cancelled", lost=False)
    assert process.withdraw() == attempts[1:]
    assert [(each.process, each.began) for each in attempts[1:]] == [(None, None)] * 2
    assert (list(process.attempts), process.ended) == ([0], 0)
    process.room(True)
    assert [(type(each), each.number) for each in line.said] == [(wire.Begin, 0), (wire.End, 0)]


def section(*frames: tuple[str, str]) -> str:
    """A thread as faulthandler writes it."""
    return "Thread 0x1 (most recent call first):\n" + "\n".join(f'  File "{f}", line 1 in {n}' for f, n in frames)


WAITING = section(
    (f"{os.__file__.rpartition('/')[0]}/selectors.py", "select"), ("/x/asyncio/base_events.py", "run_forever")
)
IN_B = section(("/home/jobs.py", "b"), ("/x/asyncio/base_events.py", "run_forever"))
IN_ANOTHER = section(("/home/jobs.py", "callback"), ("/x/asyncio/base_events.py", "run_forever"))
HANDLERS = {1: "a", 2: "jobs.b", 3: "jobs:c", 4: "d", 5: "b"}


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (Seen(stopped=True, runs={1: 7}), []),
        (Seen(), [1, 2, 3, 4, 5]),
        (Seen(stacks=WAITING, runs={1: 7, 3: 8, 2: LOOP}, used={7: 1, 8: 90}), [3]),
        (Seen(stacks=WAITING, runs={1: 7, 3: 8, 2: LOOP}, used={7: 1, 8: 2}), [1, 3]),
        (Seen(stacks=WAITING, runs={2: LOOP, 9: 7}), [2]),
        (Seen(stacks=f"{WAITING.replace('run_forever', 'run')}\n\n{IN_B}", runs={1: 7, 2: LOOP, 3: LOOP}), [2]),
        (Seen(stacks=IN_ANOTHER, runs={1: 7, 2: LOOP, 3: LOOP}), [2, 3]),
        (Seen(stacks=IN_ANOTHER, runs={1: 7}), [2, 3, 4, 5]),
        (Seen(stacks=IN_ANOTHER, runs=dict.fromkeys(HANDLERS, 7)), []),
    ],
)
def test_who_is_blamed(seen: Seen, found: list[int]) -> None:
    """The coroutine in which the loop stands, or else the thread that is at work; rarely what has not begun."""
    assert list(blamed(seen, HANDLERS)) == found


def test_the_stacks_of_a_process_are_seen_from_outside() -> None:
    """With the thread of each attempt, and without any help of its interpreter."""
    stacks = Stacks()
    stacks.begins(5, threading.get_native_id())
    stacks.begins(6)
    stacks.begins(7, threading.get_native_id())
    stacks.ended(7)
    seen = Look(os.getpid(), stacks.file).again()
    assert "in test_the_stacks_of_a_process_are_seen_from_outside\n" in seen.stacks
    assert (seen.stopped, dict(seen.runs)) == (False, {5: threading.get_native_id(), 6: LOOP})
    assert threading.get_native_id() in seen.used
    os.close(stacks.file)


def test_a_process_that_heeds_no_signal_is_sent_none() -> None:
    """It would end of it."""
    with subprocess.Popen(["sleep", "30"]) as child:
        try:
            assert Look(child.pid, 0).again().stacks == ""
            assert child.poll() is None
        finally:
            child.kill()
