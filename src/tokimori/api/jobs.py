"""The paths under `/api/v2/jobs`, and `/api/v2/graph`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field, json
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer, page_of, read_body, read_query, written
from tokimori.api.requests import TriggerRequest, ask
from tokimori.clock import Moment, format_moment, parse_moment
from tokimori.errors import InvalidInput
from tokimori.service.asking import MOST_LISTED, checked
from tokimori.service.shown import MOST_KEPT, Shown
from tokimori.service.views.jobs import count_view, edge_view, job_view, skip_view
from tokimori.service.views.runs import backfill_view
from tokimori.service.views.schedules import explanation_view

SHOWN_TIMES = 5
"""How many next moments are shown with a job."""


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs by id, from the first one behind `after`; `last_runs`: with how many of its newest runs each is shown."""

    after: str | None = None
    limit: int = 100
    last_runs: int = 0


class NextQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The next `n` moments after `after`, by default after now."""

    n: int = 10
    after: str | None = None


class SkipsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of the newest skips are wanted."""

    limit: int = 100


class PauseRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a job is paused; `now`: whether its running runs are cancelled."""

    reason: str | None = None
    now: bool = False


class DeleteQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cascade`: whether jobs that run only after it are deleted too; `now`: whether its running runs are cancelled."""

    cascade: bool = False
    now: bool = False


