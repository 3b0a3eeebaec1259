"""The client for synchronous programs, made from the asynchronous one: each of its methods is one line here."""

from collections.abc import Callable
from copy import copy
from types import TracebackType
from typing import Any, Self, Unpack

from tokimori.client.asynchronous import AsyncClient, client_maker
from tokimori.client.facade import Background, Facade, Runner, SyncVia, iterated, synchronous
from tokimori.client.locks import Locking, SyncLock
from tokimori.client.transactions import add_within, check_connection
from tokimori.locks.holdings import Wanted
from tokimori.model.run import Run
from tokimori.service.arguments import Payload, RequestArguments
from tokimori.service.audit import Audit
from tokimori.service.calendars import Calendars
from tokimori.service.calls import KINDS
from tokimori.service.channels.channels import Channels
from tokimori.service.claims import Claims
from tokimori.service.events.events import Events
from tokimori.service.expectations import Expectations
from tokimori.service.given import check_author
from tokimori.service.operation import Sync, through
from tokimori.service.orders import Orders
from tokimori.service.queues import Queues
from tokimori.service.secrets import Secrets
from tokimori.service.semaphores import Semaphores
from tokimori.service.tasks import Tasks
from tokimori.service.tokens import Tokens


class Client(Facade[AsyncClient], Locking[SyncLock]):
    """Jobs, runs and locks of one store: `with tokimori.open(url) as client:`. See `AsyncClient`.

    It may be shared between threads, and survives a fork.
    """

    audit: Audit[Sync]
    calendars: Calendars[Sync]
    channels: Channels[Sync]
    claims: Claims[Sync]
    events: Events[Sync]
    expectations: Expectations[Sync]
    orders: Orders[Sync]
    queues: Queues[Sync]
    secrets: Secrets[Sync]
    semaphores: Semaphores[Sync]
    tasks: Tasks[Sync]
    tokens: Tokens[Sync]

    def __init__(self, new_client: Callable[[], AsyncClient]) -> None:
        self._background = Background(new_client)
        self._act_through(self._background.run)

    def _act_through(self, run: Runner[AsyncClient]) -> None:
        super().__init__(run)
        for noun, kind in KINDS.items():
            setattr(self, noun, through(kind, SyncVia(_runner(run, noun))))

    add = synchronous(AsyncClient.add)
    add_since = synchronous(AsyncClient.add_since)
    import_all = synchronous(AsyncClient.import_all)
    get = synchronous(AsyncClient.get)
    list = synchronous(AsyncClient.list)
    apply = synchronous(AsyncClient.apply)
    resources = synchronous(AsyncClient.resources)
    sets = synchronous(AsyncClient.sets)
    update = synchronous(AsyncClient.update)
    edit = synchronous(AsyncClient.edit)
    refresh = synchronous(AsyncClient.refresh)
    delete = synchronous(AsyncClient.delete)
    delete_all = synchronous(AsyncClient.delete_all)
    delete_some = synchronous(AsyncClient.delete_some)
    pause = synchronous(AsyncClient.pause)
    resume = synchronous(AsyncClient.resume)
    disable, enable = pause, resume
    resolve = synchronous(AsyncClient.resolve)
    rewind = synchronous(AsyncClient.rewind)
    ask = synchronous(AsyncClient.ask)
    trigger_many = synchronous(AsyncClient.trigger_many)
    backfill = synchronous(AsyncClient.backfill)
    cancel_backfill = synchronous(AsyncClient.cancel_backfill)
    next_times = synchronous(AsyncClient.next_times)
    upcoming = synchronous(AsyncClient.upcoming)
    explain = synchronous(AsyncClient.explain)
    explain_job = synchronous(AsyncClient.explain_job)
    shown = synchronous(AsyncClient.shown)
    pauses_of = synchronous(AsyncClient.pauses_of)
    too_heavy = synchronous(AsyncClient.too_heavy)
    skips = synchronous(AsyncClient.skips)
    ledger = synchronous(AsyncClient.ledger)
    verify = synchronous(AsyncClient.verify)
    statistics = synchronous(AsyncClient.statistics)
    graph = synchronous(AsyncClient.graph)
    counts = synchronous(AsyncClient.counts)
    get_run = synchronous(AsyncClient.get_run)
    why_run = synchronous(AsyncClient.why_run)
    why_job = synchronous(AsyncClient.why_job)
    find_jobs = synchronous(AsyncClient.find_jobs)
    find_runs = synchronous(AsyncClient.find_runs)
    list_runs = synchronous(AsyncClient.list_runs)
    last_runs = synchronous(AsyncClient.last_runs)
    summaries = synchronous(AsyncClient.summaries)
    cancel = synchronous(AsyncClient.cancel)
    hold = synchronous(AsyncClient.hold)
    resume_run = synchronous(AsyncClient.resume_run)
    retry_run = synchronous(AsyncClient.retry_run)
    copy_job = synchronous(AsyncClient.copy_job)
    rename_job = synchronous(AsyncClient.rename_job)
    wait = synchronous(AsyncClient.wait)
    output = synchronous(AsyncClient.output)
    now = synchronous(AsyncClient.now)
    ping = synchronous(AsyncClient.ping)
    alarms = synchronous(AsyncClient.alarms)
    publish = synchronous(AsyncClient.publish)
    subscribe = iterated(AsyncClient.subscribe)
    nodes = synchronous(AsyncClient.nodes)
    doctor = synchronous(AsyncClient.doctor)
    schema = synchronous(AsyncClient.schema)
    migrate = synchronous(AsyncClient.migrate)
    schema_script = synchronous(AsyncClient.schema_script)
    check_schema = synchronous(AsyncClient.check_schema)
    copy_to = synchronous(AsyncClient.copy_to)

    def trigger(
        self,
        job_id: str,
        key: str | None = None,
        payload: Payload | None = None,
        *,
        connection: object = None,
        **fields: Unpack[RequestArguments],
    ) -> Run:
        """See `AsyncClient.trigger`."""
        if connection is None:
            return self._run(lambda client: client.trigger(job_id, key, payload, **fields))
        check_connection(connection)
        run, outside = self._run(lambda client: client._wanted_within(job_id, key, payload, fields))
        if outside is None:
            return run
        found = add_within(connection, run, outside)  # in this thread: a connection is for the one that has opened it
        return self._run(lambda client: client._answering(run, found))

    @property
    def time_zone(self) -> str:
        """Return the time zone of jobs that do not name one."""

        async def zone(client: AsyncClient) -> str:
            return client.time_zone

        return self._run(zone)

    def acting_as(self, author: str | None) -> Self:
        """Return the same client for another author, who is recorded with the orders given through it. Nothing is
        opened.
        """
        check_author(author)
        run, other = self._run, copy(self)
        other._act_through(lambda act: run(lambda client: act(client.acting_as(author))))
        return other

    def _lock(self, wanted: Wanted) -> SyncLock:
        return SyncLock(lambda act: self._run(lambda client: act(client._session)), wanted)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what is held, and close the store. Calls of other threads that have not returned raise `Refused`."""
        self._background.close()


def _runner(run: Runner[AsyncClient], noun: str) -> Runner[Any]:
    def behind(act: Callable[[Any], Any]) -> Any:
        return run(lambda client: act(getattr(client, noun)))

    return behind


def open(
    url: str | None = None,
    *,
    time_zone: str | None = None,
    author: str | None = None,
    semaphore_store: str | None = None,
) -> Client:
    """Return a client for the store at `url`. What is not given comes from the environment and the configuration file.

    `semaphore_store` is the URL of another store that keeps semaphores. Nothing is connected before the first call. An
    SQLite file that does not exist is made then, as `sqlite3.connect` does, and a warning is logged.
    Raises `InvalidConfig`, `InvalidInput` for a URL that names no store, and `StoreError` if its driver is not
    installed.
    """
    return Client(client_maker(url, time_zone=time_zone, author=author, semaphore_store=semaphore_store))
