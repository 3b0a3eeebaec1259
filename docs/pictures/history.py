"""A month of the company, lived by two real nodes on a store in memory, whose clock goes as fast as they work."""

import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from docs.pictures.company import DAWN, FIRST, FREQUENT, NOW, Part, Play, Turn, parts, play, said
from docs.pictures.past import memory_of, skip_past, write_past, written
from docs.pictures.things import add_things, change_early, interfere
from tokimori.clock import SECOND, Moment
from tokimori.model.attempt_notes import Notes
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Cancelled
from tokimori.node.membership import Identity
from tokimori.node.node import Node
from tokimori.ports.executor import AttemptTask, Ended, Grew, Noted, Report, Started, StopReason
from tokimori.service.access import owner
from tokimori.service.doors.authorization import authorized
from tokimori.service.service import Service, service_on
from tokimori.stores.open import open_store
from tokimori.testing.manual import VirtualClock

STEP: Final = 4
"""Seconds between two looks of a node with runs in hand, whose lease is 5 seconds."""
MOST_CYCLES: Final = 200


class Acted(NamedTuple):
    """An attempt under way, in the order of ends."""

    ends: Moment
    number: int
    began: Moment
    task: AttemptTask
    play: Play


class Actors:
    """An executor whose attempts go as the company says."""

    def __init__(self, clock: VirtualClock, usual: Callable[[str], float]) -> None:
        self._clock, self._usual = clock, usual
        self._numbers = count(4_000, 7)
        self._acted: list[Acted] = []
        self._report: Callable[[Report], None] = lambda _: None

    @property
    def next_end(self) -> Moment | None:
        """Return when the next attempt ends."""
        return self._acted[0].ends if self._acted else None

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        now = self._clock.now()
        for task in tasks:
            how = play(Turn(task.job_id, task.nominal, task.due, task.attempt), self._usual(task.job_id))
            began = Moment(now + 40_000)
            acted = Acted(Moment(began + round(how.seconds * SECOND)), next(self._numbers), began, task, how)
            heapq.heappush(self._acted, acted)
            self._report(Started(run_id=task.run_id, token=task.token, pid=acted.number, at=began))

    def _end(self, acted: Acted) -> None:
        task, how = acted.task, acted.play
        output = written(task.run_id, task.attempt, acted.began, how, how.seconds)
        ended = Ended(
            run_id=task.run_id,
            token=task.token,
            outcome=how.outcome,
            at=acted.ends,
            started=acted.began,
            pid=acted.number,
            output=output,
            cpu=round(how.seconds * SECOND * 0.4),
            memory=memory_of(task.job_id, task.due),
        )
        self._report(ended)

    def go_on(self) -> None:
        """End what has ended, and tell how far the others are."""
        now = self._clock.now()
        while self._acted and self._acted[0].ends <= now:
            self._end(heapq.heappop(self._acted))

    def tell(self) -> None:
        """Tell how far the attempts are, and what they have written."""
        for acted in self._acted:
            task, elapsed = acted.task, (self._clock.now() - acted.began) / SECOND
            self._report(
                Grew(
                    run_id=task.run_id,
                    token=task.token,
                    output=written(task.run_id, task.attempt, acted.began, acted.play, elapsed, ended=False),
                )
            )
            if (noted := said(task.job_id, elapsed, acted.play.seconds)) is not None:
                notes = Notes(attempt=task.attempt, progress=noted[0], text=noted[1], checkpoint=None)
                self._report(Noted(run_id=task.run_id, token=task.token, notes=notes))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`."""
        del grace
        for acted in self._acted:
            if (acted.task.run_id, acted.task.token) == (run_id, token):
                self._acted.remove(acted)
                heapq.heapify(self._acted)
                cancelled = acted.play._replace(outcome=Cancelled(reason.value))
                self._end(acted._replace(ends=self._clock.now(), play=cancelled))
                return

    def renew(self, sent: float) -> None:
        """Do nothing: nothing outlives a lease."""

    def forget(self, before: Moment) -> None:
        """Do nothing: no files are left."""

    async def close(self) -> None:
        """Do nothing: nothing is left."""


class Company:
    """The company at work: its store, clock and nodes, and the service as somebody there uses it."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock(FIRST)
        self.random = random.Random(7).randbytes  # noqa: S311  pictures want the same ids each time
        self.file = folder / "company.db"
        self.store = open_store(f"sqlite://{self.file}", self.clock)
        self.parts = {part.job_id: part for part in parts()}
        self.service = service_on(self.store, self.clock, self.random, time_zone="Europe/Berlin")
        self._actors, self.nodes = list[Actors](), list[Node]()
        for host, pid, zone in (("web-1", 811, "a"), ("web-2", 797, "b")):
            actors = Actors(self.clock, self._usual)
            identity = Identity(
                host=host, boot_id="boot", pid=pid, version="0.1.0", concurrency=16, labels={"zone": zone}
            )
            self._actors.append(actors)
            self.nodes.append(Node(self.store, actors, self.clock, self.random, identity, load=lambda: 0.4))

    def _usual(self, job_id: str) -> float:
        part = self.parts.get(job_id)
        return 0.8 if part is None else part.seconds

    def acting(self, author: str) -> Service:
        """Return the service for somebody, whose orders are recorded."""
        return authorized(self.service, owner(author))

    async def live(self, until: Moment = NOW) -> None:
        """Live until a moment: what was before the last morning is written down as it was."""
        await self.store.open()
        await self.store.migrate()
        await add_things(self.acting("ana"))
        await self._add(part for part in self.parts.values() if not part.is_frequent)
        await change_early(self.acting)
        self._jump(FREQUENT)
        await self._add(part for part in self.parts.values() if part.is_frequent)
        await skip_past(self.store, self.parts)
        for moment, deed in interfere():
            self._jump(moment)
            await deed(self.acting)
        self._jump(DAWN)
        await skip_past(self.store, self.parts)
        for actors, node in zip(self._actors, self.nodes, strict=True):
            await actors.open(node.receive)
            await node.start()
        await write_past(self.store, self.parts, [node.id for node in self.nodes], self.random)
        await self._pass_until(until)
        for actors in self._actors:
            actors.tell()
        await self._rest()

    def _jump(self, to: Moment) -> None:
        self.clock.advance((to - self.clock.now()) / SECOND)

    async def _add(self, wanted: Iterable[Part]) -> None:
        for part in wanted:
            await self.acting("ana").jobs.add(part.job_id, **part.fields)

    async def _pass_until(self, end: Moment) -> None:
        await self._rest()
        while (now := self.clock.now()) < end:
            due = (await self.store.survey(now)).next_due
            ends = [at for actors in self._actors if (at := actors.next_end) is not None]
            longest = Moment(now + (STEP if ends else 600) * SECOND)
            upcoming = min(each for each in (end, due, longest, *ends) if each is not None and each > now)
            self.clock.advance((upcoming - now) / SECOND)
            for actors in self._actors:
                actors.go_on()
            await self._rest()

    async def _rest(self) -> None:
        for _ in range(MOST_CYCLES):
            if min([await node.cycle() for node in self.nodes]) > 0:
                return
        raise RuntimeError(f"the nodes find no rest at {self.clock.now()}")


async def lived(folder: Path, tell: Callable[[str], None]) -> Company:
    """Return the company after its month. A month that was lived is kept in the folder."""
    company = Company(folder)
    if company.file.exists():
        company.clock.moment = NOW
        await company.store.open()
        return company
    tell("The company lives its month: this takes some minutes.")
    try:
        await company.live()
    except BaseException:
        company.file.unlink(missing_ok=True)
        raise
    return company
