"""A small shop: orders come in each second, are packed and billed; every step is a function that Tokimori runs.

    SHOP=shop.db tokimori worker examples.shop:app --processes 2

A step may be run again after a crash, so each writes what it does under a key of its own: doing it twice changes
nothing. `begun` keeps one row for each attempt, as proof of what really ran.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import tokimori

app = tokimori.App("shop")

_TABLES = """
CREATE TABLE IF NOT EXISTS begun (run TEXT, attempt INTEGER, step TEXT, pid INTEGER, UNIQUE (run, attempt));
CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, run TEXT);
CREATE TABLE IF NOT EXISTS bills (number INTEGER PRIMARY KEY, run TEXT);
CREATE TABLE IF NOT EXISTS parcels (number INTEGER PRIMARY KEY, run TEXT);
"""


@contextmanager
def step(name: str) -> Iterator[sqlite3.Connection]:
    """The shop's own database, for one step: what the step writes is there as a whole, or not at all."""
    task = tokimori.current_task()
    with closing(sqlite3.connect(os.environ.get("SHOP", "shop.db"), timeout=30)) as db:
        db.executescript(_TABLES)
        with db:
            db.execute("INSERT INTO begun VALUES (?, ?, ?, ?)", (task.run_id, task.attempt, name, os.getpid()))
        with db:
            yield db


@app.job("* * * * * *", misfire="all", on_overlap="queue", retry={"attempts": 3, "lost_attempts": 20})
def order() -> None:
    """An order comes in: its number is the second for which it was scheduled."""
    task = tokimori.current_task()
    number = int(task.scheduled_at.timestamp())
    with step("order") as db:
        db.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (number, task.run_id))
    bill.asked(key=f"bill-{number}").enqueue(number)


@app.job(retry={"attempts": 3, "lost_attempts": 20})
def bill(number: int) -> None:
    """The bill of an order is written."""
    with step("bill") as db:
        db.execute("INSERT OR IGNORE INTO bills VALUES (?, ?)", (number, tokimori.current_task().run_id))


@app.job(retry={"attempts": 3, "lost_attempts": 20})
def pack(number: int, seconds: float = 3.0) -> None:
    """A parcel is packed, which takes its time."""
    with step("pack"):
        pass
    time.sleep(seconds)
    with closing(sqlite3.connect(os.environ.get("SHOP", "shop.db"), timeout=30)) as db, db:
        db.execute("INSERT OR IGNORE INTO parcels VALUES (?, ?)", (number, tokimori.current_task().run_id))
