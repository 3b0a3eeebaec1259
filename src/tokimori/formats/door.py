"""Paths by which the jobs of other schedulers come in: `/api/v2/import/NAME` of each format, for rows and texts."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Operation
from tokimori.api.request_service import ServiceFor
from tokimori.clock import Clock
from tokimori.formats.format import Format, ImportRequest
from tokimori.formats.importing import at_once
from tokimori.formats.registry import FORMATS, format_of
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions.definitions import fields_of
from tokimori.service.definitions.differences import FieldChange
from tokimori.service.definitions.imports import Start


class NotMoved(Struct, frozen=True, kw_only=True):
    """An entry that became no job: where it was read, and why."""

    place: str
    why: str


class MovedJob(Struct, frozen=True, kw_only=True):
    """A job as `job_add` takes it, how it goes on, and what of it has no equal here."""

    fields: dict[str, Any]
    start: Start
    warnings: tuple[str, ...]


class ImportOutcome(Struct, frozen=True, kw_only=True):
    """Outcome of an import: ids of jobs, and what was refused, or left out as it does not run there either.

    `kept` are those that exist, differ, and stay as they are without `update`. A dry run says what would become.
    """

    added: tuple[str, ...]
    changed: dict[str, tuple[FieldChange, ...]]
    kept: dict[str, tuple[FieldChange, ...]]
    unchanged: tuple[str, ...]
    refused: tuple[NotMoved, ...]
    left_out: tuple[NotMoved, ...]
    jobs: dict[str, MovedJob]


class ImportPaths:
    """The part of the API for jobs of other schedulers. What takes long is done in a thread, one at a time."""

    def __init__(self, service: ServiceFor, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._turn = asyncio.Lock()

    def operations(self) -> Sequence[Operation]:
        """Return an operation for each format."""
        return [self._operation(name, format_of(name)) for name in FORMATS]

    def _operation(self, name: str, form: Format) -> Operation:
        async def take(request: Request, body: ImportRequest) -> Response:
            return await self.take(form, request, body)

        take.__annotations__["body"] = form.request
        take.__doc__ = (
            f"Import {form.what}.\n\nAll entries are read before anything is added. Jobs that exist stay as they are, "
            "unless they are to be updated."
        )
        return Operation(
            f"import_{name}",
            "POST",
            f"/api/v2/import/{name}",
            take,
            ImportOutcome,
            example={**form.example, "dry_run": True},
        )

    async def take(self, form: Format, request: Request, body: ImportRequest) -> Response:
        """Read the entries of a request, and add the jobs."""
        from tokimori.formats.importing import bring_in, check_refused, families_in
        from tokimori.translators.entries import Refused, without_duplicates

        check_zone(body.time_zone, field="time_zone")
        async with self._turn:
            await self._service(request).db.now()  # for callers who may read nothing, nothing is read
            found = await asyncio.to_thread(lambda: list(without_duplicates(form.read(body, self._clock.now()), {})))
            check_refused([each for each in found if isinstance(each, Refused)], body, "skip_refused")
            pages, families = at_once(lambda: found), families_in(found)
            done = await bring_in(self._service(request), pages, families, body, lambda _job, _changes: None)
        return answer(
            ImportOutcome(
                added=tuple(done.added),
                changed=done.changed,
                kept=done.kept,
                unchanged=tuple(done.unchanged),
                refused=tuple(NotMoved(place=place, why=why) for place, why in done.refused),
                left_out=tuple(NotMoved(place=place, why=why) for place, why in done.left_out),
                jobs={
                    job.job_id: MovedJob(fields=dict(fields_of(job.definition)), start=job.start, warnings=job.warnings)
                    for job in done.jobs
                },
            )
        )
