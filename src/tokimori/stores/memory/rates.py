"""Rates of semaphores, in memory: what is taken, and turns."""

from tokimori.clock import Moment
from tokimori.model.claim_rate import Taken, cut, last_in_the_way, opens_at, stored_rate, window_of
from tokimori.model.semaphores import ledger_of, made_with
from tokimori.stores.memory.tables import SemaphoreRow, Tables
from tokimori.stores.rules.rates import Rated


def made(tables: Tables, name: str, limit: int | None = None) -> SemaphoreRow:
    """Return the semaphore, which is made if it is missing."""
    units, rate = made_with(name) if limit is None else made_with(name, limit)
    return tables.semaphores.setdefault(name, SemaphoreRow(units, rate=stored_rate(rate)))


def rated_of(tables: Tables, name: str) -> Rated | None:
    """Return the rate of a semaphore, if it has one."""
    row, now = tables.semaphores[name], tables.now()
    if row.rate is None:
        return None
    taken = tables.taken[ledger_of(name)] = cut(tables.taken.get(ledger_of(name), ()), now)
    return Rated(row.rate, window_of(row.rate, taken, now), now, row.turns)


def take(tables: Tables, name: str, units: int) -> None:
    """Write that so many units were taken now, and forget what counts no more."""
    rated = rated_of(tables, name)
    if rated is not None:
        first = rated.now - rated.rate.period
        known = [each for each in tables.taken[ledger_of(name)] if each.moment > first]
        tables.taken[ledger_of(name)] = cut([*known, Taken(rated.now, units)], rated.now)


def opens(tables: Tables, name: str, rated: Rated, weight: int, before: int) -> Moment:
    """Return when so many units fit, behind so many that others are to take first."""
    in_the_way = last_in_the_way(rated.rate, tables.taken[ledger_of(name)], weight + before, rated.now)
    return opens_at(rated.rate, rated.window, in_the_way, rated.now, before)
