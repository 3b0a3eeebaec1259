"""A module of a user that uses all of the Python API: tests/integration/apps/test_typing.py has it checked."""

import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, PositiveInt

import tokimori
from tokimori.testing import Rehearsal, fixture

app = tokimori.App("parcels", url="memory:", prune="pause")


class Order(BaseModel):
    number: PositiveInt
    lines: list[str] = []


@dataclass
class Address:
    street: str
    floor: int = 0


@app.job(attempts=5, retry_delay=10, max_running=4, timeout=timedelta(minutes=5))
async def deliver(order: Order, to: Address, *, express: bool = False) -> str:
    task = tokimori.current_task()
    task.checkpoint({"order": order.number, "attempt": task.attempt})
    task.progress(0.4, f"{len(order.lines)} lines to {to.street}")
    if task.cancelled or (task.deadline and task.deadline - task.due_at < timedelta(seconds=1)):
        task.retry(after=timedelta(seconds=3))
    return "express" if express else "slow"


@app.job("0 3 * * *", time_zone="Europe/Paris", payload={"region": "north"}, retry={"lost_attempts": "unlimited"})
@tokimori.retry(attempts=3, delay=0.1)
def nightly(region: str, day: datetime | None = None) -> int:
    deliver.at(day or datetime.now(UTC)).enqueue(Order(number=7), Address(region))
    return len(region)


@app.handler(re.compile(r"image\..*"))
def draw(task: tokimori.Task, width: int = 80) -> None:
    task.log(task.data) if width else task.fail("no room")


@app.handler("mail.send")
class Send:
    task: tokimori.Task

    def perform(self, to: str) -> None:
        self.task.finish({"sent": to})


app.handler("legacy", "package.module:Name")


@contextmanager
def sold(database: sqlite3.Connection, order: Order) -> Generator[tokimori.Run, None, None]:
    with database:
        how = deliver.asked(key=f"order-{order.number}", priority=5, connection=database)
        yield how.enqueue(order, Address("Main Street", floor=2), express=True)


def states(client: tokimori.Client) -> list[tokimori.RunState]:
    mail = client.trigger("mail", payload={"to": "a@example.org"}, debounce=3)
    return [mail.state, *(run.state for run in client.list_runs(tokimori.RunFilter(limit=nightly("south"))))]


async def by_hand(client: tokimori.AsyncClient) -> str:
    for run in await client.claims.claim(types=["resize"], wait=5, worker="mine"):
        await client.claims.finish(run.run_id, run.token, result=[1])
    return await deliver(Order(number=1), Address("Main Street"))


rehearsal = fixture(app, at="2026-01-01T00:00:00Z")


def test_a_year(rehearsal: Rehearsal) -> None:
    """A report each night."""
    rehearsal.pass_time(days=365)
    assert len(rehearsal.runs("nightly")) == 365


if __name__ == "__main__":
    with app.running(concurrency=4):
        deliver.enqueue(Order(number=1), Address(street="Main Street"))
