"""One order for all jobs whose ids match a pattern."""

import pytest

from tests.unit.cli.conftest import Called
from tokimori.cli.bulk import is_pattern
from tokimori.errors import StoreUnavailable
from tokimori.service.jobs.jobs import Jobs


def states(called: Called) -> dict[str, str]:
    """The state of each job."""
    return {job["id"]: job["state"] for job in called.json("job", "list")}


@pytest.fixture
def jobs(called: Called) -> Called:
    """Three jobs of a kind, one after another, and one of none."""
    for job, parents in (("etl-a", []), ("etl-b", ["--after", "etl-a"]), ("etl-c", ["--after", "etl-b"]), ("web", [])):
        called("job", "add", job, "--noop", *parents)
    return called


def test_only_what_matches_is_changed(jobs: Called) -> None:
    """By each verb; what was done to which is printed."""
    assert jobs("job", "pause", "etl-?", "--reason", "repairs", "--yes") == "paused etl-a\npaused etl-b\npaused etl-c\n"
    assert states(jobs) == {"etl-a": "paused", "etl-b": "paused", "etl-c": "paused", "web": "enabled"}
    assert jobs.json("job", "resume", "etl-[ab]", "--yes") == {"jobs": ["etl-a", "etl-b"], "refused": {}}
    assert states(jobs)["etl-c"] == "paused"
    assert jobs("job", "trigger", "*", "--yes", code=1) == "triggered etl-a\ntriggered etl-b\ntriggered web\n"
    assert "etl-c was left as it is" in jobs.told
    assert sorted(run["job_id"] for run in jobs.json("run", "list")) == ["etl-a", "etl-b", "web"]
    assert jobs("job", "delete", "etl-*", "--yes") == "deleted etl-a\ndeleted etl-b\ndeleted etl-c\n"
    assert jobs.ids() == ["web"]


def test_what_is_gone_with_its_parent_is_deleted(jobs: Called) -> None:
    """With `--cascade` the first one takes the others with it, and that is no failure."""
    deleted = {"jobs": ["etl-a", "etl-b", "etl-c"], "refused": {}}
    assert jobs.json("job", "delete", "etl-*", "--cascade", "--yes") == deleted
    assert jobs.ids() == ["web"]


def test_a_run_is_not_asked_for_again_where_the_answer_was_lost(jobs: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store may have made it; only what was refused is tried again, as another job may have stood in its way."""
    asked: list[str] = []

    async def ask(_: object, job_id: str, **fields: object) -> None:
        asked.append(job_id)
        if job_id == "etl-b":
            raise StoreUnavailable("the reply is lost")

    monkeypatch.setattr(Jobs.request, "method", ask)
    jobs("job", "trigger", "etl-*", "--yes", code=1)
    assert "etl-b was left as it is: the reply is lost" in jobs.told
    assert asked == ["etl-a", "etl-b", "etl-c"]


def test_nothing_is_changed_without_leave(jobs: Called) -> None:
    """Where nobody can be asked it is refused; the same where nothing matches, and for what is meant for one job."""
    for verb in ("pause", "resume", "trigger", "delete"):
        jobs("job", verb, "etl-*", code=2)
        assert f"this would {verb} 3 jobs" in jobs.told
        jobs("job", verb, "none-*", "--yes", code=3)
    jobs("job", "trigger", "etl-*", "--yes", "--wait", code=2)
    jobs("job", "delete", "web", "--yes", code=2)
    jobs("job", "show", "etl-*", code=2)
    assert set(states(jobs).values()) == {"enabled"}
    assert jobs.json("run", "list") == []


def test_a_pattern_holds_what_no_id_does() -> None:
    """So that a job is never taken for a pattern."""
    assert [text for text in ("a*", "a?", "[ab]", "a.b_c:d@e+f-g", "") if is_pattern(text)] == ["a*", "a?", "[ab]"]


def test_a_job_is_copied_and_renamed_and_its_run_repeated(called: Called) -> None:
    """As the service does it; the new run names the old one."""
    called("job", "add", "a", "--noop", "--schedule", "@daily")
    assert called("job", "copy", "a", "b").startswith("copied a to b: enabled, next")
    assert called("job", "rename", "b", "c").startswith("renamed b to c: enabled, next")
    assert called.ids() == ["a", "c"]
    run = called.json("job", "trigger", "a", "--payload", "7")["id"]
    called("run", "retry", run, code=2)
    called("run", "cancel", run)
    again = called.json("run", "retry", run, "--key", "k")
    assert (again["retry_of"], again["payload"], again["became"]) == (run, "7", "made")
    assert called("run", "retry", run, "--key", "k") == f"run {again['id']} ready (known), a retry of {run}\n"
    assert f"retry of: {run}" in " ".join(called("run", "show", again["id"]).split())
    assert called("job", "logs", "a") == ""
    assert f"run {again['id']} ready" in called.told
    called("job", "logs", "c", code=3)


def test_a_list_is_watched_on_a_terminal_only(called: Called) -> None:
    """A file or a program would get no end of it."""
    called("job", "add", "a", "--noop")
    called("run", "list", "--watch", code=2)
    assert "terminal" in called.told
