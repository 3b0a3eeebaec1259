"""Jobs that an app declares follow its code, and never an edit by hand."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.unit.service.world import World
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.job import JobState
from tokimori.model.target import Function
from tokimori.service.definitions.differences import app_version, version_order
from tokimori.service.sets.app_jobs import Declared, Vanished, check_vanished, declare, forecast_of, version_followed

NIGHTLY = {"function": "app.nightly", "schedule": "0 3 * * *"}


async def declared(
    world: World, jobs: Mapping[str, Mapping[str, Any]], vanished: Vanished = "report", version: str = ""
) -> Sequence[str]:
    """What people are told when the app starts."""
    said = Declared(app="app", jobs=jobs, vanished=vanished, version=version)
    foretold = await forecast_of(world.service.jobs, said)
    told = await declare(world.service.jobs, said)
    assert sorted(text for mark, _, text in foretold if mark in "!-") == sorted(told)
    return told


async def test_new_jobs_are_added_and_belong_to_the_app(world: World) -> None:
    """The owner is the app; a second start changes nothing."""
    assert await declared(world, {"nightly": NIGHTLY}) == []
    job = await world.service.jobs.get("nightly")
    assert (job.definition.target, job.definition.owner) == (Function(name="app.nightly"), "app")
    assert await declared(world, {"nightly": NIGHTLY}) == []
    assert await world.service.jobs.get("nightly") == job


async def test_code_may_declare_them_in_any_order(world: World) -> None:
    """A job that runs after another one, or for its failure, may stand before it; a circle is refused by its name."""
    jobs: dict[str, dict[str, Any]] = {
        "last": {"function": "app.last", "parents": [{"job": "first"}], "on_failure_job": "alarm"},
        "first": {"function": "app.first", "on_failure_job": "alarm"},
        "alarm": {"function": "app.alarm"},
    }
    assert await declared(world, jobs) == []
    assert (await world.service.jobs.get("last")).definition.on_failure_job == "alarm"
    turned = {**jobs, "first": {**jobs["first"], "parents": [{"job": "last"}]}, "last": {"function": "app.last"}}
    assert await declared(world, turned) == []
    with pytest.raises(InvalidInput):
        await declare(world.service.jobs, Declared(app="app", jobs={**turned, "last": jobs["last"]}))


async def test_a_circle_takes_no_order_from_the_others(world: World) -> None:
    """The refusal names the circle, and what is declared before what it runs after is added all the same."""
    jobs: dict[str, dict[str, Any]] = {
        "chicken": {"function": "app.chicken", "parents": [{"job": "egg"}]},
        "egg": {"function": "app.egg", "parents": [{"job": "chicken"}]},
        "last": {"function": "app.last", "parents": [{"job": "first"}]},
        "first": {"function": "app.first"},
    }
    with pytest.raises(InvalidInput, match=r"parents: (egg → chicken → egg|chicken → egg → chicken) is a cycle"):
        await declare(world.service.jobs, Declared(app="app", jobs=jobs))
    assert [job.id for job in (await world.service.jobs.list()).jobs] == ["first", "last"]


async def test_changed_ones_are_updated(world: World) -> None:
    """What is said anew is changed, and what is not said any more gets its default back."""
    await declared(world, {"nightly": {**NIGHTLY, "priority": 3, "retry": {"attempts": 3, "delay": 5}}})
    assert await declared(world, {"nightly": {**NIGHTLY, "retry": {"attempts": 4}, "schedule": "0 4 * * *"}}) == []
    definition = (await world.service.jobs.get("nightly")).definition
    assert (definition.schedule, definition.priority) == ("0 4 * * *", 0)
    assert (definition.retry.attempts, definition.retry.delay) == (4, type(definition.retry)().delay)


async def test_an_edit_by_hand_is_never_overwritten_in_silence(world: World) -> None:
    """Neither when the code stays as it was nor when it changes.

    Each start says so. Undone by hand, the job follows the code again.
    """
    await declared(world, {"nightly": NIGHTLY})
    await world.service.jobs.update("nightly", schedule="0 5 * * *")
    for jobs in ({"nightly": NIGHTLY}, {"nightly": {**NIGHTLY, "priority": 1}}):
        assert "edited by hand" in (await declared(world, jobs))[0]
        assert (await world.service.jobs.get("nightly")).definition.schedule == "0 5 * * *"
    await world.service.jobs.update("nightly", schedule="0 3 * * *")
    assert await declared(world, {"nightly": {**NIGHTLY, "priority": 1}}) == []
    assert (await world.service.jobs.get("nightly")).definition.priority == 1


async def test_a_job_of_another_app_stays_and_that_app_is_named(world: World) -> None:
    """Whatever it says else: its runs are the other one's, so nobody is told to delete the job."""
    other = {"nightly": {"function": "other.nightly", "schedule": "0 3 * * *"}}
    assert await declare(world.service.jobs, Declared(app="other", jobs=other)) == []
    job = await world.service.jobs.get("nightly")
    for vanished in ("report", "delete"):
        (said,) = await declared(world, {"nightly": NIGHTLY}, vanished)
        assert "the app other has added it" in said and "another id" in said and "job delete" not in said
        assert await declared(world, {}, vanished) == []
        assert await world.service.jobs.get("nightly") == job


