"""The paths by which the jobs of other schedulers come in: `/api/v2/import/…`, for what was read from their stores."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.acting import ServiceFor
from tokimori.api.answers import answer
from tokimori.api.operation import Operation
from tokimori.errors import InvalidFile
from tokimori.model.job import Definition
from tokimori.schedules.zones import check_zone
from tokimori.service.asking import MOST_LISTED
from tokimori.service.definitions import fields_of
from tokimori.service.imports import Start

Rows = Annotated[tuple[dict[str, Any], ...], Meta(max_length=MOST_LISTED)]
"""Rows of a table, by column: what is binary there as a text."""
MOST_FILES = 2_000
MOST_FAULTS = 20


class MoveRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`dry_run`: jobs are only read and shown. `skip_refused`: those that can't be moved are left out."""

    dry_run: bool = False
    skip_refused: bool = False


class KoyomiRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of Koyomi's tables, with the `time_zone` of its configuration. Ids are `prefix`-1, `prefix`-2 …"""

    jobs: Rows
    job_times: Annotated[tuple[dict[str, Any], ...], Meta(max_length=20 * MOST_LISTED)] = ()
    semaphores: Rows = ()
    time_zone: str = "UTC"
    prefix: str = "koyomi"


class PerfectSchedRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of PerfectSched's table; `table` becomes the queue of the jobs. `retry_wait` is in seconds."""

    rows: Rows
    table: str = "schedules"
    retry_wait: Annotated[float, Meta(ge=0)] = 300


class KeijiRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of Keiji's table `task_models`, with the TIME_ZONE of its settings."""

    task_models: Rows
    time_zone: str = "UTC"


class SystemdRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unit files by name: timers, their services, drop-ins as NAME.d/FILE.conf.

    With `host` only nodes on that host run the jobs; those whose service names no user run as `user`.
    """

    files: Annotated[dict[str, str], Meta(max_length=MOST_FILES)]
    time_zone: str = "UTC"
    host: str | None = None
    user: str | None = None


class KalaRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Kala answers to `GET /api/v1/job/`: jobs by id."""

    jobs: Annotated[dict[str, dict[str, Any]], Meta(max_length=MOST_LISTED)]


class KojoRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of Kōjō's tables. With a `command` its words, class and method are run, else functions CLASS::METHOD."""

    kojo_job_type: Rows
    kojo_job: Rows = ()
    command: tuple[str, ...] = ()


class ApschedulerRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of APScheduler's table: `id`, and `job_state` in Base64, which is read as data.

    `parameters` are the names of a function's parameters, for jobs with args.
    """

    rows: Rows
    parameters: dict[str, tuple[str, ...]] = {}


class CeleryRequest(MoveRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of django-celery-beat's tables, by the kind of schedule; `parameters` as of APScheduler."""

    periodictask: Rows
    crontab: Rows = ()
    interval: Rows = ()
    clocked: Rows = ()
    solar: Rows = ()
    parameters: dict[str, tuple[str, ...]] = {}


class NotMovedView(Struct, frozen=True, kw_only=True):
    """An entry that became no job: where it was read, and why."""

    place: str
    why: str


class MovedJobView(Struct, frozen=True, kw_only=True):
    """A job as `job_add` takes it, how it goes on, and what of it has no equal here."""

    fields: dict[str, Any]
    start: Start
    warnings: tuple[str, ...]


class MoveView(Struct, frozen=True, kw_only=True):
    """What became of the entries: ids of jobs, and what was refused, or left out as it does not run there either."""

    added: tuple[str, ...]
    unchanged: tuple[str, ...]
    refused: tuple[NotMovedView, ...]
    left_out: tuple[NotMovedView, ...]
    jobs: dict[str, MovedJobView]


class Found(NamedTuple):
    """A job that was read."""

    job_id: str
    definition: Definition
    start: Start
    runs_remaining: int | None
    warnings: tuple[str, ...]


class Read(NamedTuple):
    """What was read: jobs, and what became none, with place and reason."""

    jobs: Sequence[Found]
    refused: Sequence[tuple[str, str]]
    left_out: Sequence[tuple[str, str]]


