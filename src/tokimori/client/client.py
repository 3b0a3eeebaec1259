"""The client for synchronous programs, made from the asynchronous one: each of its methods is one line here."""

from collections.abc import Callable
from copy import copy
from types import TracebackType
from typing import Self, Unpack

from tokimori.client.asynchronous import AsyncClient, client_maker
from tokimori.client.facade import Background, Facade, Runner, iterated, synchronous
from tokimori.client.locks import Locking, SyncLock
from tokimori.client.transactions import add_within, check_connection
from tokimori.locks.holdings import Wanted
from tokimori.model.run import Run
from tokimori.service.arguments import Payload, RequestArguments
from tokimori.service.audit import Audit as AsyncAudit
from tokimori.service.calendars import Calendars as AsyncCalendars
from tokimori.service.channels.channels import Channels as AsyncChannels
from tokimori.service.claims import Claims as AsyncClaims
from tokimori.service.events.events import Events as AsyncEvents
from tokimori.service.expectations import Expectations as AsyncExpectations
from tokimori.service.given import check_author
from tokimori.service.orders import Orders as AsyncOrders
from tokimori.service.queues import Queues as AsyncQueues
from tokimori.service.secrets import Secrets as AsyncSecrets
from tokimori.service.semaphores import Semaphores as AsyncSemaphores
from tokimori.service.tasks import Tasks as AsyncTasks
from tokimori.service.tokens import Tokens as AsyncTokens


class Calendars(Facade[AsyncCalendars]):
    """Calendars: named days off, and the jobs that use them."""

    add = synchronous(AsyncCalendars.add)
    get = synchronous(AsyncCalendars.get)
    list = synchronous(AsyncCalendars.list)
    update = synchronous(AsyncCalendars.update)
    delete = synchronous(AsyncCalendars.delete)
    jobs = synchronous(AsyncCalendars.jobs)


class Channels(Facade[AsyncChannels]):
    """Channels: messages to whoever subscribes to a topic."""

    publish = synchronous(AsyncChannels.publish)
    read = synchronous(AsyncChannels.read)
    acknowledge = synchronous(AsyncChannels.acknowledge)
    forget = synchronous(AsyncChannels.forget)
    subscribe = iterated(AsyncChannels.subscribe)


class Claims(Facade[AsyncClaims]):
    """Claims: runs for a worker outside of nodes, and what it says of them."""

    claim = synchronous(AsyncClaims.claim)
    heartbeat = synchronous(AsyncClaims.heartbeat)
    finish = synchronous(AsyncClaims.finish)
    fail = synchronous(AsyncClaims.fail)
    retry = synchronous(AsyncClaims.retry)
    release = synchronous(AsyncClaims.release)
    hold = synchronous(AsyncClaims.hold)


class Orders(Facade[AsyncOrders]):
    """Orders to runs, jobs and nodes, which nodes hear with their next beat."""

    restart = synchronous(AsyncOrders.restart)
    signal = synchronous(AsyncOrders.signal)
    restart_job = synchronous(AsyncOrders.restart_job)
    cancel_job = synchronous(AsyncOrders.cancel_job)
    cancel_some = synchronous(AsyncOrders.cancel_some)
    drain = synchronous(AsyncOrders.drain)
    resume = synchronous(AsyncOrders.resume)
    stop = synchronous(AsyncOrders.stop)


class Queues(Facade[AsyncQueues]):
    """Queues: the list of them, and pausing one of them or everything."""

    list = synchronous(AsyncQueues.list)
    get = synchronous(AsyncQueues.get)
    pauses = synchronous(AsyncQueues.pauses)
    pause = synchronous(AsyncQueues.pause)
    resume = synchronous(AsyncQueues.resume)


class Secrets(Facade[AsyncSecrets]):
    """Secrets: values that jobs name, and nobody is shown again."""

    set = synchronous(AsyncSecrets.set)
    list = synchronous(AsyncSecrets.list)
    delete = synchronous(AsyncSecrets.delete)
    rotate = synchronous(AsyncSecrets.rotate)


