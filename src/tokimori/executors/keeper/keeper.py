"""The keeper itself: it carries out the engine's orders, and watches every child to its end."""

import os
from collections import deque
from functools import partial
from math import inf

from .child import CHECK_EVERY, Child, Refusal, spawn
from .kernel import boottime, collect_group, send, use_of_groups
from .loop import Channel, Exits, Loop
from .notes import LOCK_MARKS, MARKS, Note
from .stragglers import Stragglers
from .surroundings import Surroundings
from .wire import (
    Bind,
    EndCause,
    Lease,
    OutputGrew,
    Pass,
    ProcessEnded,
    ProcessStarted,
    Ready,
    Shutdown,
    Start,
    Stop,
    to_text,
)

ENGINE_GONE_GRACE = 1.5
"""Seconds between TERM and KILL once the engine is gone: everything has ended before another node may take over."""
DRAIN = 0.2
"""Seconds for which the pipe of an exited child is still read while others hold it: a daemon may hold it for ever."""
REPORT_EVERY = 1.0
"""Seconds between two reports on one child's growing output."""
_SPAWNS = 8
"""Children spawned between two looks at everything else."""
_SPAWN_WITHIN = 5.0
"""Seconds for which new processes count as ours if the keeper is killed meanwhile; no pid is reused so soon."""
_READ = 1 << 16
_LOOK_EVERY = 0.02


