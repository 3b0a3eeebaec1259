"""Queues: the list of them, and pausing one of them or everything."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import format_moment
from tokimori.errors import NotFound, Refused, StoreUnavailable
from tokimori.model.access_token import Role
from tokimori.model.claim_rate import NO_RATE, parse_claim_rate
from tokimori.model.lanes import EVERYTHING, Pause, paused_queue
from tokimori.model.run import Run
from tokimori.model.semaphores import MOST_UNITS, rate_of_queue
from tokimori.model.sizes import check_reason
from tokimori.model.transitions import RunState
from tokimori.model.words import check_word
from tokimori.ports.planning import Pausing
from tokimori.ports.semaphores import Semaphore, SemaphoreTable
from tokimori.ports.store import Jobs, RunFilter, Runs
from tokimori.service.access import OPEN, QUEUE, Sight
from tokimori.service.operation import OUTCOME, STATE, M, Part, operation
from tokimori.service.store_calls import Now, cancel_all, retried
from tokimori.service.validation import MOST_LISTED, checked, flag_of
from tokimori.service.views.outside import list_of, maybe
from tokimori.service.views.resources import Pause as PauseView
from tokimori.service.views.resources import Queue as QueueView

_BEHIND = "!"
"""Character below all those of words: a word followed by it sorts before every longer word."""


class Queue(Struct, frozen=True, kw_only=True):
    """A queue, the number of its jobs, and the pauses that apply to it: its own, and that of everything.

    `rate` is how many of its runs are claimed in any period; `taken` of them count now.
    """

    name: str
    jobs: int
    pauses: tuple[Pause, ...] = ()
    rate: str | None = None
    taken: int | None = None


class QueueStore(Pausing, Jobs, Runs, SemaphoreTable, Protocol):
    """The part of the store that queues use."""


class Queues(Part[M]):
    """Queues and their pauses. `cancel` cancels a run. Every method may raise `StoreError`."""

    noun, word = "queues", "queue"

    def __init__(
        self, store: QueueStore, now: Now, author: str | None, cancel: Callable[[str, str], Awaitable[object]]
    ) -> None:
        self._store = store
        self._now = now
        self._author = author
        self._cancel = cancel

    @operation(Role.READ, OPEN, gives=list_of(QueueView.made))
    async def list(self, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[Queue]:
        """Return the queues of jobs, and paused ones, by name: at most `limit`, behind the name `after`."""
        if after is not None:
            check_word("after", after)
        most, first = checked("limit", limit, MOST_LISTED), "" if after is None else f"{after}{_BEHIND}"
        jobs = dict(await retried(lambda: self._store.list_queues(first, most), StoreUnavailable))
        pauses = await self.pauses()
        paused = {pause.queue for pause in pauses if pause.queue != EVERYTHING and pause.queue >= first}
        names = sorted({*jobs, *paused})[:most]
        by_queue = {pause.queue: pause for pause in pauses}
        own = {name: tuple(by_queue[queue] for queue in (EVERYTHING, name) if queue in by_queue) for name in names}
        first_rate = rate_of_queue("")
        rates = {each.name: each for each in await self._store.list_semaphores(after=first_rate, limit=MOST_LISTED)}
        return [_paced(Queue(name=name, jobs=jobs.get(name, 0), pauses=own[name]), rates) for name in names]

    @list.within
    async def _list_within(self, sight: Sight, after: str | None = None, limit: int = MOST_LISTED) -> Sequence[Queue]:
        """Return the queues in scope. They are few, so each is read alone."""
        most = checked("limit", limit, MOST_LISTED)
        if after is not None:
            check_word("after", after)
        owned = [name for name in sorted(sight.scope.queues) if sight.scope.owns_queue(name) and name > (after or "")]
        found = [await self.get(name) for name in owned]
        return [each for each in found if each.jobs or any(pause.queue == each.name for pause in each.pauses)][:most]

    @operation(Role.READ, QUEUE, gives=QueueView.made)
    async def get(self, queue: str) -> Queue:
        """Return the queue of that name; there need not be a job in it. Raises `InvalidInput`."""
        check_word("queue", queue)
        found = dict(await self._store.list_queues(queue, 1))
        whole = Queue(name=queue, jobs=found.get(queue, 0), pauses=binding(queue, await self.pauses()))
        with suppress(NotFound):
            return _paced(whole, {rate_of_queue(queue): await self._store.get_semaphore(rate_of_queue(queue))})
        return whole

    @operation(Role.OPERATE, QUEUE, gives=QueueView.made, audit=OUTCOME, event="changed")
    async def set(self, queue: str, rate: str) -> Queue:
        """Set the rate at which runs of the queue are claimed, such as `100/1m`. A ` smooth` after it spaces the claims
        evenly; `none` removes the rate. Recent claims count for the new rate. Raises `InvalidInput`.
        """
        name = rate_of_queue(_name(queue))
        pace = None if rate == NO_RATE else parse_claim_rate(rate, field="rate")
        now = await retried(self._now, StoreUnavailable)
        await retried(lambda: self._store.put_semaphore(name, MOST_UNITS, now, pace), StoreUnavailable)
        return await self.get(queue)

    @operation(Role.READ, OPEN, gives=list_of(PauseView.made))
    async def pauses(self) -> Sequence[Pause]:
        """Return all pauses, by queue; the pause of everything (`*`) comes first."""
        return await self._store.list_pauses()

    @pauses.within
    async def _pauses_within(self, sight: Sight) -> Sequence[Pause]:
        """Return pauses in scope, and that of everything, which concerns everybody."""
        found = await self.pauses()
        return [each for each in found if each.queue == EVERYTHING or sight.scope.owns_queue(each.queue)]

    async def _state(self, queue: str | None) -> object:
        """Return the pause of the queue."""
        return [pause for pause in await self.pauses() if pause.queue == (queue or EVERYTHING)] or None

    @operation(Role.OPERATE, QUEUE, audit=STATE, event="paused", gives=PauseView.made)
    async def pause(self, queue: str | None = None, reason: str | None = None, *, now: bool = False) -> Pause:
        """Pause a queue, or everything (None): from now on no run of it is claimed. A pause that exists stays as it is.

        Runs are still made, and wait. Running runs go on; with `now` they are cancelled, on every node. Raises
        `InvalidInput`, and `Refused` if 1,000 queues are paused: each claim reads all their names.
        """
        check_reason("reason", "" if reason is None else reason)
        flag_of("now", now)
        wanted = Pause(queue=_name(queue), since=await self._now(), reason=reason, by=self._author)
        await self._check_few(wanted)
        pause = await retried(lambda: self._store.add_pause(wanted), StoreUnavailable)
        if now:
            await self._cancel_running(pause)
        return pause

    async def _check_few(self, wanted: Pause) -> None:
        paused = {pause.queue for pause in await retried(self.pauses, StoreUnavailable)}
        if wanted.queue != EVERYTHING and wanted.queue not in paused and len(paused) >= MOST_LISTED:
            raise Refused(
                f"queue: {wanted.queue!r} can't be paused, because {MOST_LISTED:,} are: `tokimori queue pause --all` "
                "pauses everything",
                field="queue",
                value=wanted.queue,
                allowed="one of those that are paused, or everything",
            )

    async def _cancel_running(self, pause: Pause) -> None:
        what = "everything" if pause.queue == EVERYTHING else f"its queue {pause.queue}"
        reason = f"{what} was paused" if pause.reason is None else f"{what} was paused: {pause.reason}"
        running = RunFilter(states=frozenset({RunState.RUNNING}), limit=MOST_LISTED, longest=0)
        while runs := await self._store.list_runs(running):
            concerned = [run for run in runs if pause.queue in (EVERYTHING, await self._queue(run))]
            await cancel_all(self._cancel, concerned, reason)
            running = replace(running, before=runs[-1].id)

    async def _queue(self, run: Run) -> str | None:
        """Return the queue of a run. The run of a paused job has no lane any more, so the job is asked."""
        if run.lane is not None:
            return paused_queue(run.lane)
        try:
            return (await self._store.get_job(run.job_id)).definition.queue
        except NotFound:
            return None

    @operation(Role.OPERATE, QUEUE, audit=STATE, event="resumed", gives=maybe(PauseView.made))
    async def resume(self, queue: str | None = None) -> Pause | None:
        """Resume a queue, or everything (None): waiting runs are claimed in order. Return the pause that ended.

        A queue with a pause of its own stays paused when everything is resumed. Raises `InvalidInput`.
        """
        name = _name(queue)
        known = [pause for pause in await self.pauses() if pause.queue == name]
        await retried(lambda: self._store.delete_pause(name), StoreUnavailable)
        return known[0] if known else None


def _name(queue: str | None) -> str:
    if queue is None:
        return EVERYTHING
    check_word("queue", queue)
    return queue


def _paced(queue: Queue, rates: Mapping[str, Semaphore]) -> Queue:
    found = rates.get(rate_of_queue(queue.name))
    rate = None if found is None else found.rate
    return queue if found is None or rate is None else replace(queue, rate=str(rate), taken=found.taken)


def binding(queue: str, pauses: Collection[Pause]) -> tuple[Pause, ...]:
    """Return the pauses that keep runs of this queue from being claimed."""
    return tuple(pause for pause in pauses if pause.queue in (EVERYTHING, queue))


def sentence(pause: Pause) -> str:
    """Return the pause in English, without a full stop: `queue mail is paused since 2030-01-01T00:00:00Z by ann:
    repairs`.
    """
    what = "everything" if pause.queue == EVERYTHING else f"queue {pause.queue}"
    by = "" if pause.by is None else f" by {pause.by}"
    why = "" if pause.reason is None else f": {pause.reason}"
    return f"{what} is paused since {format_moment(pause.since)}{by}{why}"