async def test_a_job_of_somebody_else_stays(world: World) -> None:
    """The same id, added by hand before the app: it is reported, with the command that makes room."""
    await world.service.jobs.add("nightly", noop=True)
    said = await declared(world, {"nightly": NIGHTLY})
    assert "somebody else has added it" in said[0]
    assert "`tokimori job delete nightly`" in said[0]


async def test_what_a_program_has_declared_as_it_asked_follows_the_code(world: World) -> None:
    """A web process of the app adds the job before any node, maybe by other code; an edit since then stays."""
    for job_id in ("nightly", "edited"):
        await world.service.jobs.add(job_id, owner="app", function=f"app.{job_id}", schedule="0 2 * * *")
    await world.service.jobs.update("edited", priority=5)
    said = await declared(world, {"nightly": NIGHTLY, "edited": {**NIGHTLY, "function": "app.edited"}})
    assert [line.split()[1] for line in said] == ["edited"]
    assert (await world.service.jobs.get("nightly")).definition.schedule == "0 3 * * *"
    assert await declared(world, {"nightly": {**NIGHTLY, "priority": 2}}) == []
    assert (await world.service.jobs.get("nightly")).definition.priority == 2


@pytest.mark.parametrize(
    ("vanished", "state"), [("report", JobState.ENABLED), ("pause", JobState.PAUSED), ("delete", None)]
)
async def test_vanished_jobs(world: World, vanished: Vanished, state: JobState | None) -> None:
    """They are reported, and paused or deleted where the app says so; one edited by hand stays as it is."""
    await declared(world, {"nightly": NIGHTLY, "kept": NIGHTLY, "edited": NIGHTLY})
    await world.service.jobs.update("edited", priority=5)
    said = await declared(world, {"kept": NIGHTLY}, vanished)
    assert len(said) == 2
    assert any("job edited is not declared by the app app any more, but was edited by hand" in line for line in said)
    if state is None:
        with pytest.raises(NotFound):
            await world.service.jobs.get("nightly")
    else:
        assert (await world.service.jobs.get("nightly")).state is state
    assert [(await world.service.jobs.get(each)).state for each in ("kept", "edited")] == [JobState.ENABLED] * 2


async def test_a_job_deleted_by_hand_comes_back(world: World) -> None:
    """The code declares it still."""
    await declared(world, {"nightly": NIGHTLY})
    await world.service.jobs.delete("nightly")
    assert await declared(world, {"nightly": NIGHTLY}) == []
    assert (await world.service.jobs.get("nightly")).definition.owner == "app"


async def test_a_large_app_follows_its_code(world: World) -> None:
    """What is known of its jobs has more room than one document has, and what others have declared meanwhile stays."""
    jobs = {f"{n:0255}": {"noop": True} for n in range(1_000)}
    assert await declared(world, jobs) == []
    changed = {job_id: {"noop": True, "priority": 1} for job_id in jobs}
    assert await declared(world, {**changed, "one-more": NIGHTLY}) == []
    assert (await world.service.jobs.get(f"{999:0255}")).definition.priority == 1
    assert len(await declared(world, {"one-more": NIGHTLY})) == len(jobs)


async def test_a_count_of_runs_is_said_once(world: World) -> None:
    """`runs_remaining` counts down from the first start, and no later start sets it back."""
    await declared(world, {"nightly": {**NIGHTLY, "runs_remaining": 5}})
    await world.service.jobs.update("nightly", runs_remaining=2)
    await declared(world, {"nightly": {**NIGHTLY, "runs_remaining": 5, "priority": 1}})
    job = await world.service.jobs.get("nightly")
    assert (job.runs_remaining, job.definition.priority) == (2, 1)


def test_what_becomes_of_vanished_jobs_is_one_of_three_words() -> None:
    """Another one is refused."""
    with pytest.raises(InvalidInput, match="prune"):
        check_vanished("burn")


async def test_jobs_follow_the_newest_version(world: World) -> None:
    """Whichever starts last: an older version changes nothing and says so, and so does code without one."""
    later = {"nightly": {**NIGHTLY, "schedule": "0 4 * * *"}}
    assert await declared(world, {"nightly": NIGHTLY}, version="9") == []
    assert await declared(world, later, version="10") == []
    for version in ("9", ""):
        (told,) = await declared(world, {"nightly": NIGHTLY}, version=version)
        assert "changes no schedule and no job: version 10 has declared them" in told
        assert "to go back, give this code a greater one: App('app', version=…)" in told
    assert (await world.service.jobs.get("nightly")).definition.schedule == "0 4 * * *"
    assert await declared(world, {"nightly": NIGHTLY}, version="2026-11-29") == []
    assert (await world.service.jobs.get("nightly")).definition.schedule == "0 3 * * *"


