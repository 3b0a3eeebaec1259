"""`tokimori export`, and the way back through every door."""

import tomllib

import pytest

import tokimori
from tests.integration.cli.conftest import Program
from tests.unit.api.asgi import SECRET, Asker
from tests.unit.api.conftest import HEALTHY
from tests.unit.service.world import World
from tokimori.api.app import create_app

JOBS = {
    "nightly": ("--schedule", "0 3 * * *", "--timezone", "Europe/Paris", "--command", "make report", "--owner", "ada"),
    "a.b:c": (
        "--schedule",
        "every 90 seconds",
        "--attempts",
        "3",
        "--retry-delay",
        "1.5",
        "--env",
        "A=x\ny",
        "--",
        "ls",
        "",
    ),
    "quiet": ("--noop", "--description", 'say "hi" \\ \x7f é', "--label", "disk=ssd", "--max-running", "0"),
}


@pytest.fixture
def full(program: Program) -> Program:
    """A program whose store holds these jobs, one of them paused."""
    for job_id, options in JOBS.items():
        program("job", "add", job_id, *options)
    program("job", "pause", "quiet")
    return program


def defined(job: dict[str, object]) -> dict[str, object]:
    """What JSON says of a job but for how it stands."""
    standing = ("version", "state", "reason", "by", "created", "updated", "anchor", "next_due", "next_times")
    return {name: value for name, value in job.items() if name not in standing}


async def test_json_comes_back_by_every_door(full: Program) -> None:
    """POST and the client read what was written: the definitions are equal, in any zone."""
    exported = full.json("export", "json")["jobs"]
    before = {job["id"]: defined(job) for job in full.json("job", "list")}
    assert [job["id"] for job in exported] == sorted(JOBS)

    world = World()
    door = Asker(create_app(world.service, world.clock, interface="127.0.0.1", secret=SECRET, health=lambda: HEALTHY))
    for job in exported:
        assert (await door.post("/api/v2/jobs", job)).status == 201
    assert {job["id"]: defined(job) for job in (await door.get("/api/v2/jobs")).json} == before

    async with tokimori.open_async("memory:", time_zone="Asia/Tokyo") as client:
        for job in exported:
            await client.jobs.add(job.pop("id"), **job)
        definitions = [job.definition for job in await client._inside.jobs.list()]
    assert definitions == [job.definition for job in await world.service.jobs.list()]


def test_toml_says_the_same_as_json(full: Program) -> None:
    """As a text, and as a text in JSON."""
    exported = full.json("export", "json")
    ended = full.run("export", "toml")
    assert tomllib.loads(ended.stdout) == exported
    assert ended.stderr == "note: these jobs are not enabled, but the export does not say so: quiet\n"
    assert tomllib.loads(full.json("export", "toml")["toml"]) == exported


def test_a_crontab_has_what_cron_can_do(full: Program) -> None:
    """The rest stands in it as comments, and a note says so; read as cronie's, it gives the same jobs."""
    ended = full.run("export", "crontab", "--timezone", "UTC")
    lines = [line for line in ended.stdout.splitlines() if line and not line.startswith("#")]
    assert lines == ["CRON_TZ=Europe/Paris", "0 3 * * * make report"]
    assert "# a.b:c is left out: 'every 90 seconds' can't be written in five fields" in ended.stdout
    assert "# quiet is left out: it is paused" in ended.stdout
    assert "2 of 3 jobs" in ended.stderr
    assert "Debian" in ended.stderr
    (full.home / "back").write_text(ended.stdout)
    assert full.run("job", "import", "crontab", "back", "--dialect", "cronie").returncode == 0
    job = full.json("job", "show", "make")
    assert (job["schedule"], job["time_zone"], job["command"]) == ("0 3 * * *", "Europe/Paris", "make report")


def test_only_some_jobs(full: Program) -> None:
    """Those that are named, in that order; a system crontab needs users."""
    assert [job["id"] for job in full.json("export", "json", "quiet", "nightly")["jobs"]] == ["quiet", "nightly"]
    shown = full.json("export", "crontab", "nightly", "--system")
    assert shown["left_out"] == {"nightly": "it names no user, as each line of a system crontab must"}
    assert shown["crontab"].endswith("# nightly is left out: it names no user, as each line of a system crontab must\n")


def test_what_is_not_there_is_not_found(program: Program) -> None:
    """Nor is a zone that does not exist; without jobs there is nothing but the form."""
    program("db", "migrate")
    for form in ("json", "toml", "crontab"):
        assert program.error("export", form, "nope", code=3)["code"] == "not_found"
    assert program.error("export", "crontab", "--timezone", "Mars")["field"] == "time_zone"
    assert program.json("export", "json") == {"jobs": []}
    assert program("export", "toml") == ""
