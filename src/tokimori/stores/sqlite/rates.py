"""Rates of semaphores: what is taken, and turns. The clock of the store is read inside the transaction."""

import sqlite3
from functools import partial

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate, Taken, Window, opens_at, stored_rate
from tokimori.model.semaphores import ledger_of
from tokimori.stores.rules.rates import Opens, Rated, Turns

_ROW = "SELECT rate, wakes, turn, kept, woken, until FROM tokimori_semaphores WHERE name = ?"
_NEWEST = """
SELECT moment, units, total - coalesce(
    (SELECT total FROM tokimori_taken WHERE semaphore = ?1 AND moment <= ?2 ORDER BY moment DESC LIMIT 1),
    (SELECT total - units FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment LIMIT 1))
FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment DESC LIMIT 1"""
_CUT = """
INSERT INTO tokimori_taken SELECT semaphore, ?2, sum(units), max(total) FROM tokimori_taken
WHERE semaphore = ?1 AND moment >= ?2 GROUP BY semaphore
ON CONFLICT DO UPDATE SET units = excluded.units, total = excluded.total"""
_TAKE = """
INSERT INTO tokimori_taken SELECT ?1, ?2, ?3, ?3 + coalesce(
    (SELECT total FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment DESC LIMIT 1), 0) WHERE true
ON CONFLICT DO UPDATE SET units = units + excluded.units, total = excluded.total"""
_IN_THE_WAY = """
SELECT moment FROM tokimori_taken WHERE semaphore = ?1 AND moment > ?2 AND total >= ?3 + (
    SELECT total FROM tokimori_taken WHERE semaphore = ?1 ORDER BY moment DESC LIMIT 1) ORDER BY moment LIMIT 1"""


def now_of(db: sqlite3.Connection) -> Moment:
    """Return the store's time."""
    return Moment(db.execute("SELECT store_now()").fetchone()[0])


def rated_of(db: sqlite3.Connection, name: str, *, mends: bool = True) -> Rated | None:
    """Return the rate of a semaphore, if it has one. `mends`: what a wrong clock has as still to come was taken now."""
    row = db.execute(_ROW, (name,)).fetchone()
    rate = None if row is None else stored_rate(row[0])
    return None if rate is None else rated(db, name, rate, Turns(*row[1:]), mends=mends)


def rated(db: sqlite3.Connection, name: str, rate: ClaimRate, turns: Turns, *, mends: bool = True) -> Rated:
    """Return the rate of a semaphore with these turns."""
    now, ledger = now_of(db), ledger_of(name)
    found = db.execute(_NEWEST, (ledger, now - rate.period)).fetchone()
    if found is not None and found[0] > now and mends:
        db.execute(_CUT, (ledger, now))
        db.execute("DELETE FROM tokimori_taken WHERE semaphore = ? AND moment > ?", (ledger, now))
        found = db.execute(_NEWEST, (ledger, now - rate.period)).fetchone()
    window = Window() if found is None else Window(found[2], Taken(found[0], found[1]))
    return Rated(rate, window, now, turns)


def take(db: sqlite3.Connection, name: str, units: int) -> None:
    """Write that so many units were taken now, and forget what counts no more."""
    found = rated_of(db, name)
    if found is not None:
        db.execute(_TAKE, (ledger_of(name), found.now, units))
        old = (ledger_of(name), found.now - found.rate.period)
        db.execute("DELETE FROM tokimori_taken WHERE semaphore = ? AND moment <= ?", old)


def opens_of(db: sqlite3.Connection, name: str, found: Rated) -> Opens:
    """Return the function that says when units fit."""
    return partial(_opens, db, ledger_of(name), found)


def _opens(db: sqlite3.Connection, ledger: str, found: Rated, weight: int, before: int) -> Moment:
    rate, window, now, _ = found
    wanted, in_the_way = weight + before, None
    if wanted > rate.units:
        in_the_way = (now,)
    elif window.used + wanted > rate.units:
        in_the_way = db.execute(_IN_THE_WAY, (ledger, now - rate.period, wanted - rate.units)).fetchone()
    return opens_at(rate, window, in_the_way and in_the_way[0], now, before)


def write_turns(db: sqlite3.Connection, name: str, was: Turns | None, turns: Turns) -> None:
    """Write the turns, if they have changed."""
    if turns != was:
        db.execute(
            "UPDATE tokimori_semaphores SET wakes = ?, turn = ?, kept = ?, woken = ?, until = ? WHERE name = ?",
            (*turns, name),
        )
