"""Executor of functions: gives runs to the worker processes of the node's app, and makes outcomes of their reports."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import assert_never

from tokimori.clock import SECOND, Clock, Moment, format_moment
from tokimori.errors import Refused
from tokimori.executors.functions import attempts, wire
from tokimori.executors.functions.listener import Attached
from tokimori.executors.functions.process import OWN, AppSettings, Assignment, WorkerProcess
from tokimori.executors.functions.processes import Processes
from tokimori.executors.keeper.child import CHECK_EVERY
from tokimori.executors.keeper.kernel import boottime, use_of
from tokimori.executors.reported import runs_of, said_of, stopped
from tokimori.model.ids import RunId, Token
from tokimori.model.lease import LEASE
from tokimori.model.outcome import Outcome, Released
from tokimori.model.suspicion import Suspicion, after_death, after_end
from tokimori.model.target import handles
from tokimori.ports.executor import AttemptTask, Ended, Report, Signal, Started, StopReason

log = logging.getLogger(__name__)

MOST_SHOWN = 8
"""Number of draining processes that are reported to others."""
REPORT_STARTS = 0.05
"""Seconds after which the start of an attempt is reported, if it still runs: the end of a shorter one says it, too."""


class FunctionExecutor:
    """Runs each function in a worker process, never in this one: user code holds up no lease.

    A node without an app has none of them, and is given nothing to run. `changed` gets what new code declares.
    """

    def __init__(
        self, clock: Clock, app: AppSettings | None = None, changed: Callable[[wire.Hello], object] | None = None
    ) -> None:
        self._clock = clock
        self._report: Callable[[Report], None] | None = None
        self._attempts: dict[tuple[RunId, Token], Assignment] = {}
        self._waiting: deque[Assignment] = deque()
        self._suspicion = Suspicion()
        self._early = attempts.Early()
        self._last = 0
        self._has_own = False
        self._lease_over = inf
        self._begun: list[Assignment] = []
        self._able: Callable[[], object] = _nobody_waits
        self._changed = changed or _ignore
        self._runs_dir = Path() if app is None else app.runs_dir
        self._processes: Processes | Attached | None = None
        if app is not None and app.attached:
            self._processes = Attached(app, receive=self._receive_messages, ready=self._get_on, died=self._died)
        elif app is not None:
            self._processes = Processes(
                app, receive=self._receive_messages, ready=self._get_on, died=self._died, changed=self._take_over
            )

    async def load(self) -> wire.Hello | None:
        """Start the worker processes, and what the first of them says of the app. Raises `Refused`."""
        return None if self._processes is None else await self._processes.open()

    async def open(self, report: Callable[[Report], None]) -> None:
        """Report to `report` from now on."""
        self._report = report

    def call_when(self, *, gone: Callable[[], object], able: Callable[[], object]) -> None:
        """Call `gone` when the program that this node works for has gone, and `able` when that may have changed."""
        self._able = able
        if isinstance(self._processes, Attached):
            self._processes.gone = gone

    def able(self) -> bool:
        """Return whether a function can start here: not while no process is left and the app can't be loaded."""
        return self._processes is None or self._processes.able

    def unable(self) -> str:
        """Return why none can start, as the log has said it; empty if they can."""
        return "" if self._processes is None else self._processes.unable

    def draining(self) -> str:
        """Return which processes are drained, because of which run, and until when (`PID RUN UNTIL; …`)."""
        drained = () if self._processes is None else self._processes.drains.processes[:MOST_SHOWN]
        boot = self._boot(boottime()) if drained else Moment(0)
        found = [(each.pid, each.blamed.task.run_id, each.drained_until) for each in drained if each.blamed is not None]
        return "; ".join(f"{pid} {run} {format_moment(attempts.second_at(until, boot))}" for pid, run, until in found)

    def silent(self) -> str:
        """Return which processes do not answer, because of which runs, and since when (`PID RUN,RUN SINCE; …`).

        In place of runs stands `stopped` for a process that does not run, `-` where it is none.
        """
        found = [] if self._processes is None else self._processes.pulse.silent()[:MOST_SHOWN]
        boot, entries = self._boot(boottime()) if found else Moment(0), list[str]()
        for process in found:
            if (silence := process.silence) is not None:
                runs = ",".join(attempt.task.run_id for attempt in (silence.by or ())[:MOST_SHOWN])
                who = "stopped" if silence.stopped else runs or "-"
                entries.append(f"{process.pid} {who} {format_moment(attempts.second_at(silence.since, boot))}")
        return "; ".join(entries)

    def reload(self, app: AppSettings | None = None) -> None:
        """Let new processes with the code of now, and with these settings, take over; the old finish what they have."""
        if self._processes is not None:
            self._processes.reload(app)

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """Begin these attempts, or have them wait for a place in a process."""
        for task in tasks:
            self._last += 1
            attempt = Assignment(task, self._last)
            self._attempts[attempt.key] = attempt
            self._has_own = self._has_own or task.own_process
            self._waiting.append(attempt)
        self._fill()

    def _take_over(self, app: wire.Hello) -> None:
        """Send runs to this code from now on. A waiting attempt that it does not know is handed back."""
        handlers, now = attempts.handlers_of(app), boottime()
        for attempt in list(self._waiting):
            if not handles(handlers, attempts.handler_in(attempt.task)):
                self._waiting.remove(attempt)
                self._end(attempt, Released("the code of its node's app has changed"), now)
        self._changed(app)

    def _get_on(self) -> None:
        """Begin waiting attempts: there is room, or there will be none for a while."""
        for attempt in self._pool.pulse.withdrawn():
            if attempt.reason is None:
                self._waiting.appendleft(attempt)
            else:
                self._end(attempt, stopped(attempt.reason), boottime())
        self._fill()
        self._able()

    def _fill(self) -> None:
        """Give to processes what waits. What waits for a process of its own holds up nobody else.

        If none can be started nothing waits, and all does while there is no lease: a node that was frozen may be dead.
        """
        processes, now = self._pool, boottime()
        if now >= self._lease_over:
            return
        waiting, self._waiting = self._waiting, deque()
        full: dict[int, int] = {}
        while waiting:
            attempt = waiting.popleft()
            cell = OWN if attempt.task.own_process else self._suspicion.cell_of(attempt.task.job_id)
            process = None if cell in full else processes.place(cell)
            if process is not None:
                self._give(process, attempt, now)
                continue
            self._waiting.append(attempt)
            full[cell] = full.get(cell, 0) + 1
            if full[cell] == 1 and cell != OWN:
                processes.need(cell, self._suspicion.pause_of(attempt.task.job_id), 1)
        if self._has_own:
            processes.need(OWN, 0.0, full.get(OWN, 0))
        processes.flush()
        if self._waiting and not processes.able:
            while self._waiting:
                self._end(self._waiting.popleft(), Released("no process of its node's app lives and answers"), now)

    def _give(self, process: WorkerProcess, attempt: Assignment, now: float) -> None:
        task = attempt.task
        binds = task.kill_on_lost_lease and not process.lease_bound
        process.give(attempt, attempts.begin_of(task, attempt.number, self._clock), now, self._lease_over)
        if binds:
            self._pool.bind(process)
        if attempt.key in self._early.kept:
            for signal in self._early.pop(attempt.key):
                process.send_signal(attempt, signal)
        if task.timeout is not None:
            self._in(attempt, task.timeout, self._time_over)
        if process.cell == OWN and (task.max_cpu is not None or task.max_memory is not None):
            attempt.before = 0.0 if (use := use_of(process.pid or 0)) is None else use[1].cpu
            self._in(attempt, CHECK_EVERY, self._check_use)
        if not self._begun:
            asyncio.get_running_loop().call_later(REPORT_STARTS, self._report_starts)
        self._begun.append(attempt)

    def _report_starts(self) -> None:
        """Report the starts of attempts that were begun lately and still run."""
        begun, self._begun = self._begun, []
        boot = self._boot(boottime())
        for attempt in begun:
            task, process = attempt.task, attempt.process
            if attempt.key in self._attempts and process is not None and process.pid is not None:
                at = attempts.moment_at(attempt.began or boottime(), boot)
                self._send_report(Started(run_id=task.run_id, token=task.token, pid=process.pid, at=at))

    def _in(self, attempt: Assignment, seconds: float, act: Callable[[Assignment], None]) -> None:
        attempt.alarms += (asyncio.get_running_loop().call_later(seconds, act, attempt),)

    def signal(self, run_id: RunId, token: Token, signal: Signal) -> None:
        """Send a signal to an attempt; one that does not run yet receives it when it begins."""
        key = run_id, token
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.process is not None:
            attempt.process.send_signal(attempt, signal)
            attempt.process.flush()
            return
        self._early.add(key, signal)

    # Stopping

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """End an attempt: it gets an order, and after the grace its process is killed. The first reason decides."""
        attempt = self._attempts.get((run_id, token))
        if attempt is None:
            return
        attempt.reason = attempt.reason or reason
        if attempt.process is None:
            self._waiting.remove(attempt)
            self._end(attempt, stopped(attempt.reason), boottime())
            return
        attempt.process.end(attempt, attempts.WHY[reason], lost=reason is StopReason.DISOWN)
        self._in(attempt, attempt.task.timeout_grace if grace is None else grace, self._grace_over)

    def _time_over(self, attempt: Assignment) -> None:
        process = attempt.process
        if process is not None and attempt.reason is None:
            attempt.timed_out = True
            process.end(attempt, "its time is over", lost=False)
            self._in(attempt, attempt.task.timeout_grace, self._grace_over)

    def _check_use(self, attempt: Assignment) -> None:
        process, task = attempt.process, attempt.task
        if process is None or attempt.reason is not None or attempt.timed_out:
            return
        attempt.alarms = tuple(alarm for alarm in attempt.alarms if alarm.when() > self._clock.monotonic())
        use = use_of(process.pid or 0)
        attempt.excess = "" if use is None else use[1].excess(task.max_cpu, task.max_memory, attempt.before)
        if attempt.excess and use is not None:
            attempt.used = int((use[1].cpu - attempt.before) * 1_000_000)
            process.end(attempt, attempt.excess, lost=False)
        self._in(
            attempt, *((task.timeout_grace, self._grace_over) if attempt.excess else (CHECK_EVERY, self._check_use))
        )

    def _grace_over(self, attempt: Assignment) -> None:
        process = attempt.process
        if process is None or self._pool.drain(process, attempt):
            return
        process.take(attempt.number)
        self._end(attempt, attempts.cut_off(attempt) or stopped(StopReason.RELEASE), boottime())

    def renew(self, sent: float) -> None:
        """Move the lease's deadlines, and begin attempts that have waited for that."""
        was_over, self._lease_over = boottime() >= self._lease_over, sent + LEASE
        if self._processes is not None:
            self._processes.renew(sent)
            if was_over and self._waiting:
                self._fill()

    def forget(self, before: Moment) -> None:
        """Do nothing: output lies with that of commands, and is removed with it."""

    async def close(self) -> None:
        """Kill the remaining processes. Attempts whose ends they could not report are released."""
        if self._processes is not None:
            await self._processes.close()
        for attempt in list(self._attempts.values()):
            self._end(attempt, stopped(attempt.reason or StopReason.RELEASE), boottime())

    # From the processes

    def _receive_messages(self, process: WorkerProcess, messages: Sequence[wire.FromWorker]) -> None:
        before, now = process.ended, boottime()
        boot = self._boot(now)
        for message in messages:
            match message:
                case wire.FunctionEnded():
                    self._ended(process, message, now, boot)
                case wire.FunctionGrew(number=number) | wire.Noted(number=number):
                    if (attempt := process.attempts.get(number)) is not None:
                        self._send_report(attempts.report_of(attempt, message, boot))
                case wire.Pong():
                    self._pool.pulse.answered(process)
                case wire.Hello() | wire.Unloadable():
                    pass  # too late: it has begun
                case _:
                    assert_never(message)
        if process.ended != before:
            self._pool.look_at(process)
            if self._waiting:
                self._fill()

    def _ended(self, process: WorkerProcess, said: wire.FunctionEnded, now: float, boot: Moment) -> None:
        attempt = process.take(said.number)
        if attempt is None:
            return
        task = attempt.task
        if task.kill_on_lost_lease and not process.lease_bound:
            self._pool.bind(process)
        given = now if attempt.began is None else attempt.began
        began, at = said.began, said.at
        if not given <= began <= at <= now:  # what it says may be no time at all
            at = min(max(given, at), now)
            began = min(max(given, began), at)
        attempt.began = None if said.end in (wire.SHORT, wire.LATE) else began
        own = attempts.cut_off(attempt) if attempt.excess else None
        outcome = own or attempts.outcome_of(said, attempt.reason, task.timeout if attempt.timed_out else None)
        if said.exits:
            process.exits = attempt
        self._suspicion = after_end(self._suspicion, task.job_id, task.run_id)
        self._end(attempt, outcome, at, said, boot)

    def _died(self, processes: Sequence[WorkerProcess], how: str, unasked: bool) -> None:
        """Handle processes that ended together, with whatever they had: nobody can say which of their runs did it."""
        lost = [(process, attempt) for process in processes for attempt in process.attempts.values()]
        tasks = [attempt.task for _, attempt in lost]
        counts: Mapping[RunId, int] = {}
        culprit = next((process.exits for process in processes if process.exits is not None), None)
        if culprit is not None:
            who, beside = runs_of([culprit.task]), runs_of(tasks)
            log.warning("%s ended its worker process (%s); lost with it: %s", who, how, beside)
        elif unasked and lost:
            judged = after_death(self._suspicion, {task.run_id: task.job_id for task in tasks})
            self._suspicion, counts = judged.suspicion, judged.counts
            for line in said_of("worker process", "it", how, tasks, judged):
                log.warning("%s", line)
        for process in processes:
            process.attempts.clear()
        for process, attempt in lost:
            if process.killed and (blamed := process.blamed) is not None:
                run_id, timed_out = blamed.task.run_id, blamed.timed_out
                otherwise: Outcome = attempts.killed_with_process(process.number, run_id, timed_out=timed_out)
            elif unasked:
                otherwise = attempts.lost_with_process(
                    how, attempt.task, tasks, counts.get(attempt.task.run_id, 1), culprit
                )
            else:
                otherwise = Released(f"its worker process was ended ({how})")
            own = attempts.cut_off(attempt)
            if isinstance(own, Released) and process.killed and attempt.number not in process.overdue:
                own = None  # its node had asked it to end, and its own grace was not over
            self._end(attempt, own or otherwise, boottime())
        self._get_on()

    def _end(
        self,
        attempt: Assignment,
        outcome: Outcome,
        at: float,
        said: wire.FunctionEnded | None = None,
        boot: Moment | None = None,
    ) -> None:
        task, key = attempt.task, attempt.key
        if attempt.alarms:
            attempt.silence()
        self._attempts.pop(key, None)
        if key in self._early.kept:
            self._early.pop(key)
        boot = self._boot(boottime()) if boot is None else boot
        self._send_report(
            Ended(
                run_id=task.run_id,
                token=task.token,
                outcome=outcome,
                at=Moment(boot + int(at * SECOND)),
                started=None if attempt.began is None else Moment(boot + int(attempt.began * SECOND)),
                pid=None if attempt.process is None else attempt.process.pid,
                output=attempts.output_at_end(attempt, said, self._runs_dir, boot),
                cpu=attempt.cost(None if said is None else said.cpu),
                memory=None if said is None else said.memory,
            )
        )

    def _boot(self, now: float) -> Moment:
        """Return the moment of the boot, by the clock as it is; `now` is in seconds since the boot."""
        return Moment(self._clock.now() - int(now * SECOND))

    @property
    def _pool(self) -> Processes | Attached:
        if self._processes is None:
            raise Refused("this node has no app: `tokimori serve --app MODULE:NAME` gives it one")
        return self._processes

    def _send_report(self, report: Report) -> None:
        if self._report is not None:
            self._report(report)


def _nobody_waits() -> None:
    """Do nothing: nobody waits before `call_when`."""


def _ignore(_: wire.Hello) -> None:
    """Ignore what the app declares."""
