"""Search for jobs and runs by filters. It reads the store's lists by pages, and a bounded number for one answer.

The store applies filters that have an index (the job of a run, its state, the first id); this module applies the rest.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, overload

from msgspec import Struct, json, structs

from tokimori.errors import InvalidInput, NotFound
from tokimori.model.ids import Incarnation, JobId, check_job_id
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.model.words import check_text
from tokimori.ports.ends import EndedRun
from tokimori.ports.store import RunFilter
from tokimori.service.validation import MOST_LISTED, checked, chosen, many
from tokimori.spelling import hint

PAGE = 200
"""Number of rows read at once: others have their turn between two pages."""
MOST_PAGES = 20
"""Number of pages of a thousand runs looked through for those of one job within a scope."""
MOST_LOOKED_AT = 20_000
"""Number of jobs or runs looked at for one answer."""
MOST_JOBS = 1_000
"""Number of jobs of runs looked at for one answer."""
_LABEL = "KEY=VALUE, or KEY for any value"

ListRuns = Callable[[RunFilter], Awaitable[Sequence[Run]]]
JobOf = Callable[[str], Awaitable[Job]]
JobsOf = Callable[[Sequence[JobId]], Awaitable[Sequence[Job]]]
Sees = Callable[[Job], bool]
SeesRun = Callable[[Run | EndedRun], Awaitable[bool]]
_L = TypeVar("_L")
EVERY_ID = ("", "\x7f")
"""Between these are all ids of jobs."""


class Traits(Struct, frozen=True, kw_only=True):
    """Traits of a job: all of them must hold.

    Each `label` is `KEY=VALUE`, or `KEY` for any value. `limit`: how many jobs or runs are wanted at most.
    """

    label: tuple[str, ...] = ()
    owner: str | None = None
    queue: str | None = None
    limit: int = 100

    @property
    def asks_for_jobs(self) -> bool:
        """Return whether only the job of a run can answer it."""
        return not (self.owner is self.queue is None and self.label == ())

    @property
    def texts(self) -> Sequence[str]:
        """Return texts that stand in the stored definition of each job with these traits."""
        queue = None if self.queue == "default" else self.queue  # which is not stored
        filters = [(name, "=", text) for name, text in (("owner", self.owner), ("queue", queue)) if text is not None]
        labels = [each.partition("=") for each in self.label]
        return [f"{_written(key)}:{_written(value) if sign else ''}" for key, sign, value in (*filters, *labels)]

    def are_of(self, job: Job) -> bool:
        """Return whether the job, as it is now, has these traits."""
        definition = job.definition
        return (
            (self.owner is None or definition.owner == self.owner)
            and (self.queue is None or definition.queue == self.queue)
            and all(_has(definition.labels, label) for label in self.label)
        )


class JobSearch(Traits, frozen=True, kw_only=True):
    """Search of jobs: those in one of these states, of an id that begins with `prefix` and is behind `after`."""

    state: frozenset[JobState] = frozenset()
    prefix: str | None = None
    after: JobId | None = None


class EventSearch(Traits, frozen=True, kw_only=True):
    """Search of events: of one job or of jobs whose ids begin with `job_prefix`, in one of these end states.

    What is said of a job holds for the job as it is when its run ends; `limit` means nothing here.
    """

    job_id: JobId | None = None
    state: frozenset[RunState] = frozenset()
    job_prefix: str | None = None


class Paged(Struct, Generic[_L], frozen=True, kw_only=True):
    """Page of a list: it is counted, indexed and walked through as the things of its first field are."""

    @property
    def _listed(self) -> Sequence[_L]:
        listed: Sequence[_L] = getattr(self, self.__struct_fields__[0])
        return listed

    def __iter__(self) -> Iterator[_L]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    @overload
    def __getitem__(self, place: int) -> _L: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[_L]: ...
    def __getitem__(self, place: int | slice) -> _L | Sequence[_L]:
        return self._listed[place]


class FoundJobs(Paged[Job], frozen=True, kw_only=True):
    """Jobs by id. `next`: there may be more behind this id (it need not be that of one of them); None: that is all."""

    jobs: Sequence[Job]
    next: JobId | None = None


class ListJobs(Protocol):
    """A list of jobs by id."""

    def __call__(
        self, *, after: JobId | None, limit: int, like: Sequence[str] = (), states: Collection[JobState] = ()
    ) -> Awaitable[Sequence[Job]]:
        """Return the first jobs behind an id; see `Jobs.list_jobs`."""
        ...


_Search = TypeVar("_Search", bound=Traits)


async def every_job(list_jobs: Callable[..., Awaitable[FoundJobs]], **filters: Any) -> AsyncIterator[Job]:
    """Yield all jobs of `jobs.list` with these filters, a page at a time."""
    found = await list_jobs(**filters)
    while True:
        for job in found:
            yield job
        if found.next is None:
            return
        found = await list_jobs(**filters, after=found.next)


async def find_jobs(
    list_jobs: ListJobs, job_of: JobOf, wanted: JobSearch, sees: Sees | None = None, span: tuple[str, str] = EVERY_ID
) -> FoundJobs:
    """Return the matching jobs in the span of ids that the caller may see (None: all)."""
    found = [job for job in await _named(job_of, wanted) if _is_wanted(job, wanted, sees)]
    prefix = wanted.prefix or ""
    after = JobId(max(wanted.after or "", prefix, span[0])) or None
    size = wanted.limit if wanted.texts else min(PAGE, wanted.limit)  # mostly all of them are wanted
    for _ in range(MOST_LOOKED_AT // PAGE):
        if len(found) == wanted.limit:
            return FoundJobs(jobs=found, next=after)
        page = await list_jobs(after=after, limit=size, like=wanted.texts, states=wanted.state)
        for job in page:
            if not job.id.startswith(prefix) or job.id > span[1]:
                return FoundJobs(jobs=found)
            after = job.id
            found += [job] if _is_wanted(job, wanted, sees) else []
            if len(found) == wanted.limit:
                return FoundJobs(jobs=found, next=after)
        if len(page) < size:
            return FoundJobs(jobs=found)
        size = PAGE
    return FoundJobs(jobs=found, next=after)


class JobsOfRuns:
    """The jobs of the runs that are looked at: each is asked for once."""

    def __init__(self, job_of: JobOf, wanted: Traits, sees: SeesRun | None, jobs_of: JobsOf | None = None) -> None:
        self._job_of, self._jobs_of = job_of, jobs_of
        self._wanted = wanted
        self._sees = sees
        self._known: dict[tuple[JobId, Incarnation], bool] = {}

    @property
    def asked(self) -> int:
        """Return the number of jobs that were requested."""
        return len(self._known)

    async def learn(self, runs: Sequence[Run]) -> None:
        """Ask for the jobs of these runs together. Within a scope each is asked for when it is needed."""
        if self._jobs_of is None or self._sees is not None or not self._wanted.asks_for_jobs:
            return
        new = {key: run for run in runs if (key := (run.job_id, run.incarnation)) not in self._known}
        jobs = {job.id: job for job in await self._jobs_of(list({job_id for job_id, _ in new}))}
        self._known |= {key: key[0] in jobs and self._suits(jobs[key[0]], run) for key, run in new.items()}

    async def admit(self, run: Run | EndedRun) -> bool:
        """Return whether the job of the run is wanted."""
        if self._sees is not None and not await self._sees(run):
            return False
        key = (run.job_id, run.incarnation)
        if self._wanted.asks_for_jobs and key not in self._known:
            self._known[key] = await self._has_traits(run)
        return self._known.get(key, True)

    async def _has_traits(self, run: Run | EndedRun) -> bool:
        with suppress(NotFound):
            return self._suits(await self._job_of(run.job_id), run)
        return False

    def _suits(self, job: Job, run: Run | EndedRun) -> bool:
        is_its_own = job.incarnation == run.incarnation and job.state is not JobState.DELETED
        return is_its_own and self._wanted.are_of(job)


async def _named(job_of: JobOf, wanted: JobSearch) -> list[Job]:
    """Return the job whose id is the prefix itself: the list begins behind it."""
    prefix = wanted.prefix
    if prefix is not None and prefix > (wanted.after or ""):
        with suppress(NotFound):
            return [await job_of(prefix)]
    return []


def _is_wanted(job: Job, wanted: JobSearch, sees: Sees | None) -> bool:
    is_listed = job.state in wanted.state if wanted.state else job.state is not JobState.DELETED
    return is_listed and wanted.are_of(job) and (sees is None or sees(job))


def _written(text: str) -> str:
    return json.encode(text).decode()


def _has(labels: dict[str, str], wanted: str) -> bool:
    key, sign, value = wanted.partition("=")
    return key in labels and (not sign or labels[key] == value)


def searched_jobs(given: Mapping[str, Any]) -> JobSearch:
    """Return the search of jobs with these filters. Raises `InvalidInput`."""
    wanted = search_of(JobSearch, JobState, {"limit": MOST_LISTED, **given})
    return structs.replace(
        wanted,
        prefix=None if wanted.prefix is None else check_job_id(wanted.prefix, field="prefix"),
        after=None if wanted.after is None else check_job_id(wanted.after, field="after"),
    )


def searched_events(given: Mapping[str, Any]) -> EventSearch:
    """Return the search of events with these filters. Raises `InvalidInput`."""
    wanted = search_of(EventSearch, RunState, given)
    for state in sorted(wanted.state - ENDS):
        allowed = ", ".join(sorted(ENDS))
        raise InvalidInput(f"state: no run ends as {state}", field="state", value=state, allowed=allowed)
    return structs.replace(
        wanted,
        job_id=None if wanted.job_id is None else check_job_id(wanted.job_id, field="job_id"),
        job_prefix=None if wanted.job_prefix is None else check_job_id(wanted.job_prefix, field="job_prefix"),
    )


def search_of(kind: type[_Search], states: type[StrEnum], given: Mapping[str, Any]) -> _Search:
    """Return the search of this kind; None is as if nothing was said. Raises `InvalidInput`."""
    filters = {name: value for name, value in given.items() if value is not None}
    for name in filters.keys() - set(kind.__struct_fields__):
        message = f"{name}: there is no such filter{hint(name, kind.__struct_fields__)}"
        raise InvalidInput(message, field=name, value=filters[name], allowed=", ".join(kind.__struct_fields__))
    filters["state"] = frozenset(chosen(states, "state", each) for each in _some("state", filters.get("state", ())))
    filters["label"] = tuple(_label(each) for each in _some("label", filters.get("label", ())))
    for name in ("owner", "queue"):
        if name in filters:
            check_text(name, filters[name])
    if "limit" in filters:
        checked("limit", filters["limit"], MOST_LISTED)
    return kind(**filters)


def _some(name: str, given: object) -> Sequence[object]:
    """Return the members of a list; one text is a list of one. Raises `InvalidInput`."""
    return (given,) if isinstance(given, str) else many(name, given, "texts")


def _label(given: object) -> str:
    if isinstance(given, str) and given.partition("=")[0]:
        check_text("label", given)
        return given
    raise InvalidInput(f"label: {given!r} is no label", field="label", value=given, allowed=_LABEL)
