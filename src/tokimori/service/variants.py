"""The same service, which does less: with another judge, time zone or bounds. Nothing is opened for it."""

from copy import copy
from typing import TypeVar

from tokimori.ports.store import Store
from tokimori.schedules.zones import check_zone
from tokimori.service.bounds import Bounds
from tokimori.service.days_off import CALENDARS
from tokimori.service.documents import Documents
from tokimori.service.jobs import JobService
from tokimori.service.judge import Beside, Judge
from tokimori.service.schema import StoreOpened
from tokimori.service.semaphores import Semaphores
from tokimori.service.set_turns import SetTurn

_Kind = TypeVar("_Kind", bound=JobService)


def judged_by(service: _Kind, judge: Judge) -> _Kind:
    """Return the same service, which makes and changes only the jobs that the judge lets pass."""
    other = copy(service)
    other._judge = judge
    other._act_as(service._author)
    return other


def turn_at(service: JobService, name: str, store: Store | None = None) -> SetTurn:
    """Return a turn at this set, in the store of the service unless another one is given."""
    return SetTurn(store or service._store, name, service._now, service._random, service._author)


async def under(service: _Kind, turn: SetTurn, apart: SetTurn | None = None) -> _Kind:
    """Return the same service, whose changes take effect only while it is this turn.

    `apart`: the turn in the store of semaphores, where they have one of their own. Raises `Conflict`.
    """
    other = copy(service)
    other._store = await turn.store()
    if apart is not None:
        other._semaphore_store = StoreOpened(await apart.store())
    other._calendars = Documents(other._store, CALENDARS, other._random)
    other.semaphores = Semaphores(other._store_of_semaphores)
    other._act_as(service._author)
    return other


def written_with(service: _Kind, beside: Beside) -> _Kind:
    """Return the same service, which writes each job together with these."""
    other = copy(service)
    other._beside = beside
    return other


def in_zone(service: _Kind, time_zone: str) -> _Kind:
    """Return the same service, where jobs that name no time zone are in this one. Raises `InvalidInput`."""
    other = copy(service)
    other.time_zone = check_zone(time_zone)
    other._act_as(service._author)
    return other


def within(service: _Kind, bounds: Bounds) -> _Kind:
    """Return the same service with these bounds of an answer: for a door, not for programs. Nothing is opened."""
    other = copy(service)
    other._bounds = bounds
    return other
