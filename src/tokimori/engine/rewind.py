"""Rewind: find jobs whose cursor is ahead, because a clock was, and put it back (`tokimori.model.rewind`)."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from itertools import islice
from math import inf
from typing import Protocol

from msgspec.structs import replace

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.engine.expire import put_expiries_right
from tokimori.engine.fire import Schedules
from tokimori.engine.pace import PageSize
from tokimori.engine.refusals import is_fault_of_request, log_refusal
from tokimori.errors import Conflict, NotFound, StoreError
from tokimori.model.access_token import KIND as TOKEN
from tokimori.model.access_token import decode_token, encode_token
from tokimori.model.audit import KIND as AUDIT
from tokimori.model.audit import older_than
from tokimori.model.cause import KIND as MUTE
from tokimori.model.cause import decode_mute, encode_mute
from tokimori.model.decide import decidable
from tokimori.model.document import Document, new_version
from tokimori.model.ids import JobId, NodeId, RandomBytes
from tokimori.model.job import Job
from tokimori.model.retention import day_of, first_id_at
from tokimori.model.rewind import MARGIN, MOST_FIRED, Ahead, brought_forward, is_ahead, rewound
from tokimori.model.run import Run
from tokimori.model.target import Unreadable
from tokimori.model.transitions import RunState
from tokimori.ports.documents import Documents
from tokimori.ports.planning import Planning
from tokimori.ports.pruning import Pruning
from tokimori.ports.store import OCCURRENCES, Jobs, RunFilter, Runs
from tokimori.schedules.schedule import Schedule

KIND, NAME = "clock", "steady"
GAP, AHEAD = 60 * SECOND, SECOND
"""Largest age, and largest lead, of a note that still counts. Smaller leaps put no cursor ahead."""


class Steadiness:
    """Seconds of steady time that this node has seen itself (`own`), and those that the store records."""

    def __init__(self, store: Documents, own: Callable[[float], float], random: RandomBytes) -> None:
        self._store = store
        self._own = own
        self._random = random

    async def seconds(self, now: Moment, at: float) -> float:
        """Return for how many seconds the store's time has run steadily, and note it for later nodes."""
        since, version = now - round(self._own(at) * SECOND), None
        try:
            known = await self._store.get_document(KIND, NAME)
            version = known.version
            noted, seen = map(int, known.text.split())
            if now - GAP <= seen <= now + AHEAD:
                since = min(since, noted)
        except (NotFound, ValueError):
            pass
        following = new_version(self._random) if version is None else version + 1
        note = Document(kind=KIND, name=NAME, text=f"{since} {now}", version=following)
        try:
            await self._store.put_document(note, version)
        except Conflict:
            pass  # another node has noted it in the same moment
        return (now - since) / SECOND


log = logging.getLogger(__name__)

STEADY = 60.0
"""Seconds for which the store's time must have run as this machine's monotonic clock does before it is believed."""
SURE = 3600.0
"""Seconds for which it must have run so before a change that can't be undone."""
EVERY, SOON, PAUSE = 60.0, 5.0, 0.05
"""Seconds from one check for runs ahead of now to the next; the same while the time is not believed yet; and between
two steps of a walk over jobs.
"""
PAGE = 200
PAGE_OF_ENTRIES, MOST_ENTRIES = 20, 10_000
"""Entries of the audit log that are read at a time, as one may have 256 KiB, and at most."""
MOST_NAMED = 20
"""Jobs that are looked at to name some for people."""
MOST_LOOKED_AT = 20_000
"""Runs made after now, of any origin, that are read of one job."""
PAGE_OF_RUNS, LONGEST_FACTS = 1_000, 4_000
"""Runs that have not begun read at a time, and bytes of their facts above which these are left out."""
_WAITING, _IN_LINE = frozenset({RunState.WAITING}), frozenset({RunState.READY, RunState.BLOCKED})

ScheduleFor = Callable[[Job], Schedule]


class NamingStore(Jobs, Runs, Pruning, Protocol):
    """Questions to the store for naming jobs that are ahead."""


