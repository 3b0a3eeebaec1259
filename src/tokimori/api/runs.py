"""The paths under `/api/v2/runs`."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer, page_of, read_body, read_query
from tokimori.api.requests import RunRequest, ask
from tokimori.errors import InvalidInput
from tokimori.model.ids import RunId, check_job_id, check_uuid
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.service.views.runs import output_view, run_details_view, run_view


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter of runs: of one job, in some states, older than the run `before`."""

    job_id: str | None = None
    state: tuple[str, ...] = ()
    before: str | None = None
    limit: int = 100

    def filter(self) -> RunFilter:
        """The filter as the service takes it. Raises `InvalidInput`."""
        return RunFilter(
            job_id=None if self.job_id is None else check_job_id(self.job_id),
            states=frozenset(map(_state, self.state)),
            before=None if self.before is None else RunId(check_uuid(self.before, field="before")),
            limit=self.limit,
        )


class AttemptsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which attempts to show: the newest before this number; by default the newest of all."""

    before: int | None = None


class OutputQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attempt whose output is wanted, by default the newest."""

    attempt: int | None = None


class HoldRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is held."""

    reason: str = "held by hand"


class NoRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body without fields."""


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is cancelled."""

    reason: str = "cancelled by hand"


class Runs:
    """The part of the API for runs."""

    def __init__(self, service: ServiceFor) -> None:
        self._service = service

    def routes(self) -> Sequence[Route]:
        """The paths of this part."""
        run = "/api/v2/runs/{run_id}"
        return [
            Route("/api/v2/runs", self.list, methods=["GET"]),
            Route("/api/v2/runs", self.add, methods=["POST"]),
            Route(run, self.show, methods=["GET"]),
            Route(f"{run}/output", self.output, methods=["GET"]),
            Route(f"{run}/cancel", self.cancel, methods=["POST"]),
            Route(f"{run}/hold", self.hold, methods=["POST"]),
            Route(f"{run}/resume", self.resume, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """Runs, newest first, a page at a time."""
        query = read_query(request, ListQuery, lists=frozenset({"state"}))
        runs = await self._service(request).list_runs(query.filter())
        return page_of(request, [run_view(run) for run in runs], query.limit, before=runs[-1].id if runs else None)

    async def add(self, request: Request) -> Response:
        """Ask for a run of a job now."""
        wanted = await read_body(request, RunRequest)
        return await ask(self._service(request), wanted.job_id, wanted)

    async def show(self, request: Request) -> Response:
        """A run and its newest attempts."""
        query = read_query(request, AttemptsQuery)
        return answer(run_details_view(await self._service(request).get_run(_run_id(request), query.before)))

    async def output(self, request: Request) -> Response:
        """The output of an attempt, as far as it is known; null if nothing is."""
        query = read_query(request, OutputQuery)
        output = await self._service(request).output(_run_id(request), query.attempt)
        return answer(None if output is None else output_view(output))

    async def cancel(self, request: Request) -> Response:
        """Cancel a run; if it runs, its node ends it."""
        wanted = await read_body(request, CancelRequest)
        return answer(run_view(await self._service(request).cancel(_run_id(request), wanted.reason)))

    async def hold(self, request: Request) -> Response:
        """Hold a run that has not started."""
        wanted = await read_body(request, HoldRequest)
        return answer(run_view(await self._service(request).hold(_run_id(request), wanted.reason)))

    async def resume(self, request: Request) -> Response:
        """Resume a held run."""
        await read_body(request, NoRequest)
        return answer(run_view(await self._service(request).resume_run(_run_id(request))))


def _state(word: str) -> RunState:
    try:
        return RunState(word)
    except ValueError:
        allowed = f"one of {', '.join(RunState)}"
        raise InvalidInput(
            f"state: {word!r} is not a run's state", field="state", value=word, allowed=allowed
        ) from None


def _run_id(request: Request) -> str:
    run_id: str = request.path_params["run_id"]
    return run_id
