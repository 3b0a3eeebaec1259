"""The Redis store: one method is one script, which the server runs beside nothing else."""

from collections.abc import Sequence
from functools import partial
from os import urandom

from tokimori.clock import Clock, Moment
from tokimori.ports.nodes import Beat, Pulse
from tokimori.ports.store import SchemaStatus
from tokimori.stores.notices import Notices, with_notice
from tokimori.stores.redis import copying, documents, jobs, nodes, planning, runs, semaphores, working
from tokimori.stores.redis.address import RedisAddress
from tokimori.stores.redis.connections import RedisConnections, listen, notify
from tokimori.stores.redis.schema import migrate, read_promises, status
from tokimori.stores.server_store import NotifyingStore, forwarded


class RedisStore(NotifyingStore[RedisConnections]):
    """A `Store` on a Redis or Valkey server. The server's clock is the store's; `clock` only dates migrations."""

    def __init__(self, address: RedisAddress, clock: Clock) -> None:
        self._clock = clock
        name = urandom(8).hex()
        notices = Notices(lambda words: notify(self.db, name, words), partial(listen, address, name))
        super().__init__(address.name, partial(RedisConnections, address), notices)

    async def _greet(self, db: RedisConnections) -> Sequence[str]:
        return await read_promises(db)

    async def schema(self) -> SchemaStatus:
        return await status(self.db)

    async def migrate(self) -> SchemaStatus:
        return await migrate(self.db, self._clock.now())

    add_jobs, add_runs = with_notice(forwarded(jobs.add_jobs)), with_notice(forwarded(runs.add_runs))
    family, get_job, list_jobs = forwarded(jobs.family), forwarded(jobs.get_job), forwarded(jobs.list_jobs)
    get_jobs = forwarded(jobs.get_jobs)
    list_queues, finish_moves = forwarded(jobs.list_queues), forwarded(jobs.finish_moves)
    replace_job, delete_job = with_notice(forwarded(jobs.replace_job)), with_notice(forwarded(jobs.delete_job))
    deleted_job, get_due, skips = forwarded(jobs.deleted_job), forwarded(jobs.get_due), forwarded(jobs.skips)
    put_document, get_document = forwarded(documents.put_document), forwarded(documents.get_document)
    list_documents, delete_document = forwarded(documents.list_documents), forwarded(documents.delete_document)
    add_pause, list_pauses = forwarded(planning.add_pause), forwarded(planning.list_pauses)
    delete_pause, add_run = with_notice(forwarded(planning.delete_pause)), with_notice(forwarded(runs.add_run))
    get_run, list_runs, last_runs = forwarded(runs.get_run), forwarded(runs.list_runs), forwarded(runs.last_runs)
    ended_since, runs_of, attempts = forwarded(runs.ended_since), forwarded(runs.runs_of), forwarded(runs.attempts)
    tallies, ended_among = forwarded(runs.tallies), forwarded(runs.ended_among)
    output, promote, outputs_with = forwarded(runs.output), forwarded(planning.promote), forwarded(runs.outputs_with)
    _cancelled, hold_run = forwarded(runs.cancel_run), with_notice(forwarded(runs.hold_run))
    hasten_run, resume_run = with_notice(forwarded(runs.hasten_run)), with_notice(forwarded(runs.resume_run))
    due, _apply, outdated = forwarded(planning.due), forwarded(planning.apply), forwarded(planning.outdated)
    now, register = forwarded(nodes.now), forwarded(nodes.register)

    async def tick(self, beat: Beat, now: Moment) -> Pulse | None:
        return await nodes.tick(self.beats, beat)

    survey, bury, leave = forwarded(nodes.survey), forwarded(nodes.bury), forwarded(nodes.leave)
    orphans, list_nodes = forwarded(nodes.orphans), forwarded(nodes.list_nodes)
    _claim, _settle = forwarded(working.claim), forwarded(working.settle)
    put_semaphore = with_notice(forwarded(semaphores.put_semaphore))
    list_semaphores, get_semaphore = forwarded(semaphores.list_semaphores), forwarded(semaphores.get_semaphore)
    delete_semaphore, acquire = forwarded(semaphores.delete_semaphore), forwarded(semaphores.acquire)
    release, save_outputs = with_notice(forwarded(semaphores.release)), forwarded(working.save_outputs)
    export_rows, import_rows = forwarded(copying.export_rows), forwarded(copying.import_rows)
    prune, deleted_jobs = forwarded(runs.prune), forwarded(runs.deleted_jobs)
    prune_nodes, counts = forwarded(runs.prune_nodes), forwarded(runs.counts)
