"""A module of a user that uses all of the Python API: tests/integration/apps/test_typing.py has it checked."""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, PositiveInt

import tokimori
from tokimori import perfectsched, testing

app = tokimori.App("parcels", url="memory:", prune="pause")


class Order(BaseModel):
    number: PositiveInt


@dataclass
class Address:
    street: str
    floor: int = 0


@app.job(attempts=5, retry_delay=10, max_running=4, timeout=timedelta(minutes=5), rate_limit="10/s", retry_on=OSError)
async def deliver(order: Order, to: Address, *, express: bool = False) -> str:
    task = tokimori.current_task()
    task.checkpoint({"before": task.checkpointed, "attempt": task.attempt, "fenced by": task.token})
    task.progress(0.4, f"{order.number} to {to.street}")
    if task.cancelled or (task.deadline and task.deadline - task.due_at < timedelta(seconds=1)):
        task.retry(after=timedelta(seconds=3))
    return "express" if express else "slow"


@app.job("0 3 * * *", time_zone="Europe/Paris", payload={"region": "north"}, lost_attempts="unlimited", retry_wait=60)
@tokimori.retry(attempts=3, delay=0.1)
def nightly(region: str, day: datetime | None = None) -> int:
    deliver.at(day or datetime.now(UTC)).enqueue(Order(number=7), Address(region))
    return len(region)


def both(old: dict[str, object], new: dict[str, object]) -> dict[str, object]:
    return {**old, **new}


@app.job(unique="until_start", unique_by=lambda order, **_: order, merge=both, expires="1h")
def remind(order: int, text: str = "") -> None:
    print(order, text)


def reminded() -> tokimori.Handle[None]:
    remind.asked(unique="until_end", on_duplicate="refuse", expires=timedelta(hours=2)).enqueue(7)
    try:
        return remind.asked(on_duplicate="same").enqueue(7, text="soon")
    except tokimori.Duplicate as other:
        return remind.handle(str(other.value))


@app.handler(re.compile(r"image\..*"))
def draw(task: tokimori.Task, width: int = 80) -> None:
    task.log(task.data) if width else task.hold("no room")


@app.handler("mail.send")
class Send:
    task: tokimori.Task

    def perform(self, to: str) -> None:
        self.task.finish({"sent": to}) if to else self.task.release()

    def perform_all(self, numbers: list[int]) -> str:
        return f"{len(numbers)} are sent"


app.handler("legacy", "package.module:Name")


@app.on_start
async def prepare() -> None:
    print(f"{app.name} begins with {nightly.job_id}")


@app.around
def named(task: tokimori.Task) -> Iterator[None]:
    task.log(task.run_id)
    yield


@app.on_failure
def tell(task: tokimori.Task, error: Exception) -> None:
    task.log(error)


def of_django(order: Order) -> tokimori.Handle[str]:
    from tokimori.django import app as project

    return project.job(Send().perform_all).enqueue([order.number])


def sold(database: sqlite3.Connection, order: Order) -> tokimori.Handle[str]:
    return deliver.asked(key="k", priority=5, connection=database).enqueue(order, Address("Main Street"), express=True)


async def tracked(order: Order) -> str:
    handle = await deliver.after("10m").aenqueue(order, Address("Main Street"))
    others = await nightly.aenqueue_many([nightly.request("south")])
    done = [
        f"{one.state} {one.due:%c} {await one.aresult(timeout=60) + 1}" async for one in tokimori.as_completed(others)
    ]
    return f"{await handle} {handle.error and handle.error.traceback} {sum(await tokimori.agather(others))} {done}"


def waited(number: int) -> str:
    try:
        return deliver.enqueue(Order(number=number), Address("x")).result(timeout="1m").upper()
    except tokimori.RunFailed as failure:
        return f"{failure.type} {failure.error} {tokimori.gather([nightly.enqueue('north')])[0] + 1}"


def states(client: tokimori.Client) -> list[tokimori.RunState]:
    client.jobs.add("stored", function="package.module:Class.method", retry={"attempts": 5})
    client.jobs.add("hook", url="https://shop.example/{{run_id}}", method="POST", expect=[200], callback_within=60)
    client.jobs.trigger("mail", payload={"to": "ann"}, debounce=3)
    return [run.state for run in client.runs.list(limit=nightly("south"))]


async def by_hand(client: tokimori.AsyncClient) -> None:
    for run in await client.claims.claim(types=["resize"], wait=5, worker="mine"):
        await client.claims.finish(run.run_id, run.token, result=await deliver(Order(number=1), Address("Main Street")))


def slots(schedules: perfectsched.ScheduleCollection) -> tuple[int, int]:
    while task := schedules.poll(alive_time=300, wait=5):
        task.finish() if task.data else task.retry(60)
    return schedules.add("hourly", "mail.send", cron="0 * * * *", delay=30, timezone="Asia/Tokyo", data={"to": "ann"})


def test_a_year(tokimori_rehearsal: testing.Rehearsal) -> None:
    """A report each night."""
    tokimori_rehearsal.pass_time(days=365)
    assert len(tokimori_rehearsal.runs("nightly")) == 365


if __name__ == "__main__":
    with app.running(concurrency=4), tokimori.open("http://127.0.0.1:8000/") as client:
        print(states(client), deliver.enqueue(Order(number=1), Address(street="Main Street")))
    tokimori.Worker(app, config=lambda: {"app.processes": 4}).run()
