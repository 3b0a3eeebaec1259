"""Tasks as code: a build runs when it was kept whole, one that is refused leaves nothing, earlier ones come back."""

import base64
from typing import Any, Unpack

import pytest
from msgspec.structs import replace

from tests.unit.service.world import World
from tokimori.errors import AlreadyExists, Forbidden, InvalidInput, InvalidSchedule, NotFound, Refused
from tokimori.model.access_token import Role, Scope
from tokimori.model.build import MOST_UPLOADS, PIECE, UPLOAD, Manifest, digest_of, frozen, pieces_of
from tokimori.model.job import Job, JobState
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.target import Build
from tokimori.model.task import MOST_BUILDS, BuildRecord, What
from tokimori.model.transitions import RunState
from tokimori.schedules.fluent import every
from tokimori.service.access import Access
from tokimori.service.definitions.arguments import JobArguments
from tokimori.service.doors.audited import audited
from tokimori.service.doors.authorization import authorized
from tokimori.service.doors.job_restrictions import JobRestrictions
from tokimori.service.service import Service
from tokimori.service.tasks import tasks
from tokimori.service.tasks.tasks import TaskDetails


def made(text: str, name: str = "ping", schedule: str | None = "every 10 seconds") -> tuple[BuildRecord, bytes]:
    """A build of a task that holds this text."""
    content = frozen({"function.py": text.encode()}, Manifest(task=name))
    size, pieces = len(content), len(pieces_of(content))
    return BuildRecord(digest=digest_of(content), size=size, pieces=pieces, schedule=schedule), content


async def build(
    service: Service, text: str = "1", name: str = "ping", schedule: str | None = "every 10 seconds", **terms: bool
) -> TaskDetails:
    """Keep a build, and let it run."""
    record, content = made(text, name, schedule)
    for number, piece in enumerate(pieces_of(content)):
        await service.tasks.put_piece(name, record.digest, number, piece)
    return await service.tasks.build(name, record, **terms)


async def kept(world: World) -> list[str]:
    """The names of all pieces in the store."""
    return [each.name for each in await world.store.list_documents("build")]


async def test_a_build_makes_the_job_of_its_task(world: World) -> None:
    """It runs the build by its schedule, and stops when a run has failed, as Keiji's tasks do."""
    task = await build(world.service)
    record, _ = made("1")
    job = await world.service.jobs.get("ping")
    assert job.definition.target == Build(task="ping", digest=record.digest)
    assert (job.definition.schedule, job.definition.on_exhausted) == ("every 10 seconds", "park")
    assert task.job == job
    assert (task.record.current, task.record.build.by) == (record.digest, "ada")
    assert await kept(world) == [f"ping@{record.digest}.0000"]


async def test_a_build_changes_what_it_says_and_nothing_else(world: World) -> None:
    """The id of the task, and what a person has said of the job, stay."""
    first = await build(world.service)
    await world.service.jobs.update("ping", timeout=60)
    second = await build(world.service, "2", schedule="on friday at 10:00PM")
    assert second.job is not None
    assert (second.job.definition.schedule, second.job.definition.timeout) == ("on friday at 10:00PM", 60)
    assert (second.record.id, second.job.incarnation) == (first.record.id, first.job and first.job.incarnation)
    assert [each.schedule for each in second.record.builds] == ["on friday at 10:00PM", "every 10 seconds"]


async def test_the_same_build_again_is_the_same(world: World) -> None:
    """Nothing is kept twice."""
    await build(world.service)
    again = await build(world.service)
    assert len(again.record.builds) == 1
    assert len(await kept(world)) == 1


async def test_of_many_builds_the_newest_are_kept(world: World) -> None:
    """With their pieces; those of older ones are gone."""
    for number in range(MOST_BUILDS + 3):
        await build(world.service, str(number))
    assert len((await world.service.tasks.get("ping")).record.builds) == MOST_BUILDS
    assert len(await kept(world)) == MOST_BUILDS


@pytest.mark.parametrize("change", [{"size": 7}, {"pieces": 2}, {"digest": "0" * 64}])
async def test_what_is_not_what_was_said_is_refused(world: World, change: dict[str, object]) -> None:
    """Nothing is left of it."""
    record, content = made("1")
    await world.service.tasks.put_piece("ping", record.digest, 0, pieces_of(content)[0])
    with pytest.raises((Refused, NotFound)):
        await world.service.tasks.build("ping", replace(record, **change))
    with pytest.raises(NotFound):
        await world.service.tasks.get("ping")
    assert (await world.service.jobs.list()).jobs == []


