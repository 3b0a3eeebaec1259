"""The paths under `/api/v2/tasks`: tasks as code."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of
from tokimori.api.operation import Handler, Operation, Routes
from tokimori.api.requests import NamedDeleted, NoRequest
from tokimori.errors import InvalidInput
from tokimori.model.build import LARGEST, MAIN, MOST_PIECES, Manifest, digest_of, frozen, pieces_of
from tokimori.model.task import BuildRecord
from tokimori.service.tasks.tasks import MOST_LINES
from tokimori.service.validation import MOST_LISTED
from tokimori.service.views.tasks import LogLine, TaskBuild, TaskDetails, TaskState


class TaskQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first `limit` tasks by name, from the one behind `after`."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class TaskLogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number of the last lines to show."""

    lines: Annotated[int, Meta(ge=1, le=MOST_LINES)] = 100


class Piece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a build: at most 192 KiB, in base64."""

    piece: str


class StoredPiece(Struct, frozen=True, kw_only=True):
    """A piece of a build that is stored."""

    digest: str
    number: int


class NewBuild(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A build whose pieces are uploaded: its SHA-256, the number of its bytes and pieces, and its fields of the job.

    `restart`: running runs of the task are ended, and one starts anew.
    """

    digest: str
    size: Annotated[int, Meta(ge=1, le=LARGEST)]
    pieces: Annotated[int, Meta(ge=1, le=MOST_PIECES)]
    schedule: str | None = None
    terms: dict[str, Any] = {}
    description: str | None = None
    dependencies: tuple[str, ...] = ()
    restart: bool = False

    def record(self) -> BuildRecord:
        """Return the build as the service takes it."""
        return BuildRecord(
            digest=self.digest,
            size=self.size,
            pieces=self.pieces,
            schedule=self.schedule,
            terms=self.terms,
            description=self.description,
            dependencies=self.dependencies,
        )


class Rollback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """To which build: the beginning of its `digest`; null: to the one before."""

    digest: str | None = None


class TaskDeletion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Deletion of a task; `now`: its runs are cancelled."""

    now: bool = False


class TaskRoutes(Routes):
    """The part of the API for tasks as code."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        every, one = "/api/v2/tasks", "/api/v2/tasks/{name}"
        piece, made = _example()
        orders: Sequence[tuple[str, Handler]] = (
            ("pause", self.pause),
            ("resume", self.resume),
            ("resolve", self.resolve),
            ("restart", self.restart),
        )
        return [
            Operation("task_list", "GET", every, self.list, list[TaskDetails], asked={"limit": 20}),
            Operation("task_show", "GET", one, self.show, TaskState),
            Operation("task_delete", "DELETE", one, self.delete, NamedDeleted),
            Operation("task_builds", "GET", f"{one}/builds", self.builds, list[TaskBuild]),
            Operation("task_build", "POST", f"{one}/builds", self.build, TaskDetails, example=made),
            Operation(
                "task_put_piece",
                "PUT",
                f"{one}/builds/{{digest}}/{{number}}",
                self.put_piece,
                StoredPiece,
                example=piece,
            ),
            Operation("task_rollback", "POST", f"{one}/rollback", self.rollback, TaskDetails, example={}),
            Operation("task_logs", "GET", f"{one}/log", self.logs, list[LogLine], asked={"lines": 20}),
            *(
                Operation(f"task_{order}", "POST", f"{one}/{order}", handler, TaskDetails, example={})
                for order, handler in orders
            ),
        ]

    async def list(self, request: Request, query: TaskQuery) -> Response:
        """List tasks by name, with their jobs."""
        found = await self._service(request).tasks.list(query.after, query.limit)
        more = len(found) == query.limit
        last = found[-1].record.name if found else None
        return page_of(request, [TaskDetails.made(each) for each in found], more=more, after=last)

    async def show(self, request: Request, name: str) -> Response:
        """Return a task with its builds, its job and its newest runs."""
        return answer(TaskState.made(await self._service(request).tasks.state(name)))

    async def delete(self, request: Request, name: str, query: TaskDeletion) -> Response:
        """Delete a task with its job and its builds. Running runs go on, or are cancelled with `now`."""
        await self._service(request).tasks.delete(name, now=query.now)
        return answer(NamedDeleted(name=name, deleted=True))

    async def builds(self, request: Request, name: str) -> Response:
        """Return the stored builds of a task, the newest first."""
        return answer([TaskBuild.made(each) for each in await self._service(request).tasks.builds(name)])

    async def put_piece(self, request: Request, name: str, digest: str, number: str, body: Piece) -> Response:
        """Store a piece of a future build, by number from 0. When all are there, `task_build` lets the task run it."""
        if not (number.isascii() and number.isdecimal() and len(number) < 9):
            message = f"number: {number!r} is no number"
            raise InvalidInput(message, field="number", value=number, allowed=f"0..{MOST_PIECES - 1}")
        await self._service(request).tasks.put_piece(name, digest, int(number), body.piece)
        return answer(StoredPiece(digest=digest, number=int(number)))

    async def build(self, request: Request, name: str, body: NewBuild) -> Response:
        """Let the task run this build from now on. A missing job is made; fields that the build does not set stay."""
        tasks = self._service(request).tasks
        return answer(TaskDetails.made(await tasks.build(name, body.record(), restart=body.restart)))

    async def rollback(self, request: Request, name: str, body: Rollback) -> Response:
        """Let the task run an earlier build again, with the schedule that it had."""
        return answer(TaskDetails.made(await self._service(request).tasks.rollback(name, body.digest)))

    async def logs(self, request: Request, name: str, query: TaskLogQuery) -> Response:
        """Return the last lines of the task's log: what its newest runs wrote, and what happened to it."""
        found = await self._service(request).tasks.logs(name, query.lines)
        return answer([LogLine.made(line) for line in found])

    async def pause(self, request: Request, name: str, body: NoRequest) -> Response:
        """Pause a task: none of its runs starts, and running ones go on."""
        return answer(TaskDetails.made(await self._service(request).tasks.pause(name)))

    async def resume(self, request: Request, name: str, body: NoRequest) -> Response:
        """Let the task run again."""
        return answer(TaskDetails.made(await self._service(request).tasks.resume(name)))

    async def resolve(self, request: Request, name: str, body: NoRequest) -> Response:
        """Let a task run again that a failure has parked."""
        return answer(TaskDetails.made(await self._service(request).tasks.resolve(name)))

    async def restart(self, request: Request, name: str, body: NoRequest) -> Response:
        """Cancel the running runs of the task, and trigger one in their place."""
        return answer(TaskDetails.made(await self._service(request).tasks.restart(name)))


def _example() -> tuple[dict[str, object], dict[str, object]]:
    """Return the piece of a build of the task ping_google, and the build."""
    content = frozen({MAIN: b"print('hello')\n"}, Manifest(task="ping_google"))
    made = {"digest": digest_of(content), "size": len(content), "pieces": 1, "schedule": "every 10 seconds"}
    return {"piece": pieces_of(content)[0]}, made