class Keeper:
    """All children of one node. `family` is the descriptor that lists them and their orphaned descendants."""

    def __init__(
        self, loop: Loop, channel: Channel, exits: Exits, *, note: Note, around: Surroundings, family: int | None
    ) -> None:
        self._loop = loop
        self._channel = channel
        self._exits = exits
        self._note = note
        self._around = around
        self._has_family = family is not None
        self._stragglers = Stragglers(family, os.getpid())
        self._children: dict[int, Child] = {}
        self._waiting: deque[Start] = deque()
        self._leaders: set[int] = set()
        self._lease = Lease(inf, inf)
        self._lease_alarm = inf
        self._wake_at = inf
        self._leaving = False
        self._watches_room = False

    def run(self) -> None:
        """Serve until the engine is gone or orders the shutdown, and no child is left."""
        self._loop.watch(self._channel.fileno(), self._receive)
        self._channel.queue(Ready(os.getpid()))
        while self._send() or self._children or not self._leaving:
            self._loop.wait(0 if self._waiting else self._wake_at)
            self._spawn_some()
            self._look_after()
        self._note.remove()

    def _send(self) -> bool:
        """Send waiting notices; return if some are left."""
        self._channel.flush()
        if not self._channel.open:
            self._engine_gone()
        elif self._channel.backlog != self._watches_room:
            self._watches_room = self._channel.backlog
            self._loop.watch_room(self._channel.fileno(), wanted=self._watches_room)
        return self._channel.backlog

    def _receive(self) -> None:
        for order in self._channel.receive():
            match order:
                case Start():
                    self._waiting.append(order)
                case Stop():
                    self._stop(order)
                case Pass():
                    self._pass(order)
                case Bind():
                    self._bind(order)
                case Lease():
                    self._lease = order
                    self._lease_alarm = order.term_at
                    self._wake_by(order.term_at)
                    self._channel.queue(Ready(os.getpid()))
                case Shutdown():
                    self._leave(0.0)
        if not self._channel.open:
            self._engine_gone()

    def _engine_gone(self) -> None:
        if self._channel.fileno() >= 0:
            self._loop.remove(self._channel.fileno())
            self._channel.close()
            self._leave(ENGINE_GONE_GRACE)

    def _leave(self, grace: float) -> None:
        self._leaving = True
        while self._waiting:
            self._never_began(self._waiting.popleft(), EndCause.STOP)
        for child in list(self._children.values()):
            self._terminate(child, EndCause.STOP, boottime(), grace)

    def _stop(self, order: Stop) -> None:
        child = self._children.get(order.number)
        if child is not None:
            self._terminate(child, EndCause.STOP, boottime(), order.grace)
            return
        for start in [start for start in self._waiting if start.number == order.number]:
            self._waiting.remove(start)
            self._never_began(start, EndCause.STOP)

    def _pass(self, order: Pass) -> None:
        """Pass a signal on, but not after the child was collected: then its group's number may be a stranger's."""
        child = self._children.get(order.number)
        if child is not None and child.status is None:
            send(-child.pid, order.signal)

    def _bind(self, order: Bind) -> None:
        child = self._children.get(order.number)
        if child is not None:
            child.order = child.order._replace(lease_bound=order.lease_bound)
            return
        for index, start in enumerate(self._waiting):
            if start.number == order.number:
                self._waiting[index] = start._replace(lease_bound=order.lease_bound)

    # Beginning

    def _spawn_some(self) -> None:
        if self._waiting:
            self._note.lives(_SPAWN_WITHIN)
            for _ in range(min(_SPAWNS, len(self._waiting))):
                self._begin(self._waiting.popleft())
            self._note.lives()

    def _begin(self, order: Start) -> None:
        if boottime() >= self._lease.term_at:  # the engine was frozen on its way here: the run may be another node's
            self._never_began(order, EndCause.LEASE)
            return
        child = spawn(order, self._around)
        if isinstance(child, Refusal):
            self._never_began(order, child.cause, child.exit_code, child.error)
            return
        self._children[order.number] = child
        self._leaders.add(child.pid)
        if child.pipe is not None:
            self._loop.watch(child.pipe, partial(self._readable, child))
        child.pidfd = self._exits.watch(child.pid, partial(self._exited, child))
        self._wake_by(child.wake_at())
        self._channel.queue(ProcessStarted(order.number, child.pid, child.started))

    def _never_began(self, order: Start, cause: EndCause, exit_code: int | None = None, error: str = "") -> None:
        self._channel.queue(ProcessEnded(order.number, boottime(), exit_code, cause, error, 0, "", ""))

    # While it runs

    def _readable(self, child: Child) -> None:
        """Read one piece only, so that a child that writes without end does not delay the others."""
        if self._read(child):
            if child.report_at == inf and child.status is None:
                child.report_at = max(boottime(), child.reported_at + REPORT_EVERY)
                self._wake_by(child.report_at)
        elif child.pipe is None and child.status is not None:
            self._look_at_remains(child, boottime())

    def _read(self, child: Child) -> bool:
        """Read once; returns whether something came. Closes the pipe at its end."""
        if child.pipe is None:
            return False
        try:
            data = os.read(child.pipe, _READ)
        except BlockingIOError:
            return False
        if data:
            child.output.write(data)
        else:
            self._close_pipe(child)
        return bool(data)

    def _close_pipe(self, child: Child) -> None:
        if child.pipe is not None:
            self._loop.forget(child.pipe)
            child.close_pipe()

    def _report_growth(self, child: Child, now: float) -> None:
        child.report_at = inf
        if self._channel.backlog:  # the engine is frozen or slow: it gets the report later
            child.report_at = now + REPORT_EVERY
            return
        child.reported_at = now
        output = child.output
        tail, times = to_text(output.recent()), to_text(output.times.encoded())
        self._channel.queue(OutputGrew(child.order.number, output.size, tail, times))

    def _terminate(self, child: Child, cause: EndCause, now: float, grace: float) -> None:
        if child.status is None and child.cause is EndCause.EXIT and child.has_exited():
            self._exited(child)  # it was faster: its end is its own
        elif child.status is not None:
            child.kill_at = min(child.kill_at, now + grace)  # for the rest of its group
        else:
            child.terminate(cause, now, grace)
            self._kill_if_due(child, now)
            self._wake_by(child.wake_at())

    def _kill_if_due(self, child: Child, now: float) -> None:
        if now >= child.kill_at:
            child.kill(now)

    # Its end

    def _exited(self, child: Child) -> None:
        """Collect an exited leader. Until then it is a zombie, so that its group's number is not reused."""
        now = boottime()
        if child.cause is EndCause.EXIT or not self._has_family:
            child.kill(now)  # it ended by itself: the rest of its group is ended at once
        child.collect()
        self._leaders.discard(child.pid)
        self._exits.forget(child.pid, child.pidfd)
        child.ended = now
        self._look_at_remains(child, now)

    def _look_at_remains(self, child: Child, now: float) -> None:
        """End the processes that an exited leader left: its group, after the rest of the grace, then those outside it.

        Then take the last of its output.
        """
        if not child.swept:
            if self._leaves_something(child, now):
                child.look_at = now + _LOOK_EVERY
                self._wake_by(child.look_at)
                return
            child.swept = True
            child.look_at = now + DRAIN
        if child.pipe is None or now >= child.look_at:
            self._finish(child)
        else:
            self._wake_by(child.look_at)

    def _leaves_something(self, child: Child, now: float) -> bool:
        """End some more of the processes that the child left, which may be thousands; return if some are left."""
        orphans = self._stragglers.found(self._leaders)
        if not orphans:
            return False
        if self._group_lives(child, now):
            return True
        return now < child.ended + self._stragglers.end(orphans, _marks_of(child.order), self._leaders)

    def _group_lives(self, child: Child, now: float) -> bool:
        if not collect_group(child.pid, self._leaders, child.spent) or now >= child.giving_up_at:
            return False
        self._kill_if_due(child, now)
        return True

    def _finish(self, child: Child) -> None:
        self._close_pipe(child)
        del self._children[child.order.number]
        head, tail = child.output.finish()
        if child.refusal is not None:
            self._never_began(child.order, child.refusal.cause, child.refusal.exit_code, child.refusal.error)
            return
        size, status, excess = child.output.size, child.status, child.excess
        facts = (
            to_text(head),
            to_text(tail),
            to_text(child.output.times.encoded()),
            child.spent.cpu,
            child.spent.memory,
        )
        self._channel.queue(ProcessEnded(child.order.number, child.ended, status, child.cause, excess, size, *facts))

    # Time

    def _wake_by(self, moment: float) -> None:
        self._wake_at = min(self._wake_at, moment)

    def _look_after(self) -> None:
        """Carry out the actions that are due."""
        now = boottime()
        if now < self._wake_at:
            return
        if now >= self._lease_alarm:
            self._lease_ran_out(now)
        for child in [child for child in self._children.values() if child.wake_at() <= now]:
            self._due(child, now)
        wakes = (child.wake_at() for child in self._children.values())
        self._wake_at = min(self._lease_alarm, min(wakes, default=inf))

    def _lease_ran_out(self, now: float) -> None:
        self._lease_alarm = inf
        for child in [child for child in self._children.values() if child.order.lease_bound]:
            self._terminate(child, EndCause.LEASE, now, max(self._lease.kill_at - now, 0.0))

    def _due(self, child: Child, now: float) -> None:
        if child.status is not None:
            self._look_at_remains(child, now)
            return
        if now >= child.check_at:
            self._check_use(now)
        if now >= child.timeout_at:
            self._terminate(child, EndCause.TIMEOUT, now, child.order.grace)
        if child.status is None:
            self._kill_if_due(child, now)
        if now >= child.report_at:
            self._report_growth(child, now)

    def _check_use(self, now: float) -> None:
        """End commands that use more than they may. The look at all processes takes 5 % of the time at most."""
        limited = {child.pid: child for child in self._children.values() if child.check_at < inf}
        found = use_of_groups(limited.keys())
        then = boottime() + max(CHECK_EVERY, 20 * (boottime() - now))
        for pid, child in limited.items():
            child.check_at = then
            child.excess = found[pid].excess(child.order.max_cpu, child.order.max_memory)
            if child.excess:
                self._terminate(child, EndCause.COST, now, child.order.grace)
                child.excess = child.excess if child.cause is EndCause.COST else ""


def _marks_of(order: Start) -> set[bytes]:
    """Return the variables in the environment of all processes started by this order, and of no others."""
    marks = LOCK_MARKS if order.foreground else MARKS
    return {f"{name}={order.env.get(name, '')}".encode() for name in marks}