async def test_a_tampered_build_is_refused(world: World) -> None:
    """A piece that says something else is not what its digest names; nothing is left of it."""
    record, _ = made("1")
    await world.service.tasks.put_piece("ping", record.digest, 0, base64.b64encode(b"other").decode())
    with pytest.raises(Refused, match="is not what was built"):
        await world.service.tasks.build("ping", record)
    assert (await kept(world), len(await world.service.jobs.list())) == ([], 0)


async def test_no_piece_is_left_of_a_build_that_says_too_few(world: World) -> None:
    """What is there is deleted, and not what was said of it."""
    record, content = made("x" * PIECE)
    for number, piece in enumerate(pieces_of(content)):
        await world.service.tasks.put_piece("ping", record.digest, number, piece)
    with pytest.raises(Refused):
        await world.service.tasks.build("ping", replace(record, pieces=1))
    assert await kept(world) == []


async def test_a_build_of_another_task_is_refused(world: World) -> None:
    """A digest is of one task alone."""
    record, content = made("1", "other")
    await world.service.tasks.put_piece("ping", record.digest, 0, pieces_of(content)[0])
    with pytest.raises(Refused, match="is one of 'other'"):
        await world.service.tasks.build("ping", record)
    assert await kept(world) == []


async def test_a_schedule_that_is_none_leaves_nothing(world: World) -> None:
    """No piece, no task, no job; and a task that is there stays as it was."""
    with pytest.raises(InvalidSchedule):
        await build(world.service, schedule="every now and then")
    assert (await kept(world), len(await world.service.jobs.list()), await world.service.tasks.list()) == ([], 0, [])
    before = await build(world.service)
    with pytest.raises(InvalidSchedule):
        await build(world.service, "2", schedule="every now and then")
    assert await world.service.tasks.get("ping") == before
    assert len(await kept(world)) == 1


async def test_a_job_that_is_no_task_is_left_alone(world: World) -> None:
    """Its id is not free."""
    await world.service.jobs.add("ping", command="true")
    with pytest.raises(AlreadyExists, match="that is no task"):
        await build(world.service)
    assert await kept(world) == []


@pytest.mark.parametrize("name", ["a b", "../a", "é", "", "x" * 101])
async def test_a_name_that_is_none_is_refused(world: World, name: str) -> None:
    """Before anything is kept."""
    with pytest.raises(InvalidInput, match="is not the name of a task"):
        await world.service.tasks.put_piece(name, "0" * 64, 0, "AAAA")
    assert await kept(world) == []


@pytest.mark.parametrize(("number", "piece"), [(-1, "A"), (86, "A"), (True, "A"), (0, "A" * (PIECE * 2)), (0, 7)])
async def test_a_piece_that_no_document_holds_is_refused(world: World, number: int, piece: object) -> None:
    """Its number and its length are bounded."""
    with pytest.raises(InvalidInput):
        await world.service.tasks.put_piece("ping", "0" * 64, number, piece)  # type: ignore[arg-type]


async def test_an_earlier_build_comes_back(world: World) -> None:
    """With the schedule that it had; the log says so."""
    await build(world.service, "1", schedule="every 10 seconds")
    await build(world.service, "2", schedule="every 20 seconds")
    back = await world.service.tasks.rollback("ping")
    assert back.job is not None
    assert back.record.current == made("1")[0].digest
    assert back.job.definition.schedule == "every 10 seconds"
    assert back.record.events[-1].what is What.ROLLED_BACK
    forth = await world.service.tasks.rollback("ping", made("2")[0].digest[:8])
    assert forth.job is not None
    assert forth.job.definition.schedule == "every 20 seconds"
    await world.service.tasks.rollback("ping")
    with pytest.raises(NotFound, match="There is no build of ping before"):
        await world.service.tasks.rollback("ping")