class Semaphores(Facade[AsyncSemaphores]):
    """Semaphores as people see them. To hold units of one use `Client.semaphore`."""

    list = synchronous(AsyncSemaphores.list)
    get = synchronous(AsyncSemaphores.get)
    set = synchronous(AsyncSemaphores.set)
    delete = synchronous(AsyncSemaphores.delete)


class Audit(Facade[AsyncAudit]):
    """The audit log: who has changed what, over HTTP, on the command line and in programs."""

    list = synchronous(AsyncAudit.list)


class Tasks(Facade[AsyncTasks]):
    """Tasks as code: builds of them, and the jobs that run these."""

    put_piece = synchronous(AsyncTasks.put_piece)
    build = synchronous(AsyncTasks.build)
    builds = synchronous(AsyncTasks.builds)
    rollback = synchronous(AsyncTasks.rollback)
    list = synchronous(AsyncTasks.list)
    get = synchronous(AsyncTasks.get)
    state = synchronous(AsyncTasks.state)
    disable = synchronous(AsyncTasks.disable)
    enable = synchronous(AsyncTasks.enable)
    resolve = synchronous(AsyncTasks.resolve)
    restart = synchronous(AsyncTasks.restart)
    delete = synchronous(AsyncTasks.delete)
    log = synchronous(AsyncTasks.log)


class Events(Facade[AsyncEvents]):
    """Events: what becomes of runs, and what is changed, a page at a time, or for ever."""

    read = synchronous(AsyncEvents.read)
    read_all = synchronous(AsyncEvents.read_all)
    follow = iterated(AsyncEvents.follow)
    follow_all = iterated(AsyncEvents.follow_all)


class Expectations(Facade[AsyncExpectations]):
    """Expectations: what is to end well within a time, here or elsewhere. To report use `Client.ping`."""

    set = synchronous(AsyncExpectations.set)
    get = synchronous(AsyncExpectations.get)
    list = synchronous(AsyncExpectations.list)
    delete = synchronous(AsyncExpectations.delete)


class Tokens(Facade[AsyncTokens]):
    """Tokens: who may come through the doors of all nodes, and as what."""

    create = synchronous(AsyncTokens.create)
    list = synchronous(AsyncTokens.list)
    revoke = synchronous(AsyncTokens.revoke)


class Client(Facade[AsyncClient], Locking[SyncLock]):
    """Jobs, runs and locks of one store: `with tokimori.open(url) as client:`. See `AsyncClient`.

    It may be shared between threads, and survives a fork.
    """

    def __init__(self, new_client: Callable[[], AsyncClient]) -> None:
        self._background = Background(new_client)
        self._act_through(self._background.run)

    def _act_through(self, run: Runner[AsyncClient]) -> None:
        super().__init__(run)
        self.calendars = Calendars(lambda act: run(lambda client: act(client.calendars)))
        self.channels = Channels(lambda act: run(lambda client: act(client.channels)))
        self.claims = Claims(lambda act: run(lambda client: act(client.claims)))
        self.orders = Orders(lambda act: run(lambda client: act(client.orders)))
        self.queues = Queues(lambda act: run(lambda client: act(client.queues)))
        self.secrets = Secrets(lambda act: run(lambda client: act(client.secrets)))
        self.semaphores = Semaphores(lambda act: run(lambda client: act(client.semaphores)))
        self.events = Events(lambda act: run(lambda client: act(client.events)))
        self.expectations = Expectations(lambda act: run(lambda client: act(client.expectations)))
        self.audit = Audit(lambda act: run(lambda client: act(client.audit)))
        self.tasks = Tasks(lambda act: run(lambda client: act(client.tasks)))
        self.tokens = Tokens(lambda act: run(lambda client: act(client.tokens)))

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
