"""Files that declare jobs: what `export` writes, and every fault with its place."""

import asyncio
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from tests.laws import examples
from tests.unit.service.definitions.test_definitions import definitions
from tests.unit.service.world import World
from tokimori.errors import InvalidFile
from tokimori.model.job import Definition
from tokimori.model.words import DOTS
from tokimori.service.definitions.definitions import fields_of, job_fields_of
from tokimori.service.definitions.toml import write_toml
from tokimori.service.sets.work import changes_in
from tokimori.translators.job_file import format_of, read_job_file

TOML = """
set = "prod"
[[jobs]]
id = "nightly"
schedule = "0 3 * * *"
starts_at = 2030-01-01T00:00:00Z
command = ["make", "report"]
retry = { attempts = 3 }
"""
YAML = """
set: prod
jobs:
  - id: nightly
    schedule: 0 3 * * *
    starts_at: 2030-01-01T00:00:00Z
    command: [make, report]
    retry: {attempts: 3}
"""
CALENDARS = st.dictionaries(
    st.text("abc._-", min_size=1, max_size=3).filter(lambda name: name not in DOTS),
    st.fixed_dictionaries(
        {
            "dates": st.lists(st.sampled_from(["12-25", "2026-12-24/2027-01-01", "2026-05-01"]), unique=True),
            "weekdays": st.lists(st.sampled_from(["sat", "sun"]), unique=True),
        },
        optional={"description": st.text(st.characters(codec="utf-8", exclude_characters="\0"))},
    ),
    max_size=2,
)
PAUSES = st.dictionaries(
    st.sampled_from(["*", "mail", "a.b"]),
    st.fixed_dictionaries({"paused": st.just(True)}, optional={"reason": st.text('a\n"é\x7f')}),
)
LIMITS = st.dictionaries(st.sampled_from(["printer", "a.b", "1"]), st.fixed_dictionaries({"limit": st.integers(2, 9)}))


@settings(max_examples=examples(30), deadline=None)
@given(CALENDARS, PAUSES, LIMITS)
def test_a_round_trip_of_resources_is_empty(calendars: Any, queues: Any, semaphores: Any) -> None:
    """What `export` writes of calendars, pauses and limits is theirs in each format, and changes none of them."""

    async def trip() -> None:
        world = World()
        said = {"calendars": calendars, "queues": queues, "semaphores": semaphores}
        await world.service.sets.apply("prod", {}, **said)
        exported = asdict(await world.service.sets.resources("prod"))
        names = {part: sorted(each) for part, each in said.items()}
        assert {part: sorted(each) for part, each in exported.items()} == names
        for name, text in (
            ("a.toml", write_toml([], None, exported)),
            ("a.json", json.dumps(exported)),
            ("a.yaml", yaml.safe_dump(exported)),
        ):
            read: dict[str, dict[str, Any]] = {}
            for each in read_job_file(text, file=name).resources:
                read.setdefault(each.part, {})[each.name] = each.fields
            found = await world.service.sets.apply("prod", {}, **read, prune=True)  # type: ignore[arg-type]
            for word, changes in changes_in(found).items():
                left = asdict(changes)
                assert set(left.pop("unchanged")) == set(said.get(f"{word}s", {}))
                assert not any(left[kind] for kind in ("added", "changed", "adopted", "removed", "kept", "refused"))

    asyncio.run(trip())


@pytest.mark.parametrize("text", [TOML, YAML], ids=["toml", "yaml"])
def test_all_formats_say_the_same(text: str) -> None:
    """Also moments that a format knows by itself; `-` is read as what it looks like."""
    read = read_job_file(text, file="stdin")
    (job,) = read.jobs
    assert (read.set, job.id) == ("prod", "nightly")
    assert job.fields == {
        "schedule": "0 3 * * *",
        "starts_at": "2030-01-01T00:00:00+00:00",
        "command": ["make", "report"],
        "retry": {"attempts": 3},
    }
    again = json.dumps({"set": "prod", "jobs": [{"id": "nightly", **job.fields}]})
    assert read_job_file(again, file="a.json").jobs[0].fields == job.fields


