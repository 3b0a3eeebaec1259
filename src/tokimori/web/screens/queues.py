"""Queues: groups of jobs that are paused together."""

from collections.abc import Sequence
from typing import Final

from tokimori.model.claim_rate import NO_RATE
from tokimori.model.lanes import EVERYTHING
from tokimori.service.queues import Queue
from tokimori.service.service import Service
from tokimori.web.addresses import address, path
from tokimori.web.nouns import (
    Cell,
    Column,
    Noun,
    Row,
    Table,
    by,
    filters,
    has,
    paged,
    plain,
    said,
    screens_of,
    state,
    when,
)
from tokimori.web.screen import Act, Field, Given
from tokimori.web.screens.jobs import REASON
from tokimori.web.visit import Visit

MOST_COUNTED: Final = 100
_NAMES: Final = {"state": ("paused", "open")}
_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Queue", "pa"), Column("Jobs", "n pb"), Column("Rate", "n w2")),
    Column("Paused", "n pd"),
    Column("By, and why", "wide pf"),
)


async def show(visit: Visit) -> Noun:
    """Return the list of queues."""
    wanted = visit.one("state")

    async def page_of(after: str | None, limit: int) -> Sequence[Queue]:
        return await visit.lately(f"{limit} queues after {after}", lambda: visit.service.queues.list(after, limit))

    found, page = await paged(
        visit,
        page_of,
        lambda queue: queue.name,
        lambda queue: has(visit, queue.name) and wanted in (None, _state(queue)),
    )
    pauses = [each for each in await visit.service.queues.pauses() if each.queue == EVERYTHING]
    return Noun(
        [Table("Queues", _COLUMNS, [_row(visit, each) for each in found], _EMPTY, _COMMAND)],
        acts=("queues.resume" if pauses else "queues.pause",),
        on=EVERYTHING,
        suffix=" everything",
        warnings=[f"Everything is paused{_because(each.by, each.reason)}: no run starts." for each in pauses],
        filter=filters(visit, "Filter queues", _NAMES),
        page=page,
    )


_EMPTY: Final = "There are no queues yet. A job is in one that its field `queue` names:"
_COMMAND: Final = 'tokimori job add NAME --queue mail --command "…"'


def _because(who: str | None, reason: str | None) -> str:
    return plain((f" by {who}" if who else "") + (f" ({reason})" if reason else ""))


def _state(queue: Queue) -> str:
    return "paused" if queue.pauses else "open"


def _rate(queue: Queue) -> str:
    return "" if queue.rate is None else f"{queue.taken or 0} of {queue.rate}"


def _row(visit: Visit, queue: Queue) -> Row:
    own = next((each for each in queue.pauses if each.queue == queue.name), None)
    pause = own or next(iter(queue.pauses), None)
    cells = (
        state(_state(queue)),
        said(queue.name, to=path("queues", queue.name)),
        said(queue.jobs, to=address("/jobs", [("queue", queue.name)])),
        said(_rate(queue)),
        when(visit, pause.since) if pause else Cell(),
        by(pause.by, pause.reason) if pause else Cell(),
    )
    return Row(f"queue {queue.name}", cells, ("queues.resume" if own else "queues.pause",), queue.name)


async def page(visit: Visit) -> Noun:
    """Return the page of a queue."""
    name = visit.parts["queue"]
    queue = await visit.service.queues.get(name)
    is_own = any(each.queue == name for each in queue.pauses)
    return Noun(
        name=plain(name),
        says=(state(_state(queue)),),
        acts=("queues.resume" if is_own else "queues.pause", "queues.set"),
        on=name,
        warnings=[
            f"{'Everything' if each.queue == EVERYTHING else 'The queue'} is paused since "
            f"{visit.time(each.since).full}{_because(each.by, each.reason)}: no run of it starts."
            for each in queue.pauses
        ],
        facts=(
            ("Rate", said(_rate(queue))),
            ("Jobs", said(queue.jobs, to=address("/jobs", [("queue", name)]))),
            *[(word.capitalize(), await _count(visit, name, word)) for word in ("running", "ready", "blocked")],
            ("Runs", said("all", to=address("/runs", [("queue", name)]))),
        ),
        boxes=(("In a terminal", f"tokimori queue {'resume' if is_own else 'pause'} {plain(name)}"),),
    )


async def _count(visit: Visit, queue: str, word: str) -> Cell:
    """Return how many runs of the queue are in a state, that leads to them; of many only that they are many."""
    found = await visit.service.runs.list(queue=queue, state=word, limit=MOST_COUNTED, longest=0)
    many = "+" if found.next else ""
    return said(f"{len(found.runs)}{many}", to=address("/runs", [("queue", queue), ("state", word)]))


async def _set(service: Service, queue: str, given: Given) -> None:
    await service.queues.set(queue, given.get("rate", NO_RATE))


async def _current_values(service: Service, queue: str) -> Given:
    return {"rate": (await service.queues.get(queue)).rate or ""}


async def _pause(service: Service, queue: str, given: Given) -> None:
    await service.queues.pause(None if queue == EVERYTHING else queue, given.get("reason"), now="now" in given)


async def _resume(service: Service, queue: str, given: Given) -> None:
    await service.queues.resume(None if queue == EVERYTHING else queue)


_RATE: Final = "how many of its runs start in any period, such as 100/1m; empty: any number"
ACTS: Final = (
    Act("queues.set", "Set rate of", "set", _set, fields=(Field("rate", "Rate", _RATE),), fill=_current_values),
    Act("queues.resume", "Resume", "resumed", _resume),
    Act(
        "queues.pause",
        "Pause",
        "paused",
        _pause,
        fields=(REASON, Field("now", "Cancel the runs that run now", kind="check")),
        undo="queues.resume",
    ),
)
SCREENS: Final = screens_of("queues", show, page, "{queue}", names=_NAMES)