class HasteningStore(Runs, Planning, Protocol):
    """Questions of hastening runs to the store."""


class RewindStore(Jobs, Runs, Planning, Pruning, Documents, Protocol):
    """Questions of rewinding to the store."""


async def read_ahead(store: RewindStore, job: Job, now: Moment) -> Ahead:
    """Read the records of the job after now. None of them can be added while its cursor stays where it is."""
    through = decidable(job.definition, now)
    fired, looked_at, before, oldest = set[Moment](), 0, None, first_id_at(through)
    while looked_at < MOST_LOOKED_AT and (before is None or before > oldest):
        page = await store.list_runs(RunFilter(job_id=job.id, before=before, limit=1_000, longest=OCCURRENCES))
        of_schedule = (run for run in page if run.incarnation == job.incarnation and run.origin.startswith("s:"))
        fired |= {run.nominal for run in of_schedule if run.nominal > through}
        looked_at += len(page)
        before = page[-1].id if page else oldest
    limit = 100
    while len(skips := await store.skips(job.id, limit=limit)) == limit < MOST_FIRED and skips[-1].last > through:
        limit *= 10
    later = [skip for skip in skips if skip.last > through]
    many = looked_at >= MOST_LOOKED_AT or len(fired) > MOST_FIRED or len(later) >= MOST_FIRED
    lost = f"over {MOST_FIRED:,} runs and skips of it are ahead" if many else None
    pruned = [each.day for each in await store.counts(job.id) if each.pruned]
    if any(day >= day_of(now) for day in pruned):
        lost = "runs or skips of it that may be of then are pruned"
    return Ahead(fired=sorted(fired), skips=later, lost=lost, pruned=any(day > now for day in pruned))


async def rewind(
    store: RewindStore, job: Job, schedule_for: ScheduleFor, now: Moment, *, force: bool = False
) -> Job | str | None:
    """Put the job's cursor back to now; return the job, None if there is nothing to do, or why it can't be done safely.

    With `force` it is done even if the runs after now are not known for sure. Raises `Conflict` and `NotFound`.
    """
    schedule = schedule_for(job)
    if not is_ahead(job, schedule, now):
        return None
    ahead = await read_ahead(store, job, now)
    if (found := rewound(job, schedule, ahead, now)) is None:
        return None
    if ahead.lost is not None and not force:
        return ahead.lost
    await store.replace_job(job, *found)
    log.warning(
        "a clock ahead had moved the cursor of job %s to %s: it continues from now, and leaves out %d",
        job.id,
        format_moment(job.fired_through),
        len(ahead.fired),
    )
    return found[0]


async def jobs_ahead(store: NamingStore, jobs: Iterable[Job], now: Moment) -> list[JobId]:
    """Return jobs that have decided moments after now, from a bounded number of jobs."""
    soon, found, schedule_for = first_id_at(Moment(now + MARGIN)), [], Schedules()
    maybe = (job for job in jobs if job.fired_through > now + MARGIN and _is_readable(job))
    for job in islice((job for job in maybe if is_ahead(job, schedule_for(job), now)), MOST_NAMED):
        newest = await store.last_runs([job.id], 1, OCCURRENCES)
        is_known = (newest and newest[0].id > soon) or (await store.get_due(job.id)).tail is not None
        if is_known or any(each.pruned and each.day > now for each in await store.counts(job.id)):
            found.append(job.id)
    return found