class Readers(NamedTuple):
    """What reads the entries of other schedulers."""

    koyomi: Callable[[KoyomiRequest], Read]
    perfectsched: Callable[[PerfectSchedRequest], Read]
    keiji: Callable[[KeijiRequest], Read]
    systemd: Callable[[SystemdRequest], Read]
    kala: Callable[[KalaRequest], Read]
    kojo: Callable[[KojoRequest], Read]
    apscheduler: Callable[[ApschedulerRequest], Read]
    celery: Callable[[CeleryRequest], Read]


class Moving:
    """The part of the API for jobs of other schedulers. What takes long is done in a thread, one at a time."""

    def __init__(self, service: ServiceFor, readers: Readers) -> None:
        self._service = service
        self._readers = readers
        self._turn = asyncio.Lock()

    def operations(self) -> Sequence[Operation]:
        """The operations of this part."""
        into = "/api/v2/import"
        return [
            Operation("import_koyomi", "POST", f"{into}/koyomi", self.koyomi, MoveView, example=_KOYOMI),
            Operation(
                "import_perfectsched", "POST", f"{into}/perfectsched", self.perfectsched, MoveView, example=_SCHEDULES
            ),
            Operation("import_keiji", "POST", f"{into}/keiji", self.keiji, MoveView, example=_KEIJI),
            Operation("import_systemd", "POST", f"{into}/systemd", self.systemd, MoveView, example=_SYSTEMD),
            Operation("import_kala", "POST", f"{into}/kala", self.kala, MoveView, example=_KALA),
            Operation("import_kojo", "POST", f"{into}/kojo", self.kojo, MoveView, example=_KOJO),
            Operation(
                "import_apscheduler", "POST", f"{into}/apscheduler", self.apscheduler, MoveView, example=_APSCHEDULER
            ),
            Operation("import_celery", "POST", f"{into}/celery", self.celery, MoveView, example=_CELERY),
        ]

    async def koyomi(self, request: Request, body: KoyomiRequest) -> Response:
        """Import jobs of Koyomi: all entries are read before anything is added. Jobs that exist stay as they are."""
        check_zone(body.time_zone, field="time_zone")
        return await self._moved(request, body, lambda: self._readers.koyomi(body))

    async def perfectsched(self, request: Request, body: PerfectSchedRequest) -> Response:
        """Import schedules of PerfectSched, with the slots that were missed; else as `import_koyomi`."""
        return await self._moved(request, body, lambda: self._readers.perfectsched(body))

    async def keiji(self, request: Request, body: KeijiRequest) -> Response:
        """Import tasks of Keiji, which run the programs that it has built; else as `import_koyomi`."""
        check_zone(body.time_zone, field="time_zone")
        return await self._moved(request, body, lambda: self._readers.keiji(body))

    async def systemd(self, request: Request, body: SystemdRequest) -> Response:
        """Import timers of systemd with their services; else as `import_koyomi`."""
        check_zone(body.time_zone, field="time_zone")
        return await self._moved(request, body, lambda: self._readers.systemd(body))

    async def kala(self, request: Request, body: KalaRequest) -> Response:
        """Import jobs of Kala under their ids, with those that follow them; else as `import_koyomi`."""
        return await self._moved(request, body, lambda: self._readers.kala(body))

    async def kojo(self, request: Request, body: KojoRequest) -> Response:
        """Import job types of Kōjō, and jobs that still wait for their time; else as `import_koyomi`."""
        return await self._moved(request, body, lambda: self._readers.kojo(body))

    async def apscheduler(self, request: Request, body: ApschedulerRequest) -> Response:
        """Import jobs of APScheduler 3, of whose pickles nothing is run; else as `import_koyomi`."""
        return await self._moved(request, body, lambda: self._readers.apscheduler(body))

    async def celery(self, request: Request, body: CeleryRequest) -> Response:
        """Import periodic tasks of Celery beat; else as `import_koyomi`."""
        return await self._moved(request, body, lambda: self._readers.celery(body))

    async def _moved(self, request: Request, wish: MoveRequest, read: Callable[[], Read]) -> Response:
        async with self._turn:
            await self._service(request).now()  # nothing is read for who may read nothing
            found = await asyncio.to_thread(read)
            if found.refused and not wish.skip_refused:
                raise InvalidFile(_faults(found.refused), field="source", allowed="skip_refused, to go on without them")
            added, unchanged = await self._added(request, found.jobs, wish)
        view = MoveView(
            added=added,
            unchanged=unchanged,
            refused=_not_moved(found.refused),
            left_out=_not_moved(found.left_out),
            jobs={
                each.job_id: MovedJobView(
                    fields=dict(fields_of(each.definition)), start=each.start, warnings=each.warnings
                )
                for each in found.jobs
            },
        )
        return answer(view)

    async def _added(
        self, request: Request, jobs: Sequence[Found], wish: MoveRequest
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        added: tuple[str, ...] = ()
        unchanged: tuple[str, ...] = ()
        for begin in range(0, 0 if wish.dry_run else len(jobs), MOST_LISTED):  # a page in a transaction
            page = jobs[begin : begin + MOST_LISTED]
            pairs = [(each.job_id, each.definition) for each in page]
            starts = {each.job_id: each.start for each in page}
            limits = {each.job_id: each.runs_remaining for each in page if each.runs_remaining is not None}
            done = await self._service(request).import_all(pairs, runs_remaining=limits, starts=starts)
            added, unchanged = (*added, *done.added), (*unchanged, *done.unchanged)
        return added, unchanged


def _faults(refused: Sequence[tuple[str, str]]) -> str:
    lines = [f"{place}: {why}" for place, why in refused[:MOST_FAULTS]]
    more = [f"… and {len(refused) - MOST_FAULTS} more faults"] if len(refused) > MOST_FAULTS else []
    return "\n".join([*lines, *more, "nothing was imported"])


def _not_moved(found: Iterable[tuple[str, str]]) -> tuple[NotMovedView, ...]:
    return tuple(NotMovedView(place=place, why=why) for place, why in found)


_KOYOMI = {
    "jobs": [{"id": 1, "user": "", "command": "make report", "memo": ""}],
    "job_times": [
        {"job_id": 1, "year": "*", "month": "*", "day": "*", "hour": "3", "minute": "0", "weekday": "*"},
    ],
    "dry_run": True,
}
_SCHEDULES = {
    "rows": [
        {
            "id": "sched-id",
            "timeout": 1_900_000_030,
            "next_time": 1_900_000_000,
            "cron": "0 * * * *",
            "delay": 30,
            "data": '{"type":"type1","key":"value"}',
            "timezone": "Asia/Tokyo",
        }
    ],
    "dry_run": True,
}
_KEIJI = {
    "task_models": [
        {
            "id": 1,
            "name": "ping_google",
            "slug": "ping_google",
            "description": "pings google",
            "schedule_info": '{"units":"seconds","interval":10}',
            "executable": "/home/ann/.keiji/exec/tasks/ping_google.bin",
        }
    ],
    "dry_run": True,
}
_SYSTEMD = {
    "files": {
        "report.timer": "[Timer]\nOnCalendar=daily\n",
        "report.service": "[Service]\nType=oneshot\nExecStart=/usr/bin/make report\n",
    },
    "dry_run": True,
}
_KALA = {
    "jobs": {
        "93b65499-b211-49ce-57e0-19e735cc5abd": {
            "id": "93b65499-b211-49ce-57e0-19e735cc5abd",
            "name": "test_job",
            "command": "bash /tmp/example.sh",
            "schedule": "R2/2030-06-04T19:25:16-07:00/PT10S",
        }
    },
    "dry_run": True,
}
_KOJO = {
    "kojo_job_type": [
        {
            "type_code": "queue_reader",
            "name": "Queue reader",
            "worker_uri": "\\Acme\\Reader",
            "worker_method": "work",
            "can_work_in_parallel": True,
            "cron_expression": "* * * * *",
            "schedule_limit": 5,
            "schedule_limit_allowance": 5,
            "is_enabled": True,
            "auto_complete_success": True,
            "auto_delete_interval_duration": "PT1H",
        }
    ],
    "dry_run": True,
}
_APSCHEDULER: dict[str, Any] = {"rows": [], "dry_run": True}
_CELERY = {
    "periodictask": [{"id": 1, "name": "ping", "task": "shop.tasks.ping", "interval_id": 1}],
    "interval": [{"id": 1, "every": 10, "period": "seconds"}],
    "dry_run": True,
}
