"""Every table of every list, with awkward data, as terminals of 80, 120 and 200 columns show it.

After a change that is meant: `WRITE_GOLDEN=1 pytest tests/unit/cli/test_golden.py`, and read the difference.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.unit.examples import NEW_YEAR
from tests.unit.service.tasks.test_tasks import build
from tests.unit.service.world import SetClock, World
from tokimori import clock
from tokimori.cli import session
from tokimori.cli.errors import run
from tokimori.cli.main import program
from tokimori.cli.remote import contexts_file
from tokimori.client.opening import Stores
from tokimori.config.contexts import Context, Contexts, write_contexts
from tokimori.engine.overdue import Overdue
from tokimori.model.ids import NodeId
from tokimori.model.outcome import Failed, Succeeded
from tokimori.service.doors.audited import audited
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.notifiers import id_of, notifier_fields

FOLDER = Path(__file__).with_name("golden")
WIDTHS = (80, 120, 200)
LONG, WIDE = "j" * 255, "夜間レポートを作成して関係者全員に送信する"
TEN_LINES = "\n".join(f"line {number} of what went wrong\t\x1b[31m" for number in range(10))
LISTS: Mapping[str, str] = {
    "job-list": "job list",
    "job-next": "job next -n 4",
    "job-skips": f"job skips {LONG}",
    "job-counts": f"job counts {LONG}",
    "job-backfill": f"job backfill {LONG} --from 2029-12-31T23:55:00Z --to 2030-01-01T00:05:00Z --dry-run",
    "job-ledger": f"job ledger {LONG}",
    "run-list": "run list",
    "events": "events",
    "queue-list": "queue list",
    "calendar-list": "calendar list",
    "lock-list": "lock list",
    "token-list": "token list",
    "secret-list": "secret list",
    "audit-list": "audit list",
    "node-list": "node list",
    "context-list": "context list",
}
TASKS_AND_ALARMS: Mapping[str, str] = {
    "task-list": "task list",
    "task-builds": f"task builds {LONG[:100]}",
    "alarms": "alarms",
    "expect": "expect",
    "notifier-list": "notifier list",
}
"""Lists whose things would stand in the others too, as jobs and runs."""


async def populate(world: World) -> None:
    """Jobs of awkward names, runs that failed at length, and something in every list."""
    service = audited(world.service)
    queue, labels = "q" * 100, {f"label-{number}": "v" * 60 for number in range(5)}
    await service.calendars.add("c" * 128, dates=["12-25"], weekdays=["sat", "sun"], description=f"{WIDE}\n" * 5)
    await service.jobs.add(LONG, noop=True, name="x" * 200, schedule="every 1 minute", queue=queue, max_running=1)
    await service.jobs.add("wide", command=["echo", WIDE], schedule="at 2030-06-01T00:00:00Z", name=WIDE, owner=WIDE)
    await service.jobs.add("child", noop=True, parents=[{"job": LONG}, {"job": "wide"}])
    await service.jobs.pause("child", TEN_LINES)
    await service.queues.pause(queue[:-1], TEN_LINES)
    await service.secrets.set("s" * 64, "correct horse", jobs=["j" * 200, "wide"])
    await service.tokens.create("t" * 64, "operate", jobs=["j" * 200], queues=[queue, "x" * 100])
    await world.register("0197a1b2-c3d4-7000-8000-000000000001", labels)
    world.pass_seconds(130)
    await world.fire()
    await world.register()
    await world.work(Failed(error=TEN_LINES, exit_code=1))
    await world.trigger(LONG)
    await world.work(Succeeded())
    await service.jobs.trigger("wide")
    await world.hold(
        "l" * 128,
        2,
        program="0197a1b2-c3d4-7000-8000-000000000002",
        host="a-very-long-name-of-a-host.in.a.domain.example",
        pid=4_194_304,
    )


async def add_tasks_and_alarms(world: World) -> None:
    """A task with two builds, one without a schedule, what should have reported a minute ago, and a notifier."""
    service = audited(world.service)
    await build(service, "1", LONG[:100], "every 10 seconds")
    await build(service, "2", LONG[:100], "; ".join(["0 0 12 1 6 ? 2150"] * 5))
    await build(service, "3", "ping", None)
    quiet = {"bundle": 90, "quiet": ["22:00-07:00", "12:00-13:00"]}
    await service.jobs.add(id_of("n" * 100), **notifier_fields({"url": "https://h.example", "notifier": quiet}))
    await service.expectations.set("e" * 128, 60, description=f"{WIDE}\n" * 5)
    await service.expectations.ping("e" * 128, log=TEN_LINES)
    await service.expectations.set("never", 90_000)
    await service.expectations.set("f" * 128, 60)
    await service.expectations.ping("f" * 128, "fail", TEN_LINES)
    world.pass_seconds(130)
    duty = Overdue(world.store, 0, schedule_for)
    for _ in range(2):
        await duty.step(NodeId("node"), world.clock.now(), world.clock.monotonic())


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    """The program at a terminal, on a store in which nothing is left to chance."""
    drawn = itertools.count(1)
    monkeypatch.setattr(os, "urandom", lambda size: next(drawn).to_bytes(size, "big"))
    world = World()
    asyncio.run(populate(world))
    monkeypatch.setattr(session, "_stores", lambda *_: Stores(world.store, None))
    monkeypatch.setattr(session, "user_name", lambda: "ada")
    monkeypatch.setattr(clock, "SystemClock", lambda: world.clock)
    for name in ("HOME", "XDG_CONFIG_HOME", "TOKIMORI_STATE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    for name, value in {"TERM": "dumb", "LINES": "50"}.items():
        monkeypatch.setenv(name, value)
    name = "n" * 100
    known = {name: Context(url=f"https://{'h' * 200}.example", token_file="/run/secrets/" + "f" * 200)}
    write_contexts(contexts_file(), Contexts(contexts=known, current=name))
    return world


def shown(line: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a terminal of that width shows, without blanks at the ends of lines."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    capsys.readouterr()
    assert run(program, ["--store", "memory:", *line.split()]) == 0
    return "".join(f"{each.rstrip()}\n" for each in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("name", [*LISTS, *TASKS_AND_ALARMS])
def test_a_list_is_shown_as_it_was(
    name: str, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is one line, no wider than the terminal, at every width."""
    if name in TASKS_AND_ALARMS:
        asyncio.run(add_tasks_and_alarms(world))
    parts = []
    for width in WIDTHS:
        text = shown({**LISTS, **TASKS_AND_ALARMS}[name], width, capsys, monkeypatch)
        assert max(map(cell_len, text.splitlines())) <= width
        parts.append(f"── {width} columns\n{text}")
    file, found = FOLDER / f"{name}.txt", "\n".join(parts)
    if os.environ.get("WRITE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(found)
    assert file.read_text() == found


def test_time_stands_still_here() -> None:
    """Or the tables would tell another age each time."""
    assert SetClock().now() == NEW_YEAR