async def hasten(store: HasteningStore, now: Moment, job_id: JobId | None = None, *, requests: bool = True) -> None:
    """Make runs due that a clock which was ahead has put off: retries, and requests. Their place in a line is by that.

    Requests that it has made ready before their moment wait again.
    """
    found = 0
    for states in (_WAITING, _IN_LINE):
        before = None
        for _ in range(MOST_LOOKED_AT // PAGE_OF_RUNS):
            asked = RunFilter(job_id=job_id, states=states, before=before, limit=PAGE_OF_RUNS, longest=LONGEST_FACTS)
            page = await store.list_runs(asked)
            for run in page:
                ended = await _last_end(store, run) if run.started is not None and run.due > now + MARGIN else None
                if (requests or run.started is not None) and (moments := brought_forward(run, now, ended)) is not None:
                    await store.hasten_run(run, *moments)
                    found += 1
            if len(page) < asked.limit:
                break
            before = page[-1].id
    if found:
        log.warning("a clock ahead had moved %d runs: they are due by the correct time again", found)


async def _last_end(store: HasteningStore, run: Run) -> Moment | None:
    """Return when the newest attempt of a run that is tried again ended."""
    return max((each.ended for each in await store.attempts(run.id) if each.ended is not None), default=None)


def _token_right(text: str, now: Moment) -> str | None:
    token = decode_token(text)
    return encode_token(token.since(now)) if token.created > now + MARGIN else None


def _mute_right(text: str, now: Moment) -> str | None:
    mute = decode_mute(text)
    return encode_mute(mute.anew(now)) if mute.since > now + MARGIN else None


_DATED = ((TOKEN, _token_right), (MUTE, _mute_right))
"""Kinds of documents that last for a time, and how each gets it from now; None: it was made by the right time."""


async def put_documents_right(store: Documents, now: Moment, random: RandomBytes) -> None:
    """Correct documents that a clock which was ahead has made: tokens and mutes last as long as was said from now, and
    entries of the audit log are listed behind those written from now on.
    """
    changed = 0
    for kind, right in _DATED:
        after = ""
        while page := await store.list_documents(kind, after=after, limit=PAGE):
            after = page[-1].name
            for each in page:
                with suppress(Conflict, ValueError):  # somebody was faster, or a later version wrote it
                    if (text := right(each.text, now)) is not None:
                        await store.put_document(replace(each, text=text, version=each.version + 1), each.version)
                        changed += 1
    for _ in range(MOST_ENTRIES // PAGE_OF_ENTRIES):
        entries = await store.list_documents(AUDIT, limit=PAGE_OF_ENTRIES)
        ahead = [each for each in entries if each.name < older_than(Moment(now + MARGIN))]
        for place, each in enumerate(ahead, 1):  # the newest comes first
            name = f"{older_than(Moment(now - place))}-{each.name.rpartition('-')[2]}"  # its id is known
            with suppress(Conflict):
                await store.put_document(replace(each, name=name, version=new_version(random)), None)
                await store.delete_document(AUDIT, each.name, each.version)
                changed += 1
        if len(ahead) < PAGE_OF_ENTRIES:
            break
        now = Moment(now - PAGE_OF_ENTRIES)
    if changed:
        log.warning(
            "a clock ahead had dated %d tokens, mutes and entries of the audit log: they have the current time now",
            changed,
        )


class Rewinder:
    """Duty to look every minute for a run ahead of now, or a leap of the store's time, and then at all jobs.

    `steady` says for how many seconds the store's time has run steadily, at a monotonic second. A node that has not
    lived for so long uses the notes of earlier nodes. It corrects jobs only if the time is the one with which it began,
    or has run steadily for an hour: for a clock that is behind for a minute, all records seem to be ahead.
    """

    def __init__(
        self,
        store: RewindStore,
        at: float,
        schedule_for: ScheduleFor,
        steady: Callable[[float], float],
        random: RandomBytes,
    ) -> None:
        self._store = store
        self._schedule_for = schedule_for
        self._steady = steady
        self._random = random
        self._seen_by_all = Steadiness(store, steady, random)
        self._walk: AsyncGenerator[None] | None = None
        self._first_offset: int | None = None
        self._since = -inf
        self._newest: str | None = None
        self._none_ahead = -inf
        self._has_rest = False
        self.next_at = at

    async def step(self, by: NodeId, now: Moment, at: float) -> bool:
        """See `Duty`. Begin a walk over the jobs if the time has leapt or runs are ahead, else take its next step."""
        since = at - self._steady(at)  # the monotonic second since which the time has run steadily
        offset = now - round(at * SECOND)  # the distance of the time from the monotonic clock
        if self._first_offset is None:
            self._first_offset, self._since = offset, since
        is_sure = at - since >= SURE or abs(offset - self._first_offset) < MARGIN
        try:
            if self._walk is None or since > self._since + 1:
                self._walk, self.next_at = None, at + SOON
                if not await self._is_believed(now, at, since):
                    return False
                self._walk = await self._begin_walk(now, since, is_sure=is_sure)
            return await self._walk_on(at, is_sure=is_sure)
        except StoreError:
            self._has_rest |= self._walk is not None
            self._walk, self._since, self._newest, self.next_at = None, -inf, None, at + EVERY
            raise

    async def _begin_walk(self, now: Moment, since: float, *, is_sure: bool) -> AsyncGenerator[None] | None:
        """Return the walk that is needed, if any: over the jobs, or over the rest that waited until it is sure."""
        if await self._is_suspect(now, since):
            self._has_rest = True
            return self._over_jobs(now)
        if self._has_rest and is_sure:
            self._has_rest = False
            return self._over_rest(now)
        return None

    async def _walk_on(self, at: float, *, is_sure: bool) -> bool:
        """Take the next step of the walk, if there is one, and return if it ended with that."""
        if self._walk is None:
            self.next_at = at + EVERY
            return False
        has_ended = await anext(self._walk, True) is True  # each step yields None
        if has_ended:
            self._walk = None
        goes_on = not has_ended or (self._has_rest and is_sure)
        self.next_at = at + (PAUSE if goes_on else EVERY)
        return has_ended

    async def _is_believed(self, now: Moment, at: float, since: float) -> bool:
        """Return if the store's time has run steadily for long, as this node or all nodes have seen it.

        The other nodes are asked only if runs are ahead of the time. If none is, the node asks again after a leap.
        """
        if at - since >= STEADY:
            return True
        if since <= self._none_ahead + 1:
            return False
        self._none_ahead = -inf if (ahead := await self._ahead(now)) else since
        return ahead is not None and await self._seen_by_all.seconds(now, at) >= STEADY

    async def _ahead(self, now: Moment) -> str | None:
        """Return the id of the newest run if its moment is to come, else None."""
        newest = [run.id for run in await self._store.list_runs(RunFilter(limit=1, longest=OCCURRENCES))]
        return newest[0] if newest and newest[0] > first_id_at(Moment(now + MARGIN)) else None

    async def _is_suspect(self, now: Moment, since: float) -> bool:
        """Return if the time has leapt since the last walk, or if there is a new run of a moment to come."""
        ahead = await self._ahead(now)
        leapt = self._since != -inf and since > self._since + 1
        suspect = leapt or ahead not in (None, self._newest)
        self._since, self._newest = since, ahead
        return suspect

    async def _over_jobs(self, now: Moment) -> AsyncGenerator[None]:
        after: JobId | None = None
        page_size = PageSize(PAGE)
        while jobs := await self._store.list_jobs(after=after, limit=page_size.limit):
            after = jobs[-1].id
            page_size.note(jobs)
            for job in jobs:
                if job.fired_through > now and _is_readable(job):
                    await self._put_back(job, now)
                    yield
            yield
        await hasten(self._store, now, requests=False)

    async def _over_rest(self, now: Moment) -> AsyncGenerator[None]:
        await hasten(self._store, now)
        yield
        await put_documents_right(self._store, now, self._random)
        await put_expiries_right(self._store, now)

    async def _put_back(self, job: Job, now: Moment) -> None:
        try:
            stays = await rewind(self._store, job, self._schedule_for, now)
            if isinstance(stays, str):
                log.warning(
                    "the cursor of job %s stays ahead of now: %s; run `tokimori job rewind %s`", job.id, stays, job.id
                )
        except (Conflict, NotFound):
            log.info("job %s was changed meanwhile", job.id)
        except Exception as fault:
            if not is_fault_of_request(fault):
                raise
            log_refusal(log, f"job {job.id} is ahead of the time and can't be put back: {fault}", fault)


def _is_readable(job: Job) -> bool:
    return not isinstance(job.definition.target, Unreadable)
