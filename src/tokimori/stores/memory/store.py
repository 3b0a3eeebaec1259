"""The memory store: each method yields to other tasks once, then does its work without waiting."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tokimori.clock import Clock, Moment
from tokimori.model.ids import RunId
from tokimori.ports.nodes import Beat, Pulse
from tokimori.ports.store import SchemaStatus
from tokimori.stores.memory import copying, jobs, lines, nodes, runs, semaphores, tables, working
from tokimori.stores.memory.tables import Tables
from tokimori.stores.migrations import no_script
from tokimori.stores.notices import Guarded, with_notice

P = ParamSpec("P")
T = TypeVar("T")


def forwarded(
    work: Callable[Concatenate[Tables, P], T],
) -> Callable[Concatenate["MemoryStore", P], Coroutine[Any, Any, T]]:
    """Return the method that does this work on the tables of its store, after it has yielded to other tasks."""

    @wraps(work)
    async def method(store: "MemoryStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return work(await store._turn(), *args, **kwargs)

    return method


class MemoryStore(Guarded):
    """A `Store` whose contents end with this object. `clock` is the store's own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = Tables(clock.now)
        self._watchers: list[Callable[[], None]] = []

    async def _turn(self) -> Tables:
        await asyncio.sleep(0)
        self.check(lambda each: self._tables.documents.get((each.kind, each.name)) == each)
        return self._tables

    def send_notice(self) -> None:
        """Wake the watchers, at their turn on the loop."""
        for wake in self._watchers:
            asyncio.get_running_loop().call_soon(wake)

    async def open(self) -> None:
        """See `Schema.open`."""

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def for_doors(self) -> Self:
        return self

    def mark(self) -> None:
        """Return None: a cache of this store would be no faster."""

    async def close(self) -> None:
        self._watchers.clear()

    async def schema(self) -> SchemaStatus:
        return SchemaStatus(version=1, newest=1, pending=(), oldest=1)

    async def migrate(self) -> SchemaStatus:
        return await self.schema()

    async def script(self, *, whole: bool) -> str:
        raise no_script("memory")

    async def differences(self) -> list[str]:
        raise no_script("memory")

    def faults(self) -> Sequence[str]:
        return ("memory: jobs and runs end with this process",)

    def expect(self, run_ids: Sequence[RunId], on_ends: Callable[[Sequence[RunId]], None]) -> bool:
        """See `Endings.expect`. A look costs no more than a notice."""
        return False

    def watch(self, wake: Callable[[], None]) -> None:
        self._watchers.append(wake)

    add_jobs, add_runs = with_notice(forwarded(jobs.add_jobs)), with_notice(forwarded(runs.add_runs))
    family, get_job, list_jobs = forwarded(jobs.family), forwarded(jobs.get_job), forwarded(jobs.list_jobs)
    get_jobs = forwarded(jobs.get_jobs)
    list_queues, register = forwarded(jobs.list_queues), forwarded(nodes.register)
    replace_job, delete_job = with_notice(forwarded(jobs.replace_job)), with_notice(forwarded(jobs.delete_job))
    deleted_job, get_due, skips = forwarded(jobs.deleted_job), forwarded(jobs.get_due), forwarded(jobs.skips)
    put_document, get_document = forwarded(tables.put_document), forwarded(tables.get_document)
    list_documents, delete_document = forwarded(tables.list_documents), forwarded(tables.delete_document)
    add_pause, list_pauses = forwarded(lines.add_pause), forwarded(lines.list_pauses)
    delete_pause, add_run = with_notice(forwarded(lines.delete_pause)), with_notice(forwarded(runs.add_run))
    get_run, list_runs, last_runs = forwarded(runs.get_run), forwarded(runs.list_runs), forwarded(runs.last_runs)
    ended_since, runs_of, attempts = forwarded(runs.ended_since), forwarded(runs.runs_of), forwarded(runs.attempts)
    tallies, ended_among = forwarded(runs.tallies), forwarded(runs.ended_among)
    outputs_with, output, promote = forwarded(runs.outputs_with), forwarded(runs.output), forwarded(jobs.promote)
    cancel_run, hold_run = with_notice(forwarded(runs.cancel_run)), with_notice(forwarded(runs.hold_run))
    hasten_run, resume_run = with_notice(forwarded(runs.hasten_run)), with_notice(forwarded(runs.resume_run))
    due, apply, outdated = forwarded(jobs.due), forwarded(jobs.apply), forwarded(jobs.outdated)

    async def now(self) -> Moment:
        return self._clock.now()

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        return nodes.tick(await self._turn(), beat, self._clock.now())

    survey, bury, leave = forwarded(nodes.survey), forwarded(nodes.bury), forwarded(nodes.leave)
    orphans, list_nodes = forwarded(nodes.orphans), forwarded(nodes.list_nodes)
    claim, settle, save_outputs = forwarded(working.claim), forwarded(working.settle), forwarded(working.save_outputs)
    put_semaphore = with_notice(forwarded(semaphores.put_semaphore))
    list_semaphores, get_semaphore = forwarded(semaphores.list_semaphores), forwarded(semaphores.get_semaphore)
    delete_semaphore, acquire = forwarded(semaphores.delete_semaphore), forwarded(semaphores.acquire)
    release = with_notice(forwarded(semaphores.release))
    export_rows, import_rows = forwarded(copying.export_rows), forwarded(copying.import_rows)
    prune, deleted_jobs = forwarded(runs.prune), forwarded(runs.deleted_jobs)
    prune_nodes, counts = forwarded(runs.prune_nodes), forwarded(runs.counts)

    async def finish_moves(self) -> None:
        """Do nothing: all runs have followed."""
