"""Search for runs by filters, and by texts in them. It reads the store's list by pages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from tokimori.clock import MILLISECOND, SECOND, Moment
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.attempt_notes import given_to
from tokimori.model.cause import ID, cause_id, cause_in
from tokimori.model.ids import JobId, RunId, check_job_id, check_uuid
from tokimori.model.parents import ParentRun, parents_in
from tokimori.model.request import AHEAD
from tokimori.model.retention import first_id_at
from tokimori.model.run import LONG, Run, brief, is_brief
from tokimori.model.transitions import RunState
from tokimori.model.words import check_text
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import RunFilter, Runs
from tokimori.ports.work_source import WorkSource
from tokimori.service.search.jobs import (
    MOST_JOBS,
    PAGE,
    JobOf,
    JobsOf,
    JobsOfRuns,
    ListRuns,
    Paged,
    SeesRun,
    Traits,
    search_of,
)
from tokimori.service.validation import checked, moment_of, seconds_of

MOST_LOOKED_AT = 5_000
"""Number of runs looked at for one answer: those take some 60 ms of a processor."""
MOST_SEARCHED = 10_000
"""Number of runs searched for a text for one answer."""
OUTPUTS_AT_ONCE = 50
"""Number of outputs of up to 128 KiB that a store searches at once: 25 ms of a processor, while other readers wait."""
LONGEST_SEARCH = 5.0
"""Seconds after which a search for a text answers with what it has found, and where to go on."""
_LEAST = 8
"""Characters of the beginning of a node's id."""
MOST_SOUGHT = 1_000
"""Characters of a text that is searched for."""
MOST_TEXT = 8_000_000
"""The runs of one answer, and those that were looked at for it, have payloads and results of so many characters."""
LONGEST = 20_000
"""Texts of more bytes are read for those runs alone that are found, one by one: a payload may have a megabyte."""
MOST_BYTES = 2**31 - 1
"""The largest number for which every database can be asked."""


class RunSearch(Traits, frozen=True, kw_only=True):
    """Search of runs: of one job or of jobs whose ids begin with `job_prefix`, in one of these states.

    They were made at `since` or later, and before `until` (microseconds since 1970), and are older than the run
    `before`. What is said of a job holds for the job as it is now: runs of one that is deleted have none of it.
    `cause` is the id of the cause of a failure. `text` is in the payload, the error, the result or the kept output of
    the newest attempt. The newest attempt is at a `node` (its id or its host), and has lasted for over `duration_over`
    seconds. `longest`: of texts such as payloads those of more bytes are left out, with 0 all of them; None: all are
    there.
    """

    job_id: JobId | None = None
    state: frozenset[RunState] = frozenset()
    job_prefix: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    before: RunId | None = None
    cause: str | None = None
    text: str | None = None
    node: str | None = None
    duration_over: float | None = None
    longest: int | None = None


class FoundRuns(Paged[Run], frozen=True, kw_only=True):
    """Runs, newest first.

    `looked`: the number of runs that were read. `next`: there may be more before this id; None: there are no more.
    """

    runs: Sequence[Run]
    next: RunId | None = None
    looked: int = 0


OutputsWith = Callable[[bytes, Mapping[RunId, int]], Awaitable[Sequence[RunId]]]


class RunSources(Struct, frozen=True, kw_only=True):
    """Further inputs of a search, beside runs and jobs. `nodes`: the ids of the wanted node; None: any.

    `now` is that of the search. `jobs_of`: finds many jobs at once.
    """

    outputs_with: OutputsWith | None = None
    nodes: Set[str] | None = None
    jobs_of: JobsOf | None = None
    now: Moment = Moment(0)


