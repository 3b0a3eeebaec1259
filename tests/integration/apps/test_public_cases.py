"""Sixteen cases that users of other libraries have made public, each with what must happen here.

| case | shown by |
|---|---|
| saq#269 a deploy cuts short what is not idempotent | `test_never_begun_again.py` |
| django-tasks-db#22 stale connections | `test_django.py` |
| cookiecutter-django#5616 the logging of the app | `test_streams.py` |
| hatchet#4803, apscheduler#1116 exhausted threads, a blocked loop | `test_running.py`, `test_hard_cases.py` |
| arq#508, dramatiq#653 time-outs and hung threads | `test_functions.py`, `test_drained.py` |
| django-celery-beat#768 #757 a schedule that was removed or changed | `tests/unit/service/sets/test_app_jobs.py` |
| dbos#139 an outage of the database | `test_web_servers.py`, `tests/cluster` |
| the others | here |
"""

import asyncio
import signal
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import tokimori
from tests.integration.apps.conftest import AppProgram, until
from tests.integration.cli.conftest import stop
from tokimori.testing import Rehearsal

app = tokimori.App("cases")
tries: list[int] = []


@dataclass
class Bill:
    """A result with fields that JSON does not know."""

    number: int
    made: datetime
    lines: dict[int, Decimal]


@app.job
def bare(number: int) -> int:
    """Is declared without brackets."""
    return number + 1


@app.job
async def late() -> None:
    """Waits for something that never comes."""
    tries.append(tokimori.current_task().attempt)
    await asyncio.wait_for(asyncio.Event().wait(), 0.01)


@app.job(attempts=5, never_on=(LookupError,))
def once(kind: str) -> None:
    """Can't succeed, and knows it."""
    tries.append(tokimori.current_task().attempt)
    if kind == "permanent":
        raise tokimori.Permanent("a bad card")
    raise KeyError("no such card")


@app.job
def bill(number: int, days: dict[date, int], wait: timedelta) -> Bill:
    """Gets keys and values that are no texts, and returns some."""
    assert [type(each) for each in (number, *days, wait)] == [int, date, timedelta]
    return Bill(number, datetime(2026, 1, 2, 3), {7: Decimal("1.10")})


def test_a_bare_decorator_declares() -> None:  # django-tasks#48
    """A function stays a function, and is a job."""
    with Rehearsal(app):
        assert (bare(1), bare.enqueue(1).result()) == (2, 2)


def test_a_timeout_error_of_a_coroutine_is_an_error() -> None:  # dramatiq#791
    """It ends its attempt as any other does, and is not taken for a time-out that begins it again and again."""
    tries.clear()
    with Rehearsal(app) as rehearsal, pytest.raises(tokimori.RunFailed) as failed:
        try:
            late.enqueue().result()
        finally:
            rehearsal.pass_time(days=2)
    assert (failed.value.type, tries) == ("TimeoutError", [1])


@pytest.mark.parametrize("kind", ["permanent", "never_on"])
def test_what_must_not_be_tried_again_is_not(kind: str) -> None:  # flyte-sdk#780
    """The error says so, or the job does; attempts that are left stay unused."""
    tries.clear()
    with Rehearsal(app) as rehearsal:
        handle = once.enqueue(kind)
        rehearsal.pass_time(days=2)
        assert (handle.refresh().state, tries) == ("failed", [1])


def test_types_survive() -> None:  # taskiq#558, celery#2703
    """Integer keys, dates and lengths arrive as such; a result is of the annotated class."""
    with Rehearsal(app):
        found = bill.enqueue(3, {date(2026, 1, 1): 4}, timedelta(hours=2)).result()
    assert found == Bill(3, datetime(2026, 1, 2, 3), {7: Decimal("1.10")})


@pytest.mark.prove
def test_what_is_asked_before_the_deploy_waits(program: AppProgram) -> None:  # trigger.dev#1019, huey#815
    """Older code leaves it alone, `why` says what is missing, and new code runs it; so does code that was gone."""
    code = program.app.read_text()
    new = "\n@app.job\ndef brand_new() -> str:\n    return 'done'\n"
    node = program.work()
    program("job", "add", "brand_new", "--function", "jobs.brand_new", "--owner", "jobs")
    run = program.json("job", "trigger", "brand_new")["id"]
    program.outcome("double", '{"number": 2}')
    assert program.json("run", "show", run)["state"] == "ready"
    assert "jobs.brand_new" in program("run", "why", run)
    assert stop(node) == 0
    program.app.write_text(code + new)
    node = program.work()
    until(lambda: program.json("run", "show", run)["state"] == "succeeded")
    assert stop(node) == 0


@pytest.mark.prove
def test_a_run_is_cancelled_while_its_worker_stops(program: AppProgram) -> None:  # procrastinate#1598
    """A worker that waits for what runs still hears that it is cancelled, and then goes."""
    node = program.work()
    run = program.json("job", "trigger", "sleeps", "--payload", '{"seconds": 1000}')["id"]
    until(lambda: program.json("run", "show", run)["state"] == "running")
    node.send_signal(signal.SIGTERM)
    until(lambda: program.json("node", "list")[0]["state"] != "active")
    program("run", "cancel", run)
    assert node.wait(30) == 0  # and not after the minute of its grace
    assert program.json("run", "show", run)["state"] == "cancelled"


@pytest.mark.prove
def test_five_processes_are_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fastapi#12010
    """Each occurrence runs once, however many processes have the schedule in their code."""
    monkeypatch.setenv("TOKIMORI_STATE_DIR", str(tmp_path / "state"))
    seen: list[datetime] = []
    apps = [tokimori.App("web", url=f"sqlite://{tmp_path / 't.db'}") for _ in range(5)]

    def tick() -> None:
        """Note the moment for which it runs."""
        seen.append(tokimori.current_task().scheduled_at)

    for each in apps:
        each.job("* * * * * *", id="tick")(tick)
    running = [each.running() for each in apps]
    for one in running:
        one.start()
    until(lambda: len(set(seen)) >= 4)
    for one in running:
        one.stop()
    for each in apps:
        each.client.close()
    assert set(Counter(seen).values()) == {1}