SCHEDULES = st.sampled_from(["0 3 * * *", "every 10 minutes", "on friday at 10:00PM", None])


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.builds(lambda d, s: (d, s), definitions(), SCHEDULES), min_size=1, max_size=3))
def test_a_round_trip_is_empty(made: list[tuple[Definition, str | None]]) -> None:
    """What `export` writes of any jobs, in each format, changes none of them."""

    async def trip() -> None:
        world = World()
        for number, (definition, schedule) in enumerate(made):
            fields = {**fields_of(definition), "schedule": schedule}
            await world.service.jobs.add(f"job-{number}", **fields)  # type: ignore[arg-type]
        exported = [{"id": job.id, **job_fields_of(job)} for job in await world.service.jobs.list()]
        ids = tuple(f"job-{number}" for number in range(len(made)))
        for number, (name, text) in enumerate(
            [
                ("a.toml", write_toml(exported)),
                ("a.json", json.dumps({"jobs": exported})),
                ("a.yaml", yaml.safe_dump(json.loads(json.dumps({"jobs": exported})))),
            ]
        ):
            jobs = {job.id: job.fields for job in read_job_file(text, file=name).jobs}
            found = await world.service.sets.apply("prod", jobs)  # type: ignore[arg-type]
            assert (found.added, found.changed, found.removed, found.refused) == ((), {}, (), {})
            assert (found.unchanged if number else found.adopted) == ids

    asyncio.run(trip())


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ('[[jobs]]\nid = "a"\nnoop = true\nretry = {attempts = "x"}', "jobs[0].retry.attempts", "of a: retry.attempts"),
        (
            '[[jobs]]\nid = "a"\nnoop = true\nretrys = 1',
            "jobs[0].retrys",
            "no such field; did you mean retry?",
        ),
        ('[[jobs]]\nid = "a"\nnoop = true\nschedule = "61 * * * *"', "jobs[0].minute", "61"),
        ('[[jobs]]\nid = "a b"\nnoop = true', "jobs[0].id", "'a b'"),
        ("[[jobs]]\nnoop = true", "jobs[0].id", "None"),
        ("jobs = 3", "jobs", "3 is not allowed; allowed: a list of jobs"),
        ("jobs = [3]", "jobs[0]", "3 is not allowed; allowed: the fields of a job"),
        ('job = "x"', "job", "'x' is not allowed; allowed: one of set, calendars, semaphores, queues, jobs"),
        ("calendars = 3", "calendars", "3 is not allowed; allowed: calendars by name"),
        ("[calendars]\nc = 3", "calendars.c.calendar", "3 is not allowed"),
        ('[calendars.c]\ndates = ["13-45"]', "calendars.c.dates", "13-45"),
        ("[queues.mail]\npause = true", "queues.mail.pause", "a queue has no such field"),
        ("[semaphores.printer]\nlimit = 0", "semaphores.printer.limit", "0 is out of range"),
        ('set = "a b"', "set", "'a b' is not allowed; allowed: 1 to 128 of"),
        ("= 3", "file", "not TOML"),
    ],
)
def test_a_fault_names_file_path_value_and_what_is_allowed(text: str, field: str, message: str) -> None:
    """In words, and in parts for programs."""
    with pytest.raises(InvalidFile) as caught:
        read_job_file(text, file="a.toml")
    assert caught.value.field == field
    assert caught.value.message.startswith("a.toml: ")
    assert message in caught.value.message


def test_all_faults_are_told_at_once() -> None:
    """A line for each job that has one."""
    with pytest.raises(InvalidFile) as caught:
        read_job_file('{"jobs": [{"id": "a"}, {"id": "b", "noop": true}, {"id": "c", "noop": 1}]}', file="x.json")
    assert [line.partition(" of ")[0] for line in caught.value.message.splitlines()] == [
        "x.json: jobs[0]",
        "x.json: jobs[2]",
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"jobs": [], "jobs": []}', "a.json"),
        ('{"jobs": [{"id": "a", "noop": true, "delay": NaN}]}', "a.json"),
        ("[" * 100_000, "a.json"),
        ("a: " + "[" * 200, "a.yaml"),
        ("jobs: []\njobs: []", "a.yaml"),
        ("jobs: []\n---\njobs: []", "a.yaml"),
        ("- a", "a.yaml"),
        ("a = " + "[" * 100_000, "a.toml"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(
                f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
                for old, new in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "a.yaml",
        ),
        ("jobs: \udcff", "a.yaml"),
    ],
)
def test_hostile_texts_are_refused(text: str, name: str) -> None:
    """What is there twice, is nested without end, or stands for more than anybody could read."""
    with pytest.raises(InvalidFile):
        read_job_file(text, file=name)


def test_the_format_is_that_of_the_name_or_of_the_first_line() -> None:
    """Comments and empty lines say nothing."""
    for text, found in (
        ("# x\n\n[[jobs]]", "toml"),
        ('set = "a"', "toml"),
        ("# x\njobs:", "yaml"),
        ("", "yaml"),
        (' {"jobs": []}', "json"),
    ):
        assert format_of("stdin", text) == found
    assert format_of("A.YML", "[[jobs]]") == "yaml"
