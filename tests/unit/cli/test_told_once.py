"""Errors about bad values: each tells the value once, and once what is allowed."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import format_exception

import pytest

import tokimori
from tests.unit.api.conftest import door_of
from tests.unit.cli.conftest import Called
from tests.unit.service.world import World
from tokimori.cli.errors import run
from tokimori.cli.main import program
from tokimori.client.client import Client

BAD = "qz7"
"""A value that is wrong everywhere, and stands in no text of ours."""
RUN = "018cc251-f400-7000-8000-000000000777"

OF_A_JOB: dict[str, object] = {
    **dict.fromkeys(("schedule", "time_zone", "delay", "gap", "fold", "calendars", "shift", "misfire", "grace"), BAD),
    **dict.fromkeys(("max_running", "on_overlap", "retry", "priority", "labels", "timeout", "on_lost_lease"), BAD),
    **dict.fromkeys(
        ("notify", "parents", "join", "retention", "keep_runs", "rate_limit", "approver", "noop", BAD), BAD
    ),
    **dict.fromkeys(("queue", "id", "on_failure_job"), f"{BAD}/"),
    "payload": f"{{{BAD}",
    "semaphores": [f"{BAD}/"],
    "method": f"{BAD} x",
    "build": BAD,
    "url": BAD,
}
TARGETS: dict[str, dict[str, object]] = {"method": {"url": "http://a/"}, "build": {}, "url": {}, "noop": {}}

SCHEDULES = (
    f"{BAD} * * * *",
    f"* * * * {BAD}",
    f"every {BAD}",
    f"at {BAD}",
    f"on friday at {BAD}",
    f"R/{BAD}/PT1H",
    f"R/2030-01-01T00:00:00Z/{BAD}",
    f"2015/*/* 9:05 ({BAD})",
    f"@daily except {BAD}",
    f"@every {BAD}",
)

LINES = (
    *(f"job add x --noop --schedule '{schedule}'" for schedule in SCHEDULES),
    *(f"job add x --noop --{option} {BAD}" for option in ("timezone", "delay", "gap", "priority", "notify", "label")),
    *(f"job add x --noop --{option} {BAD}" for option in ("retention", "lost-attempts", "after", "rate-limit")),
    f"job add x --noop --payload '{{{BAD}'",
    f"job add x --noop --semaphore '{BAD}/'",
    f"job add x --url http://a/ --method {BAD}",
    f"job add x --url http://a/ --body '{{{{ {BAD} }}}}'",
    f"job add x --build {BAD}",
    f"job add '{BAD}/' --noop",
    *(f"job {verb} {BAD}" for verb in ("show", "next", "pause", "trigger", "skips", "delete", "nonsense")),
    f"job next x --after {BAD}",
    *(f"run {verb} {BAD}" for verb in ("show", "cancel", "logs", "why")),
    f"run show {RUN}",
    f"run list --state {BAD}",
    f"run list --since {BAD}",
    f"queue set a --rate {BAD}",
    f"queue set '{BAD}/' --rate 1/s",
    f"lock set a --limit {BAD}",
    f"calendar show {BAD}",
    f"node drain {BAD}",
    f"set show {BAD}",
    f"schedule explain {BAD}",
    f"job list --store {BAD}://x",
    f"apply {BAD}",
    f"job import crontab {BAD}",
)

FILES = (
    *(f'[[jobs]]\nid = "x"\nnoop = true\n{field} = "{BAD}"\n' for field in ("schedule", "priority", "retry", BAD)),
    f'[queues."{BAD}/"]\npaused = true\n',
    f'[queues.a]\npaused = "{BAD}"\n',
    f'[semaphores."{BAD}/"]\nlimit = 1\n',
    f'[calendars."{BAD}/"]\n',
    f'set = "{BAD}/"\n',
)


def repeats(text: str, allowed: object = None) -> bool:
    """Whether a text tells the bad value, or what is allowed, more than once."""
    told_allowed = text.count(str(allowed)) > 1 if allowed is not None and " " in str(allowed) else False
    return text.count(BAD) > 1 or text.count(RUN) > 1 or text.count("allowed: ") > 1 or told_allowed


def of_a_job() -> Iterator[dict[str, object]]:
    """Jobs with one bad field each."""
    for name, value in OF_A_JOB.items():
        yield {"id": "x", **TARGETS.get(name, {"noop": True}), name: value}
    yield from ({"id": "x", "noop": True, "schedule": schedule} for schedule in SCHEDULES)
    yield from ({"id": "x", "noop": True, "retry": {name: BAD}} for name in ("attempts", "delay", "lost_attempts"))


@pytest.mark.prove
def test_a_terminal_tells_a_bad_value_once(called: Called, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Whatever the command, its argument, and the file that it reads."""
    lines = [shlex.split(line) for line in LINES]
    for number, text in enumerate(FILES):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        lines.append(["apply", "--set", "s", str(file)])
    called("job", "add", "taken", "--noop")
    told = {}
    for line in lines:
        capsys.readouterr()
        ended = run(program, ["--store", f"sqlite://{tmp_path}/t.db", *line])
        told[" ".join(line)] = capsys.readouterr().err if ended in (2, 3) else f"{BAD} {BAD}"
    assert {line: text for line, text in told.items() if repeats(text)} == {}


async def test_http_tells_a_bad_value_once() -> None:
    """In `detail`, for people; programs find field, value and what is allowed beside it."""
    door = door_of(World())
    found = [await door.post("/api/v2/jobs", body) for body in of_a_job()]
    found += [await door.get(f"/api/v2/{path}") for path in (f"jobs/{BAD}", f"runs/{BAD}", f"runs?state={BAD}")]
    found.append(await door.post("/api/v2/runs", {"job_id": "x", "priority": BAD}))
    found.append(await door.post("/api/v2/jobs/x/backfill", {"from": BAD}))
    told = [answer.json["detail"] for answer in found if answer.status >= 400]
    assert len(told) == len(found)
    assert [detail for detail in told if repeats(detail) or "allowed: " in detail or "Object" in detail] == []


def calls(client: Client) -> Iterator[Callable[[], object]]:
    """Calls in Python with a bad value."""
    for fields in of_a_job():
        yield lambda fields=fields: client.jobs.add(**fields)  # type: ignore[misc]
    yield lambda: client.jobs.add("x", noop=True, schedule="61 * * * *")
    yield lambda: tokimori.open(f"{BAD}://x")
    yield lambda: tokimori.every(BAD)  # type: ignore[arg-type]
    for name in ("get", "next", "pause", "resume", "delete", "trigger", "skips", "stats", "cancel", "restart"):
        yield lambda name=name: getattr(client.jobs, name)(BAD)  # type: ignore[misc]
    for name in ("get", "cancel", "retry", "hold", "why", "output", "family"):
        yield lambda name=name: getattr(client.runs, name)(RUN)  # type: ignore[misc]
    for part in (client.calendars, client.queues, client.semaphores):
        yield lambda part=part: part.get(f"{BAD}/")  # type: ignore[misc]


@pytest.mark.prove
def test_a_traceback_tells_a_bad_value_once(tmp_path: Path) -> None:
    """In what Python prints of an error that nobody catches, with its causes; lines of source tell no values."""
    told, wrong = 0, []
    with tokimori.open(f"sqlite:///{tmp_path}/t.db") as client:
        for call in calls(client):
            try:
                call()
            except tokimori.TokimoriError as fault:
                text = "\n".join(line for line in "".join(format_exception(fault)).splitlines() if line[:1] != " ")
                told += 1
                wrong += [text] if repeats(text, fault.allowed) else []
    assert told > 55
    assert wrong == []
