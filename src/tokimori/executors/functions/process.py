"""One worker process as the engine sees it: its settings and start, what it is given, and its end in words."""

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tokimori.executors.functions.stacks import Look
from tokimori.executors.functions.wire import Begin, End, Leave, Ping, Renew, SendSignal, ToWorker, frame
from tokimori.executors.keeper import wire
from tokimori.executors.keeper.wire import OutputGrew, Start, to_bytes
from tokimori.executors.keeper_process import KeeperSettings
from tokimori.executors.reported import signal_name
from tokimori.ports.executor import AttemptTask, Signal, StopReason

OWN = -1
"""The cell of runs that have a worker process for themselves alone."""
OUTPUT_LIMIT = 2**20
"""Number of bytes of a worker process's own output, outside of its runs, in its file."""
_MOST_SAID = 4000
"""Bytes of that which are shown."""


class AppSettings(Struct, frozen=True, kw_only=True):
    """The app of a node, and the processes that run it.

    `app` is `MODULE:NAME` or `FILE.py:NAME`, `secret` a text that nobody can guess. Output goes below `runs_dir`;
    `environ` is the environment of a process, which works on `concurrency` runs at a time; all but one of its `places`
    may wait for other runs. `include` are folders where
    its modules are looked for first, `require` modules that are imported before it. After `max_runs_per_process` runs,
    or with more than `most_memory` bytes in memory, a process is replaced when nothing runs in it, and `max_age`
    seconds after its start as soon as another one is ready (None: never). `attached`:
    another program runs the functions itself, and comes to the socket. `stored` are patterns of what jobs may name
    without the app: `app` may be empty then. If a run does not end, the others of its process get `drain` seconds.
    """

    app: str
    secret: str
    state_dir: Path
    runs_dir: Path
    environ: Mapping[str, str]
    processes: int = 2
    concurrency: int = 16
    places: int = 0
    include: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    max_runs_per_process: int | None = None
    max_age: float | None = None
    most_memory: int | None = None
    attached: bool = False
    stored: tuple[str, ...] = ()
    drain: float = 30.0

    def keeper(self) -> KeeperSettings:
        """Return the settings of the keepers that start worker processes."""
        keepers = self.state_dir / "keepers"
        return KeeperSettings(state_dir=keepers, runs_dir=self.runs_dir, output_limit=OUTPUT_LIMIT, pidfd=True)

    def start(self, number: int, address: Path) -> Start:
        """Return the keeper's order to start a process, which comes to the socket at `address` and says its number."""
        terms = {
            "address": str(address),
            "number": number,
            "app": self.app,
            "concurrency": self.concurrency,
            "places": self.places,
            "include": self.include,
            "require": self.require,
            "stored": self.stored,
            "runs_dir": str(self.runs_dir.absolute()),
        }
        return Start(
            number=number,
            argv=[sys.executable, "-P", "-m", "tokimori.apps.worker_process", json.dumps(terms)],
            env=dict(self.environ),
            cwd=str(Path.cwd()),
            log=f"workers/{os.getpid()}-{number}.log",
            account=None,
            stdin=None,
            timeout=None,
            grace=0.0,
            lease_bound=False,
        )


LARGE = 2**16
"""Characters of payloads that are sent together: what lies on its line a process has, whether it takes it or not."""
SILENT = 2
"""Seconds without an answer after which a process is given no run."""


class Phase(StrEnum):
    """Phases of a worker process."""

    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"
    """It takes no more, and exits when nothing runs."""
    CUT_OFF = "cut off"
    """It has left the line, and is being killed."""
    GONE = "gone"


class Silence:
    """A process was asked for an answer `seconds` ago, at `since` (seconds of CLOCK_BOOTTIME), and has given none.

    `by` are the attempts one of which blocks it, once that is known. `stopped`: it does not run at all.
    """

    __slots__ = ("by", "look", "seconds", "since", "stopped")

    def __init__(self, since: float) -> None:
        self.since = since
        self.seconds = 0
        self.stopped = False
        self.by: tuple[Assignment, ...] | None = None
        self.look: Look | None = None


