"""The parts of the client over the HTTP door of a node: each method is the one of the part on a store, by name."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from tokimori.client.door import Door
from tokimori.service.audit import Audit
from tokimori.service.calendars import Calendars
from tokimori.service.calls import Method
from tokimori.service.channels.channels import Channels
from tokimori.service.claims import Claims
from tokimori.service.events.events import Events
from tokimori.service.expectations import Expectations
from tokimori.service.orders import Orders
from tokimori.service.queues import Queues
from tokimori.service.secrets import Secrets
from tokimori.service.semaphores import Semaphores
from tokimori.service.tasks import Tasks
from tokimori.service.tokens import Tokens

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Behind = TypeVar("_Behind")


class _Calling(Protocol):
    async def _call(self, method: Method, args: tuple[object, ...], kwargs: dict[str, object]) -> Any: ...


def asked(
    method: Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Behind, _P], Coroutine[Any, Any, _T]]:
    """Return the same method, carried out by a node."""

    @wraps(method)
    async def call(behind: _Behind, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        result: _T = await cast(_Calling, behind)._call(method, args, kwargs)
        return result

    return call


class HttpCalendars(Calendars):
    """See `Calendars`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("calendars")

    add = asked(Calendars.add)
    get = asked(Calendars.get)
    list = asked(Calendars.list)
    update = asked(Calendars.update)
    delete = asked(Calendars.delete)
    jobs = asked(Calendars.jobs)


class HttpChannels(Channels):
    """See `Channels`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("channels")

    publish = asked(Channels.publish)
    read = asked(Channels.read)
    acknowledge = asked(Channels.acknowledge)
    forget = asked(Channels.forget)


class HttpClaims(Claims):
    """See `Claims`: the place is the node's door."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("claims")

    claim = asked(Claims.claim)
    heartbeat = asked(Claims.heartbeat)
    finish = asked(Claims.finish)
    fail = asked(Claims.fail)
    retry = asked(Claims.retry)
    release = asked(Claims.release)
    hold = asked(Claims.hold)


class HttpOrders(Orders):
    """See `Orders`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("orders")

    restart = asked(Orders.restart)
    signal = asked(Orders.signal)
    restart_job = asked(Orders.restart_job)
    cancel_job = Orders.cancel_job
    cancel_some = asked(Orders.cancel_some)
    drain = asked(Orders.drain)
    resume = asked(Orders.resume)
    stop = asked(Orders.stop)


class HttpQueues(Queues):
    """See `Queues`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("queues")

    list = asked(Queues.list)
    get = asked(Queues.get)
    pauses = asked(Queues.pauses)
    pause = asked(Queues.pause)
    resume = asked(Queues.resume)


class HttpSecrets(Secrets):
    """See `Secrets`: the keys are the node's."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("secrets")

    set = asked(Secrets.set)
    list = asked(Secrets.list)
    delete = asked(Secrets.delete)
    rotate = asked(Secrets.rotate)


class HttpSemaphores(Semaphores):
    """See `Semaphores`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("semaphores")

    list = asked(Semaphores.list)
    get = asked(Semaphores.get)
    set = asked(Semaphores.set)
    delete = asked(Semaphores.delete)


class HttpAudit(Audit):
    """See `Audit`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("audit")

    list = asked(Audit.list)


class HttpTasks(Tasks):
    """See `Tasks`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("tasks")

    put_piece = asked(Tasks.put_piece)
    build = asked(Tasks.build)
    builds = asked(Tasks.builds)
    rollback = asked(Tasks.rollback)
    list = asked(Tasks.list)
    get = asked(Tasks.get)
    state = asked(Tasks.state)
    disable = asked(Tasks.disable)
    enable = asked(Tasks.enable)
    resolve = asked(Tasks.resolve)
    restart = asked(Tasks.restart)
    delete = asked(Tasks.delete)
    log = asked(Tasks.log)


class HttpEvents(Events):
    """See `Events`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("events")

    read = asked(Events.read)
    read_all = asked(Events.read_all)


class HttpExpectations(Expectations):
    """See `Expectations`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("expectations")

    set = asked(Expectations.set)
    get = asked(Expectations.get)
    list = asked(Expectations.list)
    delete = asked(Expectations.delete)


class HttpTokens(Tokens):
    """See `Tokens`."""

    def __init__(self, door: Door) -> None:
        self._call = door.part("tokens")

    create = asked(Tokens.create)
    list = asked(Tokens.list)
    revoke = asked(Tokens.revoke)
