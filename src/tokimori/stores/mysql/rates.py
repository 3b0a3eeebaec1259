"""Rates of semaphores: what is taken, and turns. The server's clock is read behind the lock of the semaphore."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate, Taken, Window, opens_at, stored_rate
from tokimori.model.semaphores import ledger_of
from tokimori.stores.mysql.sessions import Transaction
from tokimori.stores.mysql.statements import NOW, sql
from tokimori.stores.rows import Row
from tokimori.stores.rules.rates import Rated, Turns

TURNS = "rate, wakes, turn, kept, woken, until"
"""Columns of a semaphore for `rated_of`."""
WINDOW = f"""
SELECT {NOW}, n.moment, n.units, n.total - COALESCE(
    (SELECT total FROM tokimori_taken WHERE semaphore = %s AND moment <= {NOW} - %s ORDER BY moment DESC LIMIT 1),
    (SELECT total - units FROM tokimori_taken WHERE semaphore = %s ORDER BY moment LIMIT 1)), n.total
FROM (SELECT 1 AS one) one LEFT JOIN (
    SELECT moment, units, total FROM tokimori_taken WHERE semaphore = %s ORDER BY moment DESC LIMIT 1) n ON true"""
# Number of rows that say when a few units are free again; for more units the line goes on too early, and looks again.
_FIRST = f"""
SELECT moment, total FROM tokimori_taken WHERE semaphore = %s AND moment > {NOW} - %s ORDER BY moment LIMIT 200"""
_TAKE = f"""
INSERT INTO tokimori_taken (semaphore, moment, units, total) SELECT %s, {NOW}, %s, %s + COALESCE((
    SELECT total FROM tokimori_taken WHERE semaphore = %s ORDER BY moment DESC LIMIT 1), 0)
ON DUPLICATE KEY UPDATE units = units + VALUES(units), total = VALUES(total)"""
_FORGET = f"DELETE FROM tokimori_taken WHERE semaphore = %s AND moment <= {NOW} - %s"
_CUT = """
INSERT INTO tokimori_taken (semaphore, moment, units, total) SELECT semaphore, %s, SUM(units), MAX(total)
FROM tokimori_taken WHERE semaphore = %s AND moment >= %s GROUP BY semaphore
ON DUPLICATE KEY UPDATE units = VALUES(units), total = VALUES(total)"""


class Known(NamedTuple):
    """Rate of a semaphore; how many units were ever taken, and the first ones that count: their moment and the sum."""

    rated: Rated
    total: int
    first: Sequence[tuple[Moment, int]]

    def opens(self, weight: int, before: int) -> Moment:
        """Return when so many units fit, behind so many that others are to take first; or earlier."""
        rate, window, now, _ = self.rated
        wanted, in_the_way = weight + before, None
        if wanted > rate.units:
            in_the_way = now
        elif window.used + wanted > rate.units:
            upto = self.total + wanted - rate.units
            # The first ones were asked for a moment after the window: all of them may have left it by then.
            last = self.first[-1][0] if self.first else Moment(now - rate.period)
            in_the_way = next((moment for moment, total in self.first if total >= upto), last)
        return opens_at(rate, window, in_the_way, now, before)

    def after(self, units: int) -> "Known":
        """Return the same after so many more are taken now."""
        if not units:
            return self
        window = Window(self.rated.window.used + units, Taken(self.rated.now, units))
        total = self.total + units
        return Known(self.rated._replace(window=window), total, [*self.first, (self.rated.now, total)])


async def known_of(transaction: Transaction, rows: Iterable[tuple[str, Row]]) -> dict[str, Known]:
    """Return the rates of these semaphores, which are locked: names, with the columns `TURNS`."""
    rates = {name: (rate, row) for name, row in rows if (rate := stored_rate(row[0])) is not None}
    if not rates:
        return {}
    asked = [statement for name, (rate, _) in rates.items() for statement in _rate_statements(name, rate)]
    answers = await transaction.ask(*asked)
    found = dict(zip(rates, zip(answers[::2], answers[1::2], strict=True), strict=True))
    ahead = {
        name: window.rows[0][0] for name, (window, _) in found.items() if (window.rows[0][1] or 0) > window.rows[0][0]
    }
    if ahead:  # the clock was set back: what is still to come was taken now
        await transaction.ask(*(statement for each in ahead.items() for statement in _cut(*each)))
        return await known_of(transaction, [(name, row) for name, (_, row) in rates.items()])
    return {
        name: _known(rates[name][0], Turns(*rates[name][1][1:]), window.rows[0], first.rows)
        for name, (window, first) in found.items()
    }


def _known(rate: ClaimRate, turns: Turns, window: Row, first: Sequence[tuple[Moment, int]]) -> Known:
    now, newest, units, used, total = window
    taken = Window() if newest is None else Window(int(used), Taken(newest, units))
    return Known(Rated(rate, taken, now, turns._replace(kept=bool(turns.kept))), total or 0, first)


def _rate_statements(name: str, rate: ClaimRate) -> tuple[str, str]:
    ledger = ledger_of(name)
    return sql(WINDOW, ledger, rate.period, ledger, ledger), sql(_FIRST, ledger, rate.period)


def _cut(name: str, now: Moment) -> tuple[str, str]:
    ledger = ledger_of(name)
    gone = sql("DELETE FROM tokimori_taken WHERE semaphore = %s AND moment > %s", ledger, now)
    return sql(_CUT, now, ledger, now), gone


def take(name: str, rate: ClaimRate, units: int) -> Iterator[str]:
    """Write that so many units are taken now, and forget what counts no more."""
    if units:
        ledger = ledger_of(name)
        yield sql(_TAKE, ledger, units, units, ledger)
        yield sql(_FORGET, ledger, rate.period)


def write_turns(turns: Mapping[str, Turns]) -> Iterator[str]:
    """Write the turns of these semaphores."""
    for name, (wakes, turn, kept, woken, until) in sorted(turns.items()):
        yield sql(
            "UPDATE tokimori_semaphores SET wakes = %s, turn = %s, kept = %s, woken = %s, until = %s WHERE name = %s",
            *(wakes, turn, int(kept), woken, until, name),
        )