class Assignment:
    """An attempt that has not ended. `reason`: the first for which it was stopped. `began` is seconds since boot;
    `reported` are the size of its output and the times in that, as far as its process has reported them.

    `before` are the seconds of processors that its process had used then; `excess` says which limit it is above, and
    `used` are the microseconds of processors that it had used when that was seen.
    """

    __slots__ = (
        *("alarms", "before", "began", "excess", "key", "number", "process", "reason", "reported", "task", "timed_out"),
        "used",
    )

    def __init__(self, task: AttemptTask, number: int) -> None:
        self.task = task
        self.key = task.run_id, task.token
        self.number = number
        self.process: WorkerProcess | None = None
        self.began: float | None = None
        self.reason: StopReason | None = None
        self.timed_out = False
        self.before, self.excess = 0.0, ""
        self.reported = 0, b""
        self.used: int | None = None
        self.alarms: tuple[asyncio.TimerHandle, ...] = ()

    def cost(self, reported: int | None) -> int | None:
        """Return its microseconds of processors: what its process reported, but no less than what ended it."""
        return reported if self.used is None else max(reported or 0, self.used)

    def silence(self) -> None:
        """Forget what was to be done about it later."""
        for alarm in self.alarms:
            alarm.cancel()
        self.alarms = ()


class WorkerProcess:
    """A process that runs functions. `cell` is that of the jobs which it serves (`tokimori.model.suspicion`).

    `generation` grows with each reload of the code. `blamed` is an attempt because of which it is drained, `overdue`
    are all whose time and grace are over, and at `drained_until` (seconds of CLOCK_BOOTTIME) it is `killed`. `exited`:
    it is no more; what it said last may still have to be read. `exits` is the attempt that has said that it ends it.
    `worn`: it is replaced for its age; `stops`: its app has hooks for its end.
    `since` is when it was started (seconds of CLOCK_BOOTTIME), and `ended` how many attempts have ended in it.
    """

    def __init__(self, number: int, cell: int, generation: int, concurrency: int) -> None:
        self.number = number
        self.cell = cell
        self.generation = generation
        self.phase = Phase.STARTING
        self.pid: int | None = None
        self.attempts: dict[int, Assignment] = {}
        self.blamed: Assignment | None = None
        self.overdue: set[int] = set()
        self.drained_until = 0.0
        self.killed = False
        self.exits: Assignment | None = None
        self.since = 0.0
        self.ended = 0
        self.exited = self.worn = self.stops = False
        self.silence: Silence | None = None
        self.stacks = -1
        self._concurrency = concurrency
        self._bytes_said = 0
        self._bound = 0
        self._transport: asyncio.WriteTransport | None = None
        self._unsent: list[ToWorker] = []
        self._size = 0
        self._full = False
        self._lease = inf

    @property
    def load(self) -> int:
        """Return how many attempts it has."""
        return len(self.attempts)

    def said_since(self, notice: OutputGrew) -> str:
        """Return what it wrote itself since the last call, or the end of it."""
        new, self._bytes_said = notice.size - self._bytes_said, notice.size
        return said(to_bytes(notice.tail)[-new:])

    @property
    def is_ready(self) -> bool:
        """Return whether it has said hello, lives, and is not to leave."""
        return self.phase is Phase.READY and self.is_on_line and not self.exited

    @property
    def has_room(self) -> bool:
        """Return whether the process may receive one more attempt."""
        silence, line = self.silence, self._transport  # asked for each run: each property costs
        return (
            len(self.attempts) < self._concurrency
            and self.blamed is None
            and self.phase is Phase.READY
            and not (line is None or line.is_closing() or self.exited)
            and (silence is None or silence.seconds < SILENT)
            and not (self.cell == OWN and self.has_worked)
        )

    @property
    def answers(self) -> bool:
        """Return whether its loop goes on, as far as is known."""
        return self.silence is None or self.silence.seconds < SILENT

    @property
    def is_on_line(self) -> bool:
        """Return whether it can receive messages, and may still send some."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def has_worked(self) -> bool:
        """Return whether it was given anything yet."""
        return bool(self.ended or self.attempts)

    @property
    def memory(self) -> int:
        """Return the bytes that it has in memory; 0 if that is not known."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0

    @property
    def lease_bound(self) -> bool:
        """Return whether anything in it has to end with the lease of the node."""
        return self._bound > 0

    def connect(self, transport: asyncio.WriteTransport, pid: int, stacks: int = -1, *, stops: bool = False) -> None:
        """Note that it has said hello. `stacks` is the descriptor of its file of stacks."""
        self._transport, self.pid, self.stacks, self.phase = transport, pid, stacks, Phase.READY
        self.stops = stops

    def give(self, attempt: Assignment, begin: Begin, now: float, lease: float = inf) -> None:
        """Have it run an attempt, which may begin until the `lease` is over; sent by `flush`."""
        attempt.process, attempt.began = self, now
        self.attempts[attempt.number] = attempt
        self._bound += attempt.task.kill_on_lost_lease
        if lease != self._lease:
            self._lease = lease
            self._unsent.append(Renew(lease))
        self._unsent.append(replace(begin, alone=True) if self.cell == OWN else begin)
        if begin.payload is not None:
            self._size += len(begin.payload)

    def renew(self, lease: float) -> None:
        """Send the moment until which its runs may begin; with the next run, if it has none or takes nothing now."""
        if self.attempts and not self._full:
            self._lease = lease
            self.send([Renew(lease)])

    def take(self, number: int) -> Assignment | None:
        """Remove and return the attempt."""
        attempt = self.attempts.pop(number, None)
        if attempt is not None:
            self.ended += 1
            self._bound -= attempt.task.kill_on_lost_lease
        return attempt

    def end(self, attempt: Assignment, why: str, *, lost: bool) -> None:
        """Have it end an attempt, if it can."""
        self.send([End(number=attempt.number, why=why, lost=lost)])

    def send_signal(self, attempt: Assignment, signal: Signal) -> None:
        """Send it a signal for an attempt with the next `flush`."""
        self._unsent.append(SendSignal(number=attempt.number, name=signal.name, data=signal.data))

    def leave(self) -> None:
        """Ask it to take no more, and to exit when nothing runs in it."""
        if self.phase is Phase.READY:
            self.phase = Phase.LEAVING
            self.send([Leave()])

    def withdraw(self) -> list[Assignment]:
        """Take back the attempts of which it was sent nothing, as it does not take what is sent."""
        begins = {each.number for each in self._unsent if isinstance(each, Begin)}
        self._unsent = [
            each for each in self._unsent if isinstance(each, Ping | Renew | Leave) or each.number not in begins
        ]
        self.ended -= len(begins & self.attempts.keys())
        found = [attempt for number in begins if (attempt := self.take(number)) is not None]
        for attempt in found:
            attempt.silence()
            attempt.process, attempt.began, attempt.timed_out = None, None, False
        return found

    def room(self, has: bool) -> None:
        """Note whether it takes what is sent; if not, later messages wait here."""
        self._full = not has
        self.flush()

    def flush(self) -> None:
        """Send what waits as one frame; what is large one after the other, as long as it takes that."""
        while self._unsent and not self._full:
            most = 1 if self._size > LARGE else len(self._unsent)
            unsent, self._unsent = self._unsent[:most], self._unsent[most:]
            self.send(unsent)
        if not self._unsent:
            self._size = 0

    def send(self, messages: Iterable[ToWorker]) -> None:
        """Send without waiting."""
        if self._full:
            self._unsent += messages
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(messages))


def ending_of(ended: wire.ProcessEnded) -> tuple[str, str]:
    """Return how a process ended, and the end of its own output, outside of its runs."""
    written = said(wire.to_bytes(ended.tail) or wire.to_bytes(ended.head))
    if ended.cause in (wire.EndCause.NOT_STARTED, wire.EndCause.SHORT):
        return ended.error, written
    status = ended.status or 0
    by = {wire.EndCause.LEASE: ", its node's lease ran out", wire.EndCause.STOP: ", its node ended it"}
    how = f"exit code {status}" if status >= 0 else f"signal {-status}, {signal_name(-status)}"
    return how + by.get(wire.EndCause(ended.cause), ""), written


def said(data: bytes) -> str:
    """Return the end of this output."""
    return data[-_MOST_SAID:].decode(errors="replace").strip()
