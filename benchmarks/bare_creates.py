"""The least that keeps a job or a run that somebody asks for over HTTP: `python -m benchmarks.bare_creates URL`.

`POST /api/v2/jobs` and `POST /api/v2/runs` carry out the statements that a node's door carries out for them, through
the same connections and in the same shared commits (Tokimori's store), the entry of the audit log among them. Nothing
is checked, and the answer is always the same one.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import uvicorn
from msgspec import json
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.bare_starlette import Announced
from tokimori.clock import SystemClock
from tokimori.model.audit import KIND, AuditEntry, encode_entry, name_of
from tokimori.model.document import Document, new_version
from tokimori.model.ids import JobId, RunId, new_incarnation, uuid7
from tokimori.model.job import Job
from tokimori.model.run import manual_origin
from tokimori.ports.store import Store
from tokimori.randomness import Randomness
from tokimori.service.definitions.requests import read_request, requested_run
from tokimori.service.views.jobs import Job as JobView
from tokimori.service.views.runs import Run
from tokimori.stores.open import open_store

CLOCK, RANDOM = SystemClock(), Randomness()
EXAMPLE = JobId("j")
"""A job that is there: new ones are such as it is, and runs are asked for of it."""
Create = Callable[[Request], Awaitable[Response]]


def creates_jobs(store: Store, example: Job) -> Create:
    """A job of the id that the body says, and an entry of the log."""
    said = {"state": example.state, "reason": None, "definition": example.definition}
    answered, entry = json.encode(JobView.made(example)), _entry("add", said)

    async def create(request: Request) -> Response:
        body = json.decode(await request.body())
        job = replace(example, id=JobId(body["id"]), incarnation=new_incarnation(RANDOM))
        await store.add_jobs([job])
        await store.put_document(_document(entry), None)
        return Response(answered, 201, media_type="application/json")

    return create


def creates_runs(store: Store, example: Job) -> Create:
    """Its job is read; a run at the moment that the body of the first request says, and an entry of the log."""
    request = read_request(None, None, {"at": "2099-01-01T00:00:00Z"})
    wanted = requested_run(example, request, _run_id(), CLOCK.now(), None)
    answered, entry = json.encode(Run.made(wanted)), _entry("ask", {"run": wanted.id, "became": "made"})

    async def create(request: Request) -> Response:
        body = json.decode(await request.body())
        await store.get_job(JobId(body["job_id"]))
        now, run_id = CLOCK.now(), _run_id()
        await store.add_run(replace(wanted, id=run_id, origin=manual_origin(run_id), created=now), now)
        await store.put_document(_document(entry), None)
        return Response(answered, 201, media_type="application/json")

    return create


def _run_id() -> RunId:
    return RunId(uuid7(CLOCK.now(), RANDOM))


def _entry(what: str, after: object) -> str:
    return encode_entry(AuditEntry(at=CLOCK.now(), who="http", what=what, of="job j", after=after))


def _document(entry: str) -> Document:
    return Document(kind=KIND, name=name_of(CLOCK.now(), RANDOM), text=entry, version=new_version(RANDOM))


async def main(url: str) -> None:
    """Answer until told to stop."""
    store = open_store(url, CLOCK)
    await store.open()
    doors = await store.for_doors()
    example = await doors.get_job(EXAMPLE)
    creates = {"jobs": creates_jobs(doors, example), "runs": creates_runs(doors, example)}
    routes = [Route(f"/api/v2/{kind}", create, methods=["POST"]) for kind, create in creates.items()]
    config = uvicorn.Config(Starlette(routes=routes), port=0, http="httptools", loop="asyncio", access_log=False)
    await Announced(config).serve()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