class Range(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The range of a backfill; `from` and `to` are included."""

    first: str = field(name="from")
    last: str = field(name="to")

    def moments(self) -> tuple[Moment, Moment]:
        """Both ends of the range. Raises `InvalidInput`."""
        return parse_moment(self.first, field="from"), parse_moment(self.last, field="to")


class BackfillRequest(Range, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many runs to make: all that are missing, at most `max_running` active at a time, or (`dry_run`) none."""

    max_running: int = 0
    dry_run: bool = False


class NoRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body without fields."""


class Jobs:
    """The part of the API for jobs."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def routes(self) -> Sequence[Route]:
        """The paths of this part."""
        job = "/api/v2/jobs/{job_id}"
        return [
            Route("/api/v2/jobs", self.list, methods=["GET"]),
            Route("/api/v2/jobs", self.add, methods=["POST"]),
            Route(job, self.show, methods=["GET"]),
            Route(job, self.update, methods=["PATCH"]),
            Route(job, self.delete, methods=["DELETE"]),
            *(Route(f"{job}/{name}", self.pause, methods=["POST"]) for name in ("pause", "disable")),
            *(Route(f"{job}/{name}", self.resume, methods=["POST"]) for name in ("resume", "enable")),
            Route(f"{job}/resolve", self.resolve, methods=["POST"]),
            Route(f"{job}/trigger", self.trigger, methods=["POST"]),
            Route(f"{job}/backfill", self.backfill, methods=["POST"]),
            Route(f"{job}/backfill/cancel", self.cancel_backfill, methods=["POST"]),
            Route(f"{job}/next", self.next_times, methods=["GET"]),
            Route(f"{job}/explain", self.explain, methods=["GET"]),
            Route(f"{job}/skips", self.skips, methods=["GET"]),
            Route(f"{job}/graph", self.graph, methods=["GET"]),
            Route("/api/v2/graph", self.graph, methods=["GET"]),
            Route(f"{job}/counts", self.counts, methods=["GET"]),
        ]

    async def list(self, request: Request) -> Response:
        """Jobs by id, a page at a time."""
        query = read_query(request, ListQuery)
        checked("limit", query.limit, MOST_LISTED)
        if query.last_runs:
            checked("last_runs", query.last_runs, MOST_LISTED // query.limit)
        service = self._service(request)
        jobs = await service.list(query.after, query.limit)
        last = await service.last_runs([job.id for job in jobs], query.last_runs) if query.last_runs else {}
        views = [job_view(job, last_runs=last.get(job.id)) for job in jobs]
        return page_of(request, views, query.limit, after=jobs[-1].id if jobs else None)

    async def add(self, request: Request) -> Response:
        """Add a job: the fields of `JobFields`, and an `id` (else it gets a UUID)."""
        fields = await read_body(request, dict[str, Any])
        job_id = fields.pop("id", None)
        if not isinstance(job_id, str | None):
            raise InvalidInput(f"id: {job_id!r} is not a job id", field="id", value=job_id, allowed="a text")
        job = await self._service(request).add(job_id, **fields)
        return answer(job_view(job), 201, location=f"/api/v2/jobs/{quote(job.id, safe='')}")

    async def show(self, request: Request) -> Response:
        """A job, its next moments (none while it is stopped), its edges, and what keeps its runs from starting."""
        return written(_shown(await self._service(request).shown(_job_id(request), SHOWN_TIMES)))

    async def update(self, request: Request) -> Response:
        """Change fields of a job: a JSON merge patch (RFC 7396)."""
        changes = await read_body(request, dict[str, Any])
        return answer(job_view(await self._service(request).update(_job_id(request), **changes)))

    async def delete(self, request: Request) -> Response:
        """Delete a job."""
        job_id = _job_id(request)
        await self._service(request).delete(job_id, **asdict(read_query(request, DeleteQuery)))
        return answer({"id": job_id, "deleted": True})

    async def pause(self, request: Request) -> Response:
        """Pause a job: none of its runs starts until it is resumed."""
        wanted = await read_body(request, PauseRequest)
        return answer(job_view(await self._service(request).pause(_job_id(request), wanted.reason, now=wanted.now)))

    async def resume(self, request: Request) -> Response:
        """Resume a job, without making up for what it missed."""
        await read_body(request, NoRequest)
        return answer(job_view(await self._service(request).resume(_job_id(request))))

    async def resolve(self, request: Request) -> Response:
        """Enable a job that a failure has parked."""
        await read_body(request, NoRequest)
        return answer(job_view(await self._service(request).resolve(_job_id(request))))

    async def trigger(self, request: Request) -> Response:
        """Ask for a run, now or at a moment."""
        wanted = await read_body(request, TriggerRequest)
        return await ask(self._service(request), _job_id(request), wanted)

    async def backfill(self, request: Request) -> Response:
        """Make runs for occurrences that have none; with `max_running`, ask again until none is missing."""
        wanted = await read_body(request, BackfillRequest)
        first, last = wanted.moments()
        done = await self._service(request).backfill(
            _job_id(request), first, last, max_running=wanted.max_running, dry_run=wanted.dry_run
        )
        return answer(backfill_view(done))

    async def cancel_backfill(self, request: Request) -> Response:
        """Cancel a backfill: its runs that have not ended, and the making of more."""
        first, last = (await read_body(request, Range)).moments()
        done = await self._service(request).cancel_backfill(_job_id(request), first, last)
        return answer(backfill_view(done))

    async def next_times(self, request: Request) -> Response:
        """The next moments of the job's schedule."""
        query = read_query(request, NextQuery)
        after = None if query.after is None else parse_moment(query.after, field="after")
        moments = await self._service(request).next_times(_job_id(request), query.n, after)
        return answer([{"job_id": _job_id(request), "time": format_moment(moment)} for moment in moments])

    async def explain(self, request: Request) -> Response:
        """What the schedule of the job means."""
        query = read_query(request, NextQuery)
        after = None if query.after is None else parse_moment(query.after, field="after")
        return answer(explanation_view(await self._service(request).explain_job(_job_id(request), query.n, after)))

    async def skips(self, request: Request) -> Response:
        """The skips of the job, newest first."""
        query = read_query(request, SkipsQuery)
        return answer([skip_view(skip) for skip in await self._service(request).skips(_job_id(request), query.limit)])

    async def graph(self, request: Request) -> Response:
        """The edges between jobs: all, or those above and below one job."""
        edges = await self._service(request).graph(request.path_params.get("job_id"))
        return answer([edge_view(edge) for edge in edges])

    async def counts(self, request: Request) -> Response:
        """How many runs ended and occurrences were skipped, by day and outcome, pruned ones too."""
        return answer([count_view(count) for count in await self._service(request).counts(_job_id(request))])


def _job_id(request: Request) -> str:
    job_id: str = request.path_params["job_id"]
    return job_id


@lru_cache(maxsize=MOST_KEPT)
def _shown(found: Shown) -> bytes:
    """Its JSON: the service gives the same object as long as it is the same."""
    facts = found.facts
    return json.encode(job_view(facts.job, found.moments, facts.edges, facts.pauses, facts.too_heavy))
