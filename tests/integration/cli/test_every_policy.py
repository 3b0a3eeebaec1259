"""Whatever can be said of a job can be said by the program, over HTTP and in Python alike, and is shown."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.integration.cli.conftest import Program
from tests.unit.api.asgi import BEARER, SECRET
from tokimori.api.app import Health, create_app
from tokimori.api.server import HttpDoor
from tokimori.client.client import open as open_client
from tokimori.clock import SystemClock
from tokimori.model.policies import Retry
from tokimori.service.definitions.definitions import JobFields
from tokimori.service.doors.job_restrictions import JobRestrictions
from tokimori.service.service import service_on
from tokimori.stores.open import open_store
from tokimori.web.page import Page

SAID: dict[str, tuple[str, object]] = {
    "--schedule=every 2 minutes": ("schedule", "every 2 minutes"),
    "--timezone=Europe/Paris": ("time_zone", "Europe/Paris"),
    "--gap=skip": ("gap", "skip"),
    "--fold=both": ("fold", "both"),
    "--calendar=holidays": ("calendars", ["holidays"]),
    "--shift=next": ("shift", "next"),
    "--starts-at=2030-01-01T00:00:00": ("starts_at", "2030-01-01T00:00:00"),
    "--ends-at=2040-01-01T00:00:00": ("ends_at", "2040-01-01T00:00:00"),
    "--runs-remaining=9": ("runs_remaining", 9),
    "--delay=2": ("delay", 2.0),
    "--jitter=3": ("jitter", 3.0),
    "--anchored-on=last run": ("anchored_on", "last run"),
    "--name=Nightly": ("name", "Nightly"),
    "--description=Counts": ("description", "Counts"),
    "--owner=ada": ("owner", "ada"),
    "--misfire=all": ("misfire", "all"),
    "--late-after=7": ("late_after", 7.0),
    "--grace=8": ("grace", 8.0),
    "--max-running=5": ("max_running", 5),
    "--rate-limit=10/1m": ("rate_limit", "10/1m"),
    "--max-waiting=6": ("max_waiting", 6),
    "--semaphore=api": ("semaphores", ["api"]),
    "--concurrency-key=north": ("concurrency_key", "north"),
    "--max-running-per-key=2": ("max_running_per_key", 2),
    "--on-overlap=queue": ("on_overlap", "queue"),
    "--priority=-4": ("priority", -4),
    "--queue=slow": ("queue", "slow"),
    "--label=gpu=yes": ("labels", {"gpu": "yes"}),
    '--payload={"n": [1, null]}': ("payload", '{"n": [1, null]}'),
    "--timeout=60": ("timeout", 60.0),
    "--timeout-grace=4": ("timeout_grace", 4.0),
    "--max-cpu=9.5": ("max_cpu", 9.5),
    "--max-memory=512": ("max_memory", 512),
    "--on-lost-lease=kill": ("on_lost_lease", "kill"),
    "--on-exhausted=park": ("on_exhausted", "park"),
    "--on-failure-job=other": ("on_failure_job", "other"),
    "--no-auto-complete-success": ("auto_complete_success", False),
    "--retention=P7D": ("retention", "P7D"),
    "--keep-runs=12": ("keep_runs", 12),
    "--expect-within=25h": ("expect_within", 90_000.0),
    "--env=A=1": ("env", {"A": "1"}),
    "--cwd=/tmp": ("cwd", "/tmp"),
    "--user=nobody": ("user", "nobody"),
    "--stdin=text": ("stdin", "text"),
    "--shell-path=/bin/bash": ("shell_path", "/bin/bash"),
    "--mailto=ada@example.org": ("mailto", "ada@example.org"),
    "--client": ("client", True),
    "--approval": ("approval", True),
    "--approver=admin": ("approver", "admin"),
    "--approve-within=2h": ("approve_within", 7200.0),
    "--four-eyes": ("four_eyes", True),
    "--command=true": ("command", "true"),
}
RETRY = {
    "--attempts=3": ("attempts", 3),
    "--retry-delay=1": ("delay", 1.0),
    "--retry-backoff=2": ("backoff", 2.0),
    "--retry-cap=30": ("cap", 30.0),
    "--retry-jitter=0.5": ("jitter", 0.5),
    "--retry-epsilon=90": ("epsilon", 90.0),
    "--lost-attempts=unlimited": ("lost_attempts", "unlimited"),
    "--asked-delay=0.5": ("asked_delay", 0.5),
    "--asked-retries=3": ("asked_retries", 3),
    "--retry-wait=12": ("wait", 12.0),
}
CHILD: dict[str, tuple[str, object]] = {
    "--after=cli=failure": ("parents", [{"job": "cli", "on": "failure"}]),
    "--join=all": ("join", "all"),
    "--noop": ("noop", True),
}


REQUEST: dict[str, tuple[str, object]] = {
    "--url=https://a.example/{{run_id}}": ("url", "https://a.example/{{run_id}}"),
    "--method=PUT": ("method", "PUT"),
    "--header=X-Team: blue": ("headers", {"X-Team": "blue"}),
    "--body={{payload}}": ("body", "{{payload}}"),
    "--expect=204": ("expect", [204]),
    "--callback-within=90": ("callback_within", 90.0),
    "--sign-with=HOOK": ("sign_with", "HOOK"),
    "--notify=failure=ops": ("notify", {"failure": ["ops"]}),
}
EMAIL: dict[str, tuple[str, object]] = {
    "--email=ops@example.org": ("email", ["ops@example.org"]),
    "--smtp=mail.example.org:2525": ("smtp", "mail.example.org:2525"),
    "--sender=cron@example.org": ("sender", "cron@example.org"),
    "--tls=implicit": ("tls", "implicit"),
    "--smtp-user=cron": ("smtp_user", "cron"),
    "--smtp-password=MAIL": ("smtp_password", "MAIL"),
    "--mail-subject={{ job_id }}": ("mail_subject", "{{ job_id }}"),
    "--mail-text={{ payload }}": ("mail_text", "{{ payload }}"),
}


FUNCTION: dict[str, tuple[str, object]] = {
    "--function=reports.tasks:run": ("function", "reports.tasks:run"),
    "--own-process": ("own_process", True),
}


def test_every_field_is_said_here() -> None:
    """A field that is new has to be reachable by the program: these tables name all of them."""
    tables = SAID | CHILD | REQUEST | EMAIL | FUNCTION
    said = {name for name, _ in tables.values()} | {"retry", "build", "notifier"}
    assert said == {each.name for each in msgspec.structs.fields(JobFields)}
    assert {name for name, _ in RETRY.values()} == {each.name for each in msgspec.structs.fields(Retry)}


def add_in_python(url: str, values: dict[str, Any]) -> None:
    """Add a job as a program does that waits."""
    with open_client(url) as client:
        client.jobs.add("python", **values)


@asynccontextmanager
async def door(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """The HTTP door of a store."""
    clock = SystemClock()
    store = open_store(url, clock)
    await store.open()
    service = service_on(store, clock, os.urandom)
    health = Health(status="ok", node_id="n", store_reachable=True, version="1")
    app = create_app(
        service,
        clock,
        interface="127.0.0.1",
        secret=SECRET,
        health=lambda: health,
        pages=Page(lambda _: service, clock).routes(),
        allowed=JobRestrictions(users=("nobody",)),
    )
    http = HttpDoor(app, interface="127.0.0.1", port=0, port_fixed=False)
    await http.start()
    async with aiohttp.ClientSession(http.url, headers=BEARER) as session:
        yield session
    await http.stop()
    await store.close()


@pytest.mark.parametrize(
    ("table", "retry"),
    [(SAID, RETRY), (CHILD, {}), (REQUEST, {}), (EMAIL, {}), (FUNCTION, {})],
    ids=["scheduled", "dependent", "request", "e-mail", "function"],
)
async def test_all_doors_keep_the_same(
    program: Program, table: dict[str, tuple[str, object]], retry: dict[str, tuple[str, object]]
) -> None:
    """The same job, said by the program, over HTTP and in Python, is the same to all of them, and shown whole."""
    program("calendar", "add", "holidays", "--date", "12-25")
    program("notifier", "add", "ops", "--noop")
    for other in ("other", "cli") if table is CHILD else ("other",):
        program("job", "add", other, "--noop")
    values: dict[str, Any] = dict(table.values()) | ({"retry": dict(retry.values())} if retry else {})
    name = "child" if table is CHILD else "cli"
    program("job", "add", name, *table, *retry)
    url = program.environment["TOKIMORI_STORE"]
    async with door(url) as http:
        async with http.post("/api/v2/jobs", json={"id": "http", **values}) as answer:
            assert answer.status == 201, await answer.text()
        async with http.get(f"/api/v2/jobs/{name}") as answer:
            seen = await answer.json()
    await asyncio.to_thread(add_in_python, url, values)
    shown = {each: program.json("job", "show", each) for each in (name, "http", "python")}
    for field, value in values.items():
        assert [view[field] for view in (*shown.values(), seen)] == [value] * 4, field
    text = program("job", "show", name)
    for field in values.keys() - {"parents", "runs_remaining", "command", "noop"}:
        assert field.replace("_", " ") in text