async def test_older_code_counts_again_if_somebody_says_so(world: World) -> None:
    """`app version` tells which version the jobs follow; let back, older code declares them when it starts."""
    assert await version_followed(world.service._shared, "app") == ""
    assert await declared(world, {"nightly": NIGHTLY}, version="10") == []
    assert await version_followed(world.service._shared, "app") == "10"
    (told,) = await declared(world, {"nightly": {**NIGHTLY, "schedule": "0 4 * * *"}}, version="9")
    assert told.endswith("or say `tokimori app version app 9` and start it again")
    assert await version_followed(world.service._shared, "app", "9") == "9"
    assert await declared(world, {"nightly": {**NIGHTLY, "schedule": "0 4 * * *"}}, version="9") == []
    assert (await world.service.jobs.get("nightly")).definition.schedule == "0 4 * * *"
    (told,) = await declared(world, {"nightly": NIGHTLY})
    (word,) = shlex.split(told.partition("`tokimori app version app ")[2].partition("`")[0])
    assert await version_followed(world.service._shared, "app", word) == ""
    assert await declared(world, {"nightly": NIGHTLY}) == []
    assert (await world.service.jobs.get("nightly")).definition.schedule == "0 3 * * *"
    with pytest.raises(InvalidInput, match="neither a number nor a date"):
        await version_followed(world.service._shared, "app", "next")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (None, 0),
        (9, 10),
        (1.5, "2"),
        (10**6, date(2026, 1, 1)),
        ("2026-01-01", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("2026-01-01T08:00:00+02:00", "2026-01-01T07:00:00Z"),
    ],
)
def test_versions_are_numbers_or_dates(older: object, newer: object) -> None:
    """Numbers are compared as numbers, and dates follow them."""
    assert version_order(app_version(older)) < version_order(app_version(newer))


@pytest.mark.parametrize("wrong", ["1.2.3", "new", "nan", [7]])
def test_other_versions_are_refused(wrong: object) -> None:
    """Nobody could say which is newer."""
    with pytest.raises(InvalidInput, match=r"version: .* is neither a number nor a date"):
        app_version(wrong)


@pytest.mark.parametrize("wrong", ["1.10", "1e3", "-1"])
def test_a_text_with_a_point_is_no_version(wrong: str) -> None:
    """As a number 1.10 is older than 1.9, and the newer deploy would change nothing."""
    with pytest.raises(InvalidInput, match=r"1\.10 would be older than 1\.9"):
        app_version(wrong)


async def test_a_paused_job_that_is_declared_again_goes_on(world: World) -> None:
    """After a rollback, if the app itself has paused it, whoever owns it; what a person has paused stays paused."""
    owned = {**NIGHTLY, "function": "app.owned", "owner": "ada"}
    both = {"nightly": NIGHTLY, "owned": owned, "weekly": {**NIGHTLY, "function": "app.weekly"}}
    await declared(world, both, "pause", version="1")
    await world.service.jobs.pause("weekly", "stop")
    await declared(world, {}, "pause", version="2")
    assert (await world.service.jobs.get("nightly")).state is JobState.PAUSED
    await version_followed(world.service._shared, "app", "1")
    back = Declared(app="app", jobs=both, vanished="pause", version="1")
    assert [each[:2] for each in await forecast_of(world.service.jobs, back)] == [("~", "nightly"), ("~", "owned")]
    assert await declared(world, both, "pause", version="1") == []
    assert [(await world.service.jobs.get(each)).state for each in ("nightly", "owned")] == [JobState.ENABLED] * 2
    assert (await world.service.jobs.get("weekly")).state is JobState.PAUSED


async def test_a_deploy_is_foretold(world: World) -> None:
    """Each job that would not stay as it is has a mark; nothing is changed."""
    daily = {"function": "app.daily", "schedule": "@daily"}
    for job_id in ("gone", "asked", "changed", "same", "edited"):
        await declared(world, {job_id: daily if job_id != "asked" else {"function": "app.asked"}})
    await world.service.jobs.update("edited", priority=3)
    jobs: dict[str, dict[str, Any]] = {
        "changed": {**daily, "priority": 7},
        "same": daily,
        "edited": {**daily, "priority": 9},
        "new": daily,
    }
    before = await world.service.jobs.get("changed")
    told = await forecast_of(world.service.jobs, Declared(app="app", jobs=jobs))
    assert [(mark, job_id) for mark, job_id, _ in told] == [
        ("-", "asked"),
        ("~", "changed"),
        ("!", "edited"),
        ("-", "gone"),
        ("+", "new"),
    ]
    texts = {job_id: text for _, job_id, text in told}
    assert texts["changed"] == "it changes: priority"
    assert "STAYS ENABLED and still becomes due by its schedule" in texts["gone"]
    assert "and stays enabled: `tokimori job delete asked`" in texts["asked"]
    assert await world.service.jobs.get("changed") == before