async def test_who_builds_meanwhile_leaves_a_task_with_a_build(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build that was to come back may be one too many by then: that is said, and the task can still be shown."""
    for number in range(MOST_BUILDS):
        await build(world.service, str(number))
    jobs = world.service.tasks._jobs
    update = jobs.update

    async def updated(name: str, /, **said: Unpack[JobArguments]) -> Job:
        job = await update(name, **said)
        monkeypatch.undo()
        await build(world.service, "one more")
        return job

    monkeypatch.setattr(jobs, "update", updated)
    with pytest.raises(NotFound, match="No build of ping starts with"):
        await world.service.tasks.rollback("ping", made("0")[0].digest)
    assert (await world.service.tasks.get("ping")).record.build.digest == made("one more")[0].digest


async def test_a_task_is_disabled_and_enabled(world: World) -> None:
    """Its job is paused, and its log says so."""
    await build(world.service)
    disabled = await world.service.tasks.pause("ping")
    assert disabled.job is not None
    assert disabled.job.state is JobState.PAUSED
    enabled = await world.service.tasks.resume("ping")
    assert enabled.job is not None
    assert enabled.job.state is JobState.ENABLED
    said = [line.message for line in await world.service.tasks.logs("ping")]
    assert said == ["task ping interval: 10", "task disabled, exiting...", "task ping interval: 10"]


async def test_a_task_that_failed_runs_again_when_it_is_resolved(world: World) -> None:
    """Until then nothing of it starts; what is not parked is not resolved."""
    await build(world.service)
    world.pass_seconds(11)
    await world.fire()
    await world.work(Failed("exit code 3", exit_code=3))
    state = await world.service.tasks.state("ping")
    assert state.details.job is not None
    assert state.details.job.state is JobState.PARKED
    assert state.ended is not None
    assert state.ended.error == "exit code 3"
    resolved = await world.service.tasks.resolve("ping")
    assert resolved.job is not None
    assert resolved.job.state is JobState.ENABLED
    with pytest.raises(Refused):
        await world.service.tasks.resolve("ping")


async def test_a_restart_ends_what_runs_and_begins_anew(world: World) -> None:
    """Where nothing runs, nothing is asked for."""
    await build(world.service)
    await world.service.tasks.restart("ping")
    assert (await world.service.tasks.state("ping")).waiting is None
    world.pass_seconds(11)
    await world.fire()
    [claimed] = await world.begin(1)
    await build(world.service, "2", restart=True)
    state = await world.service.tasks.state("ping")
    assert (state.running and state.running.cancel) == "its task was restarted"
    assert state.waiting is not None
    assert (state.is_served, claimed.run.id) == (True, state.running and state.running.id)


async def test_a_deleted_task_frees_its_name(world: World) -> None:
    """Its job, its record and its builds are gone, and it can be built again."""
    await build(world.service)
    await build(world.service, name="ping2")
    await world.service.tasks.delete("ping2")
    assert len(await kept(world)) == 1
    await world.service.tasks.put_piece("ping", made("never built")[0].digest, 0, "AAAA")
    await world.service.tasks.delete("ping")
    assert (await kept(world), await world.service.tasks.list()) == ([], [])
    with pytest.raises(NotFound, match="tokimori task build ping"):
        await world.service.tasks.get("ping")
    await build(world.service)
    assert (await world.service.jobs.get("ping")).state is JobState.ENABLED


async def test_a_task_whose_job_was_deleted_is_still_one(world: World) -> None:
    """It is shown without a job, restarts nothing, and its next build makes the job anew."""
    await build(world.service)
    await world.service.jobs.delete("ping")
    assert (await world.service.tasks.restart("ping")).job is None
    assert [each.job for each in await world.service.tasks.list()] == [None]
    assert (await world.service.tasks.state("ping")).ended is None
    assert await world.service.tasks.logs("ping") != []
    assert (await build(world.service)).job is not None
    await world.service.jobs.delete("ping")
    await world.service.tasks.delete("ping")


async def test_tasks_are_listed_by_name(world: World) -> None:
    """From the one behind a name, and no more than are wanted."""
    for name in "cab":
        await build(world.service, name=name)

    async def names(after: str | None = None, limit: int = 100) -> list[str]:
        return [each.record.name for each in await world.service.tasks.list(after, limit)]

    assert await names() == ["a", "b", "c"]
    assert await names("a", 1) == ["b"]
    with pytest.raises(InvalidInput):
        await world.service.tasks.list(limit=1001)


async def test_the_log_shows_the_last_lines(world: World) -> None:
    """What the newest runs wrote stands in it; how many lines are shown is bounded."""
    await build(world.service)
    world.pass_seconds(11)
    await world.fire()
    await world.work(Succeeded(0))
    lines = await world.service.tasks.logs("ping", 1)
    assert len(lines) == 1
    for wrong in (0, 1001):
        with pytest.raises(InvalidInput):
            await world.service.tasks.logs("ping", wrong)


async def test_what_is_done_to_tasks_is_recorded(world: World) -> None:
    """Who has changed which build runs, and who has ordered what."""
    service = audited(world.service)
    await build(service)
    await service.tasks.pause("ping")
    await service.tasks.restart("ping")
    await service.tasks.delete("ping")
    recorded = {each.entry.what for each in await world.service.audit.list()}
    assert recorded == {"tasks.delete", "tasks.restart", "tasks.pause", "tasks.build", "tasks.put_piece"}


def as_token(world: World, role: Role, allowed: JobRestrictions = JobRestrictions(), **scope: Any) -> Service:  # noqa: B008
    return authorized(world.service, Access(author="bob", role=role, scope=Scope(**scope)), allowed)


async def test_a_token_builds_what_is_within_its_scope(world: World) -> None:
    """It sees and changes no other task, and none of its jobs runs another one's build."""
    await build(world.service, name="db-1")
    bob = as_token(world, Role.OPERATE, jobs=("web-",))
    await build(bob, name="web-1")
    assert [each.record.name for each in await bob.tasks.list()] == ["web-1"]
    for forbidden in (bob.tasks.pause("db-1"), bob.tasks.put_piece("db-1", "0" * 64, 0, "AAAA")):
        with pytest.raises(Forbidden):
            await forbidden
    with pytest.raises(NotFound):
        await bob.tasks.get("db-1")
    with pytest.raises(Forbidden, match="db-1"):
        await bob.jobs.add("web-2", build=f"db-1@{made('1', 'db-1')[0].digest}")


async def test_a_page_of_tasks_is_as_long_as_is_wanted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a token of some, those of others between them shorten no page: a short one is the last."""
    monkeypatch.setattr(tasks, "TASKS_AT_ONCE", 1)
    for name in ("a", "b-1", "c", "d-1", "d-2", "e"):
        await build(world.service, name=name)
    bob = as_token(world, Role.READ, jobs=("b-", "d-"))

    async def names(after: str | None, limit: int) -> list[str]:
        return [each.record.name for each in await bob.tasks.list(after, limit)]

    assert [await names(None, 2), await names("d-1", 2)] == [["b-1", "d-1"], ["d-2"]]


async def test_who_only_reads_builds_nothing(world: World) -> None:
    """It sees tasks and their logs."""
    await build(world.service)
    reader = as_token(world, Role.READ)
    assert len(await reader.tasks.list()) == 1
    assert len(await reader.tasks.logs("ping")) == 1
    with pytest.raises(Forbidden):
        await reader.tasks.pause("ping")


async def test_where_programs_are_named_no_build_is_one(world: World) -> None:
    """A build is code of who makes the job: http.job_commands would be worth nothing."""
    bob = as_token(world, Role.OPERATE, JobRestrictions(commands=("/usr/bin/report",)))
    with pytest.raises(Forbidden, match=r"http\.job_commands"):
        await build(bob)
    assert (await kept(world), len(await world.service.jobs.list())) == ([], 0)


async def test_a_job_names_a_build_in_one_word(world: World) -> None:
    """It is read as it is written; what names none is refused."""
    task = await build(world.service)
    named = f"ping@{task.record.current}"
    job = await world.service.jobs.add("again", build=named)
    assert job.definition.target == Build(task="ping", digest=str(task.record.current))
    for wrong in ("ping", "ping@", "@" + "0" * 64, f"a b@{'0' * 64}"):
        with pytest.raises(InvalidInput) as refused:
            await world.service.jobs.add("other", build=wrong)
        assert refused.value.field == "build"


async def test_a_build_that_is_whole_stays_as_it_is(world: World) -> None:
    """Whoever may build the task uploads no other piece of it; the same again is no fault."""
    await build(world.service)
    record, content = made("1")
    bob = as_token(world, Role.OPERATE)
    for number, piece in ((0, "AAAA"), (1, "AAAA")):
        with pytest.raises(AlreadyExists, match="is whole"):
            await bob.tasks.put_piece("ping", record.digest, number, piece)
    await bob.tasks.put_piece("ping", record.digest, 0, pieces_of(content)[0])
    assert await world.store.list_documents(UPLOAD) == []
    (kept_piece,) = await world.store.list_documents("build")
    assert kept_piece.text == pieces_of(content)[0]


async def test_a_build_that_was_tampered_with_is_made_anew(world: World) -> None:
    """By what its digest names, and nothing else."""
    await build(world.service)
    record, _ = made("1")
    (piece,) = await world.store.list_documents("build")
    await world.store.put_document(replace(piece, text="AAAA", version=piece.version + 1), piece.version)
    await build(world.service)
    (again,) = await world.store.list_documents("build")
    assert (again.text, again.name) == (piece.text, f"ping@{record.digest}.0000")


async def test_what_is_uploaded_is_of_its_principal(world: World) -> None:
    """Nobody else makes a build of his pieces, or puts another in their place."""
    record, content = made("1")
    bob = as_token(world, Role.OPERATE)
    await bob.tasks.put_piece("ping", record.digest, 0, pieces_of(content)[0])
    with pytest.raises(NotFound):
        await world.service.tasks.build("ping", record)
    await world.service.tasks.put_piece("ping", record.digest, 0, "AAAA")
    assert (await bob.tasks.build("ping", record)).record.build.by == "bob"


async def test_uploads_are_few_and_recorded(world: World) -> None:
    """Each with who began it; nobody may upload what he may not build."""
    bob = as_token(world, Role.OPERATE)
    for number in range(MOST_UPLOADS):
        for piece in (0, 1):
            await bob.tasks.put_piece("ping", f"{number:064x}", piece, "AAAA")
    with pytest.raises(Refused, match="are being uploaded already"):
        await bob.tasks.put_piece("ping", f"{MOST_UPLOADS:064x}", 0, "AAAA")
    entries = [each.entry for each in await world.service.audit.list()]
    assert [(each.what, each.who, each.of) for each in entries] == MOST_UPLOADS * [
        ("tasks.put_piece", "bob", "task ping")
    ]
    for who in (
        as_token(world, Role.OPERATE, queues=("qa",)),
        as_token(world, Role.OPERATE, jobs=("web-",)),
        as_token(world, Role.OPERATE, JobRestrictions(own_user="root")),
        as_token(world, Role.OPERATE, JobRestrictions(commands=("true",))),
    ):
        with pytest.raises(Forbidden):
            await who.tasks.put_piece("ghost", "0" * 64, 0, "AAAA")
    assert len(await world.store.list_documents(UPLOAD)) == MOST_UPLOADS


async def test_a_build_says_terms_of_its_job(world: World) -> None:
    """They hold as long as builds say them, also after a rollback; what a person has said beside them stays."""
    record, content = made("1")
    await world.service.tasks.put_piece("ping", record.digest, 0, pieces_of(content)[0])
    await world.service.tasks.build("ping", replace(record, terms={"retry": {"attempts": 3}, "on_exhausted": "fail"}))
    await world.service.jobs.update("ping", timeout=60)
    job = await world.service.jobs.get("ping")
    assert (job.definition.retry.attempts, job.definition.on_exhausted) == (3, "fail")
    await build(world.service, "2")
    job = await world.service.jobs.get("ping")
    assert (job.definition.retry.attempts, job.definition.timeout) == (1, 60)
    await world.service.tasks.rollback("ping")
    assert (await world.service.jobs.get("ping")).definition.retry.attempts == 3
    with pytest.raises(InvalidInput, match="retry"):
        await world.service.jobs.add("j", noop=True, schedule=every(10).seconds.retry(3))


@pytest.mark.parametrize("now", [False, True])
async def test_what_runs_of_a_deleted_task_goes_on_unless_it_is_to_end(world: World, now: bool) -> None:
    """It is known until it ends, to whoever builds the task anew."""
    await build(world.service)
    world.pass_seconds(11)
    await world.fire()
    [claimed] = await world.begin(1)
    await world.service.tasks.delete("ping", now=now)
    run = (await world.service.runs.get(claimed.run.id)).run
    assert (run.state, run.cancel is not None) == (RunState.RUNNING, now)


async def test_the_log_shows_all_attempts(world: World) -> None:
    """Each with what it wrote, at its own time, and how it ended."""
    await build(world.service)
    await world.service.jobs.update("ping", retry={"attempts": 3})
    world.pass_seconds(11)
    await world.fire()
    for outcome in (Failed("no such host"), Failed("exit code 3", exit_code=3), Succeeded(0)):
        await world.work(outcome)
        world.pass_seconds(10)
    lines = [line for line in await world.service.tasks.logs("ping") if line.run_id is not None]
    assert [line.message for line in lines] == ["[ task error ]: no such host", "[ task error ]: exit code 3"]
    assert lines[0].at < lines[1].at
