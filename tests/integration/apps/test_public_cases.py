"""Sixteen cases that users of other libraries have made public, and what they asked for most: each with its test."""

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

HERE = "integration/apps/test_public_cases.py::"
CASES = {
    "saq#269: a deploy cuts short what is not idempotent": (
        "integration/apps/test_never_begun_again.py::test_processes_that_die_and_new_code_begin_nothing_again",
        "integration/apps/test_never_begun_again.py::test_a_node_that_dies_begins_nothing_again",
    ),
    "django-tasks-db#22: stale connections": (
        "integration/apps/test_django.py::test_a_restarted_server_is_connected_to_again",
    ),
    "cookiecutter-django#5616: the logging of the app": (
        "integration/apps/test_streams.py::test_logging_that_was_configured_at_import_reaches_the_run",
    ),
    "django-tasks#48: a bare decorator": (f"{HERE}test_a_bare_decorator_declares",),
    "trigger.dev#1019: asked for before the deploy": (f"{HERE}test_what_is_asked_before_the_deploy_waits",),
    "hatchet#4803, apscheduler#1116: exhausted threads, a blocked loop": (
        "integration/apps/test_running.py::test_an_asynchronous_program_may_hold_its_loop",
        "integration/apps/test_hard_cases.py::test_who_lets_nobody_else_run_keeps_its_run",
    ),
    "dramatiq#791: a TimeoutError of a coroutine": (f"{HERE}test_a_timeout_error_of_a_coroutine_is_an_error",),
    "arq#508, dramatiq#653: time-outs and hung threads": (
        "integration/apps/test_functions.py::test_who_ignores_its_time_out_is_killed_with_its_children",
        "integration/apps/test_drained.py::test_the_neighbours_of_a_stuck_function_go_on_to_their_ends",
    ),
    "procrastinate#1598: no abort while a worker stops": (f"{HERE}test_a_run_is_cancelled_while_its_worker_stops",),
    "fastapi#12010: five web workers, five runs": (f"{HERE}test_five_processes_are_one_run",),
    "taskiq#558, celery#2703: types": (f"{HERE}test_types_survive",),
    "django-celery-beat#768 #757: a removed or changed schedule": (
        "unit/service/sets/test_app_jobs.py::test_vanished_jobs",
        "unit/service/sets/test_app_jobs.py::test_changed_ones_are_updated",
    ),
    "dbos#139: an outage of the database": (
        "integration/apps/test_web_servers.py::test_a_restart_of_the_database_loses_nothing",
    ),
    "flyte-sdk#780: do not retry this": (f"{HERE}test_what_must_not_be_tried_again_is_not",),
    "huey#815: a queued task whose code is gone": (f"{HERE}test_what_is_asked_before_the_deploy_waits",),
}
ASKED_FOR = {
    "rate limits": ("cluster/test_rates.py::test_no_window_has_more_claims_than_its_rate",),
    "jobs that vanished from code are paused": ("unit/service/sets/test_app_jobs.py::test_vanished_jobs",),
    "Django: connection care": ("integration/apps/test_django.py::test_a_restarted_server_is_connected_to_again",),
    "Django: TASKS backend, management command": (
        "integration/apps/test_django_project.py::test_it_does_what_a_backend_of_tasks_does",
        "integration/apps/test_django_project.py::test_the_command_line_is_that_of_the_project",
    ),
    "retry by exception type, permanent failure": (
        "unit/apps/test_failures.py::test_the_class_of_an_error_decides_about_a_retry",
    ),
    "typed result, wait for a run, awaitable": (
        "integration/apps/test_handles.py::test_each_blocking_call_has_one_that_is_awaited",
        "integration/apps/test_typing.py::test_mypy_checks_what_a_user_writes",
    ),
    "unique while pending or running": (
        "integration/apps/test_uniqueness.py::test_a_second_request_gets_the_same_handle",
    ),
    "bare decorator": (f"{HERE}test_a_bare_decorator_declares",),
    "chains and chords of single runs": (
        "integration/apps/test_families.py::test_a_chain_hands_its_results_on",
        "integration/apps/test_families.py::test_a_join_gets_all_results_in_order",
    ),
    "hooks, middleware, resources of a worker process": (
        "unit/apps/test_hooks.py::test_starts_and_stops_are_called_in_order",
        "unit/apps/test_hooks.py::test_a_middleware_returns_the_result",
    ),
    "async enqueue": ("integration/apps/test_handles.py::test_a_frozen_store_holds_up_no_loop",),
    "relative delay": (f"{HERE}test_a_delay_is_said_as_it_is_spoken",),
    "test of retries, time travel": ("unit/testing/test_rehearsal.py::test_what_is_enqueued_runs_when_it_is_due",),
}
"""Tests of each case, and of each row of what users asked for."""

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


def test_each_case_is_shown() -> None:
    """Each test that is named above exists."""
    tests = Path(__file__).parents[2]
    for place in (each for shown in (*CASES.values(), *ASKED_FOR.values()) for each in shown):
        file, _, name = place.partition("::")
        assert f"def {name}(" in (tests / file).read_text(), place


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


@pytest.mark.parametrize("delay", ["1h30m", "PT1H30M", 5400, timedelta(minutes=90)])
def test_a_delay_is_said_as_it_is_spoken(delay: str | int | timedelta) -> None:  # celery#20
    """As a text, in seconds, or as a length of time; the run begins then, and not before."""
    with Rehearsal(app) as rehearsal:
        handle = bare.after(delay).enqueue(3)
        assert handle.due - handle.run.created == timedelta(minutes=90)
        rehearsal.pass_time(minutes=89)
        assert handle.refresh().state == "waiting"
        rehearsal.pass_time(minutes=1)
        assert handle.refresh().state == "succeeded"


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