async def find_runs(
    list_runs: ListRuns,
    job_of: JobOf,
    wanted: RunSearch,
    sees: SeesRun | None = None,
    sources: RunSources = RunSources(),  # noqa: B008 it is frozen
) -> FoundRuns:
    """Return the matching runs, of jobs that the caller may see (None: all)."""
    jobs = JobsOfRuns(job_of, wanted, sees, sources.jobs_of)
    matching, clock = _Matching(list_runs, wanted, jobs, sources), _clock()
    oldest, before = None if wanted.since is None else first_id_at(wanted.since), _newest(wanted)
    is_search, states = wanted.text is not None, wanted.state
    asked = RunFilter(job_id=wanted.job_id, states=states, longest=matching.longest)
    size = PAGE if is_search else min(PAGE, wanted.limit)
    found: list[Run] = []
    written = looked = 0
    for _ in range((MOST_SEARCHED if is_search else MOST_LOOKED_AT) // PAGE):
        page = await list_runs(structs.replace(asked, before=before, limit=size))
        ahead = page if oldest is None else [run for run in page if run.id >= oldest]
        await jobs.learn(ahead)
        texts = await matching.with_text(ahead) if is_search else None
        for run in ahead:
            before, looked = run.id, looked + 1
            is_one = run.id in texts if texts is not None else await matching.admits(run)
            found += [await matching.shown(run)] if is_one else []
            written += _size_of(found[-1]) if is_one else 0 if is_search else _size_of(run)
            if len(found) == wanted.limit or written >= MOST_TEXT:
                return FoundRuns(runs=found, next=before, looked=looked)
        if len(page) < size or len(ahead) < len(page):
            return FoundRuns(runs=found, looked=looked)
        if jobs.asked >= MOST_JOBS or (is_search and _clock() >= clock + LONGEST_SEARCH):
            break
        size = PAGE
    return FoundRuns(runs=found, next=before, looked=looked)


def _clock() -> float:
    return asyncio.get_running_loop().time()


class _Matching:
    """Comparison of runs with a search."""

    def __init__(self, list_runs: ListRuns, wanted: RunSearch, jobs: JobsOfRuns, sources: RunSources) -> None:
        self._list_runs, self._wanted, self.jobs, self._sources = list_runs, wanted, jobs, sources
        self._looks_inside = wanted.text is not None or wanted.cause is not None
        self._is_bounded = (wanted.job_prefix, wanted.since, wanted.until) != (None, None, None)
        self.longest = LONGEST if wanted.longest is None or self._looks_inside else wanted.longest

    async def admits(self, run: Run) -> bool:
        """Return whether all but its text is as wanted."""
        wanted, nodes = self._wanted, self._sources.nodes
        if self._is_bounded and not _is_within(run, wanted):
            return False
        if nodes is not None and run.node_id not in nodes:
            return False
        if wanted.duration_over is not None:
            lasted = 0 if run.started is None else (run.ended or self._sources.now) - run.started
            if lasted <= wanted.duration_over * SECOND:
                return False
        if wanted.cause is not None and run.state is RunState.FAILED and run.details.as_stored == LONG:
            run = await whole(self._list_runs, run)
        return (wanted.cause is None or _cause_id(run) == wanted.cause) and await self.jobs.admit(run)

    async def with_text(self, page: Sequence[Run]) -> Set[RunId]:
        """Return the ids of those of a page that are as wanted, with the text. The store looks into their outputs."""
        text, found, attempts = self._wanted.text or "", set[RunId](), dict[RunId, int]()
        for run in page:
            if not await self.admits(run):
                continue
            if _holds(await whole(self._list_runs, run), text):
                found.add(run.id)
            elif run.attempt:
                attempts[run.id] = run.attempt
        if self._sources.outputs_with is not None:
            asked = list(attempts.items())
            for first in range(0, len(asked), OUTPUTS_AT_ONCE):
                some = dict(asked[first : first + OUTPUTS_AT_ONCE])
                found.update(await self._sources.outputs_with(text.encode(), some))
        return found

    async def shown(self, run: Run) -> Run:
        """Return the run with the texts that are wanted."""
        longest = self._wanted.longest
        if longest is None:
            return await whole(self._list_runs, run)
        return brief(run, longest) if self._looks_inside else run


def _holds(run: Run, text: str) -> bool:
    return any(text in each for each in (given_to(run), run.error, run.result) if each is not None)


def _cause_id(run: Run) -> str | None:
    cause = cause_in(run)
    return None if cause is None else _id_of(cause)


_id_of = lru_cache(maxsize=256)(cause_id)


async def as_of_now(list_runs: ListRuns, wanted: RunFilter, newest: Sequence[Run], now: Moment) -> list[Run]:
    """Return the newest runs. Runs that a fast clock dated in the future come last, else they would hide all others."""
    soon = first_id_at(Moment(now + AHEAD))
    ahead = [run for run in newest if run.id > soon]
    return [*await list_runs(structs.replace(wanted, before=soon)), *ahead][: wanted.limit] if ahead else list(newest)


async def whole(list_runs: ListRuns, run: Run) -> Run:
    """Return the run with its long texts. A run that was just pruned stays without them."""
    if not is_brief(run):
        return run
    behind = RunId(str(UUID(int=UUID(run.id).int + 1)))
    found = await list_runs(RunFilter(job_id=run.job_id, before=behind, limit=1))
    return found[0] if [each.id for each in found] == [run.id] else run


async def all_whole(list_runs: ListRuns, runs: Iterable[Run]) -> list[Run]:
    """Return these runs with their long texts. Raises `Refused` if these are too long for one answer."""
    found, written = [], 0
    for run in runs:
        found.append(await whole(list_runs, run))
        written += _size_of(found[-1]) if found[-1] is not run else 0
        if written > MOST_TEXT:
            raise Refused(
                f"the last runs of these jobs have payloads and results of over {MOST_TEXT:,} characters",
                field="last_runs",
                allowed="fewer of them, fewer jobs at a time (`limit`), or `GET /api/v2/runs`, which has pages",
            )
    return found


_AT_ONCE = 50
"""Number of parents read at a time: each may have some hundred KiB of texts."""


async def parent_runs(store: Runs | WorkSource, ids: Sequence[RunId]) -> list[ParentRun]:
    """Return the runs of these ids with their results (`MOST_RESULTS`). What is not kept any more is missing."""
    found: list[Run] = []
    for first in range(0, len(ids), _AT_ONCE):
        some = await asyncio.gather(*(_run_or_none(store, each) for each in ids[first : first + _AT_ONCE]))
        found += [run for run in some if run is not None]
    return parents_in(found)


async def _run_or_none(store: Runs | WorkSource, run_id: RunId) -> Run | None:
    try:
        return await store.get_run(run_id)
    except NotFound:
        return None


def _size_of(run: Run) -> int:
    """Return the length of its texts that may be long."""
    return len(run.payload or "") + len(run.details.payload or "") + len(run.result or "") + len(run.error or "")


def _is_within(run: Run, wanted: RunSearch) -> bool:
    return (
        run.job_id.startswith(wanted.job_prefix or "")
        and (wanted.since is None or run.created >= wanted.since)
        and (wanted.until is None or run.created < wanted.until)
    )


def _newest(wanted: RunSearch) -> RunId | None:
    """Return the id above all wanted runs; None: no bound. Ids are no finer than a millisecond."""
    bounds = [] if wanted.before is None else [wanted.before]
    bounds += [] if wanted.until is None else [first_id_at(Moment(wanted.until + MILLISECOND))]
    return min(bounds, default=None)


def searched_runs(given: Mapping[str, Any], zone: str) -> RunSearch:
    """Return the search of runs with these filters; times without offset are in this zone. Raises `InvalidInput`."""
    wanted = search_of(RunSearch, RunState, given)
    for name, text in (("cause", wanted.cause), ("node", wanted.node), ("text", wanted.text)):
        _check_sought(name, text)
    return structs.replace(
        wanted,
        job_id=None if wanted.job_id is None else check_job_id(wanted.job_id, field="job_id"),
        job_prefix=None if wanted.job_prefix is None else check_job_id(wanted.job_prefix, field="job_prefix"),
        state=wanted.state or (frozenset() if wanted.cause is None else frozenset({RunState.FAILED})),
        since=None if wanted.since is None else moment_of("since", wanted.since, zone),
        until=None if wanted.until is None else moment_of("until", wanted.until, zone),
        before=None if wanted.before is None else RunId(check_uuid(wanted.before, field="before")),
        cause=wanted.cause if wanted.cause is None or ID.match(wanted.cause) else cause_id(wanted.cause),
        duration_over=None if wanted.duration_over is None else seconds_of("duration_over", wanted.duration_over),
        longest=longest_of(wanted.longest),
    )


def _check_sought(name: str, text: object) -> None:
    if text is None:
        return
    check_text(name, text)
    if not 1 <= len(str(text)) <= MOST_SOUGHT:
        message = f"{name}: a text of {len(str(text))} characters is not searched for"
        raise InvalidInput(message, field=name, value=str(text)[:100], allowed=f"1..{MOST_SOUGHT} characters")


async def nodes_named(list_nodes: Callable[[], Awaitable[Sequence[NodeRecord]]], name: str) -> Set[str]:
    """Return the ids of the nodes with this id, this beginning of an id, or this host; the given name if none has."""
    found = {node.id for node in await list_nodes() if name in (node.id, node.host) or _begins(node.id, name)}
    return found or {name}


def _begins(node_id: str, name: str) -> bool:
    return len(name) >= _LEAST and node_id.startswith(name.lower())


def longest_of(given: object) -> int | None:
    """Return the bytes that texts may have, as `RunSearch.longest`. Raises `InvalidInput`."""
    return None if given is None else checked("longest", given, MOST_BYTES, least=0)
