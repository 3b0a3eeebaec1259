"""Notifying: what happens to jobs becomes runs of notifiers, each once, whoever dies meanwhile."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.engine.test_reap import a_node
from tests.unit.engine.world import entropy
from tests.unit.examples import a_definition, a_job, a_run
from tokimori.clock import Moment
from tokimori.engine.notification_sources import EVERY, PAGE, KnownJobs
from tokimori.engine.notifications import ASIDE, IDLE, SOON, Messenger
from tokimori.errors import StoreUnavailable
from tokimori.model.cause import Mute, cause_id, encode_mute
from tokimori.model.document import Document
from tokimori.model.expectation import ALARM_KIND, Alarm, AlarmKind, encode_alarm
from tokimori.model.ids import ClaimId, Incarnation, JobId, Lane, NodeId, RunId
from tokimori.model.job import Job, JobState
from tokimori.model.notifier import Notifier, NotifyOn, notifier_id
from tokimori.model.notifying import KIND, MOST_IDS, NAME, SUCCESSES
from tokimori.model.policies import OnExhausted
from tokimori.model.run import Run
from tokimori.model.transitions import RunState
from tokimori.ports.store import RunFilter
from tokimori.ports.working import Change, Claim
from tokimori.stores.memory.store import MemoryStore
from tokimori.testing.manual import VirtualClock

WORKER, ONE, OTHER = NodeId("worker"), NodeId("one"), NodeId("other")
ALL = dict.fromkeys(NotifyOn, ("ops",))
ON_FAILURE = {NotifyOn.FAILURE: ("ops",), NotifyOn.RECOVERY: ("ops",)}


def an_alarm(name: str, since: int, *, of_job: bool = True, kind: AlarmKind = AlarmKind.OVERDUE) -> Alarm:
    """An alarm."""
    return Alarm(kind=kind, name=name, since=Moment(since), expected_by=Moment(since), within=60, of_job=of_job)


class Failing(MemoryStore):
    """A store whose node dies at a call: just `before` it, or just after it."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.before = self.after = 0

    async def add_runs(self, runs: Sequence[Run], now: Moment) -> list[Run]:
        """See `Runs`."""
        self.before -= 1
        if self.before == 0:
            raise StoreUnavailable("died before it was sent")
        found = await super().add_runs(runs, now)
        self.after -= 1
        if self.after == 0:
            raise StoreUnavailable("died behind it")
        return found


class World:
    """A store, a node that ends runs, and nodes that notify."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Failing(self.clock)
        self.bytes, self.numbers = entropy(), count(1)
        self.messengers = {ONE: self.messenger(), OTHER: self.messenger()}

    def messenger(self) -> Messenger:
        """The duty of a node."""
        return Messenger(self.store, self.clock.monotonic(), lambda n: next(self.bytes)[:n].rjust(n, b"\0"))

    async def add(self, name: str, **terms: object) -> Job:
        """A job without a schedule."""
        incarnation = Incarnation(next(self.numbers))
        definition = a_definition(schedule=None, **terms)
        job = a_job(definition, id=JobId(name), incarnation=incarnation, created=self.clock.now())
        await self.store.add_jobs([job])
        return job

    async def tell(self, name: str = "ops", zone: str = "UTC", **terms: Any) -> None:
        """Add a notifier; nobody takes its runs."""
        await self.add(notifier_id(name), notifier=Notifier(**terms), queue="told", time_zone=zone)

    async def end(
        self, job_id: str, state: RunState = RunState.FAILED, error: str | None = "boom", *, parks: bool = False
    ) -> RunId:
        """Let a run of the job end."""
        job, number, now = await self.store.get_job(JobId(job_id)), next(self.numbers), self.clock.now()
        run_id = RunId(f"00000000-0000-7000-8000-{number:012}")
        asked = a_run(
            id=run_id, job_id=job.id, incarnation=job.incarnation, origin=f"m:{number}", state=RunState.READY, attempt=0
        )
        await self.store.add_run(asked, now)
        claim = Claim(id=ClaimId(f"c{number}"), node=WORKER, lanes=(Lane("default||"),), limit=9)
        (claimed,) = await self.store.claim(claim, now)
        change = Change(
            run_id=run_id,
            job_id=job.id,
            incarnation=job.incarnation,
            owner=WORKER,
            token=claimed.run.token,
            state=state,
            due=now,
            rank=now,
            failures=0,
            lost=0,
            started=now,
            ended=now,
            error=error,
            parks=parks,
        )
        await self.store.settle([change], WORKER, now)
        return run_id

    async def step(self, seconds: float = 1.0, by: NodeId = ONE) -> None:
        """Let time pass, and the node take a step, unless it dies."""
        self.clock.advance(seconds)
        await self.messengers[by].step(by, self.clock.now(), self.clock.monotonic())

    async def die(self, by: NodeId = ONE) -> None:
        """Let the node die in its next step."""
        await self.step(by=by)

    async def told(self, name: str = "ops") -> list[dict[str, Any]]:
        """The payloads of the notifier's runs, oldest first."""
        runs = await self.store.list_runs(RunFilter(job_id=notifier_id(name), limit=1_000))
        return [json.loads(run.payload) for run in reversed(runs) if run.payload]

    async def events(self, name: str = "ops") -> list[str]:
        """What the notifier told, by words."""
        return [each["event"] for each in await self.told(name)]


@pytest.fixture
async def world() -> World:
    """A world in which a node ends runs."""
    made = World()
    await made.store.register(a_node(WORKER))
    return made


async def test_a_failure_is_told_once_by_a_run(world: World) -> None:
    """Its payload says what happened to which run; looking again at the same end tells nothing."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.add("quiet")
    await world.step()
    run_id = await world.end("bad", error="exit code 3")
    await world.end("quiet")
    for _ in range(30):
        await world.step()
    (told,) = await world.told()
    assert (told["event"], told["job_id"], told["run_id"], told["error"]) == ("failure", "bad", run_id, "exit code 3")
    assert (told["subject"], told["notifier"], told["count"]) == ("bad has failed", "ops", 1)
    assert "exit code 3" in told["text"]


async def test_the_id_of_a_message_is_that_of_its_run(world: World) -> None:
    """So a receiver knows it again, whichever attempt sends it."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.end("bad")
    await world.step()
    (run,) = await world.store.list_runs(RunFilter(job_id=notifier_id("ops")))
    assert (json.loads(run.payload or "")["id"], run.origin) == (run.id, f"m:notify:{run.id}")


async def test_a_recovery_is_told_after_trouble_alone(world: World) -> None:
    """A success without a told failure is nothing; one behind it, also in the same look, is told once."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.end("bad", RunState.SUCCEEDED, None)
    await world.step()
    assert await world.events() == []
    await world.end("bad")
    world.clock.advance(0.1)
    await world.end("bad", RunState.SUCCEEDED, None)
    await world.end("bad", RunState.SUCCEEDED, None)
    await world.step()
    assert await world.events() == ["failure", "recovery"]


async def test_successes_are_looked_at_once_a_job_has_asked(world: World) -> None:
    """Nodes know by a document whether there is such a job."""
    await world.tell()
    await world.add("good", notify=ALL)
    await world.end("good", RunState.SUCCEEDED, None)
    await world.step()
    assert await world.events() == []
    await world.store.put_document(Document(kind=KIND, name=SUCCESSES, text="", version=1), None)
    await world.step(IDLE)
    assert await world.events() == ["success"]


async def test_a_parked_job_is_told_once(world: World) -> None:
    """Beside its failure."""
    await world.tell()
    await world.add("bad", notify=ALL, on_exhausted=OnExhausted.PARK)
    await world.end("bad", parks=True)
    await world.step()
    await world.step()
    assert sorted(await world.events()) == ["failure", "parked"]


async def test_a_job_that_is_parked_just_after_another_failure_is_told(world: World) -> None:
    """Though the job was looked at seconds before, when it was not parked yet."""
    await world.tell()
    await world.add("bad", notify=ALL, on_exhausted=OnExhausted.PARK)
    await world.end("bad")
    await world.step()
    await world.end("bad", parks=True)
    for _ in range(15):
        await world.step()
    assert sorted(await world.events()) == ["failure", "failure", "parked"]


async def test_a_job_that_is_parked_again_is_told_again(world: World) -> None:
    """Once somebody has resolved it, whether anything has succeeded since or not."""
    await world.tell()
    await world.add("bad", notify={NotifyOn.PARKED: ("ops",)}, on_exhausted=OnExhausted.PARK)
    for times in (1, 2, 3):
        await world.end("bad", parks=True)
        await world.step()
        await world.step()
        assert await world.events() == ["parked"] * times
        job = await world.store.get_job(JobId("bad"))
        await world.store.replace_job(job, replace(job, state=JobState.ENABLED, updated=world.clock.now()))
        await world.step(0.5)


async def test_the_failure_of_a_notifier_is_told_to_nobody(world: World) -> None:
    """Or a broken mail server would be told of by mail, for ever."""
    await world.add(notifier_id("ops"), notifier=Notifier(), notify=ON_FAILURE)  # which no door lets in
    await world.end(notifier_id("ops"))
    await world.step()
    assert await world.events() == []


async def test_of_what_was_before_the_first_notifier_nobody_is_told(world: World) -> None:
    """Nor of what came while there was none."""
    await world.add("bad", notify=ON_FAILURE)
    await world.end("bad")
    await world.step(60)
    await world.tell()
    await world.step(IDLE)
    assert await world.events() == []


async def test_one_cause_is_one_notification(world: World) -> None:
    """500 failures in the time of its bundle, whose errors differ by numbers alone, of whatever job."""
    await world.tell(bundle=60)
    for name in ("a", "b"):
        await world.add(name, notify=ON_FAILURE)
    for n in range(500):
        await world.end("ab"[n % 2], error=f"host 10.0.0.{n} does not answer")
    await world.end("a", error="disk full")
    for _ in range(80):
        await world.step()
    told = sorted(await world.told(), key=lambda each: -each["count"])
    assert [(each["count"], each["subject"]) for each in told] == [(500, "500 runs have failed"), (1, "a has failed")]
    assert len(told[0]["runs"]) == 5
    assert "and 495 more" in told[0]["text"]


async def test_a_muted_cause_is_told_to_nobody_until_it_is_over(world: World) -> None:
    """Neither is the recovery from it; other causes are, and what was told before is told to be over."""
    await world.tell()
    for name in ("a", "b", "c"):
        await world.add(name, notify=ON_FAILURE)
    await world.end("c", error="disk full")
    await world.step()
    now = world.clock.now()
    mute = Mute(id=cause_id("failed: disk full"), cause="failed: disk full", since=now, until=Moment(now + 60_000_000))
    await world.store.put_document(Document(kind="mute", name=mute.id, text=encode_mute(mute), version=1), None)
    for name, error in (("a", "disk full"), ("b", "no route"), ("c", "disk full")):
        await world.end(name, error=error)
    await world.step()
    for name in ("a", "c"):
        await world.end(name, RunState.SUCCEEDED)
    await world.step()
    assert sorted(each["subject"] for each in await world.told()) == [
        *("b has failed", "c has failed", "c has recovered")
    ]
    await world.step(60)
    await world.end("a", error="disk full")
    await world.step()
    assert "a has failed" in [each["subject"] for each in await world.told()]


async def test_many_notifications_at_once_become_few(world: World) -> None:
    """Without a bundle, too: 200 have a notification each, what is more joins one."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    for n in range(400):
        await world.end("bad", error=f"number {n}")
    for _ in range(20):
        await world.step()
    told = await world.told()
    assert sum(each["count"] for each in told) == 400
    assert len(told) <= 201


async def test_in_quiet_hours_messages_wait(world: World) -> None:
    """To their end, and what has one cause is one notification then."""
    await world.tell(quiet=("00:00-00:10",))  # the test begins at midnight
    await world.add("bad", notify=ON_FAILURE)
    for _ in range(3):
        await world.step()
        await world.end("bad")
    await world.step(500)
    assert await world.told() == []
    await world.step(100)
    assert [each["count"] for each in await world.told()] == [3]


@pytest.mark.parametrize(("hours", "zone"), [("at night", "UTC"), ("00:00-00:10", "Mars/Olympus_Mons")])
async def test_quiet_hours_that_can_not_be_read_hinder_nobody(world: World, hours: str, zone: str) -> None:
    """Another version has taken them, or this machine does not know the zone: it is told at once, and so are others."""
    await world.tell("odd", zone, quiet=(hours,))
    await world.tell()
    await world.add("bad", notify={NotifyOn.FAILURE: ("odd", "ops")})
    await world.end("bad")
    await world.step()
    assert (await world.events("odd"), await world.events()) == (["failure"], ["failure"])


async def test_what_is_overdue_is_told_once_and_its_coming(world: World) -> None:
    """By the documents that say so; another time that it is overdue is told again."""
    await world.tell()
    await world.add("late", notify=ALL)

    async def alarm(since: int, version: int) -> Document:
        raised = an_alarm("late", since)
        document = Document(kind=ALARM_KIND, name="late", text=encode_alarm(raised), version=version)
        await world.store.put_document(document, version - 1 or None)
        return document

    await alarm(1, 1)
    for _ in range(3):
        await world.step(EVERY)
    assert await world.events() == ["overdue"]
    known = await alarm(2, 2)
    await world.step(EVERY)
    assert await world.events() == ["overdue"] * 2
    await world.store.delete_document(ALARM_KIND, "late", known.version)
    for _ in range(3):
        await world.step(EVERY)
    assert await world.events() == ["overdue", "overdue", "recovery"]


async def test_of_what_is_overdue_under_long_names_less_is_told(world: World) -> None:
    """As much as the document of notifying has room for, each once; the rest when others have come."""
    await world.tell(elsewhere=True)
    names = [f"{n:0255}" for n in range(170)]
    for name in names:
        text = encode_alarm(an_alarm(name, 1, of_job=False))
        await world.store.put_document(Document(kind=ALARM_KIND, name=name, text=text, version=1), None)
    for _ in range(12):
        await world.step(EVERY)
    assert [each["job_id"] for each in await world.told()] == names[: MOST_IDS // 255]
    for name in names[:5]:
        await world.store.delete_document(ALARM_KIND, name, 1)
    for _ in range(6):
        await world.step(EVERY)
    overdue = [each["job_id"] for each in await world.told() if each["event"] == "overdue"]
    assert overdue == names[: MOST_IDS // 255 + 5]


async def test_what_runs_elsewhere_is_told_to_who_asks_for_it(world: World) -> None:
    """A dead man's switch, and its recovery."""
    await world.tell("ops")
    await world.tell("all", elsewhere=True)
    text = encode_alarm(an_alarm("backup", 1, of_job=False, kind=AlarmKind.FAILED))
    await world.store.put_document(Document(kind=ALARM_KIND, name="backup", text=text, version=1), None)
    await world.step()
    await world.store.delete_document(ALARM_KIND, "backup", 1)
    for _ in range(3):
        await world.step(EVERY)
    assert (await world.events("ops"), await world.events("all")) == ([], ["overdue", "recovery"])
    assert (await world.told("all"))[0]["error"] == "it has reported a failure"


async def test_while_there_is_no_notifier_little_is_asked(world: World) -> None:
    """An idle node asks for nothing but its beat; what others write makes it look soon."""
    messenger = world.messengers[ONE]
    await world.step()
    at = world.clock.monotonic()
    assert messenger.next_at == at + IDLE
    for _ in range(3):
        messenger.wake(at + 1)
    assert messenger.next_at == at + 1 + SOON


async def test_of_jobs_that_are_no_notifiers_few_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and all notifiers are found: their ids do not stand at the end."""
    for n in range(70):
        await world.tell(f"ops{n}")
    for n in range(300):
        await world.add(f"zeta{n:03}")
    read, list_jobs = list[str](), world.store.list_jobs

    async def counted(**asked: Any) -> list[Job]:
        found = await list_jobs(**asked)
        read.extend(job.id for job in found)
        return found

    monkeypatch.setattr(world.store, "list_jobs", counted)
    assert len(await KnownJobs(world.store).notifiers(0.0)) == 70
    assert len([each for each in read if each.startswith("zeta")]) <= 64


async def test_a_held_run_is_told_once(world: World) -> None:
    """While it is held; held again after another attempt it is told again."""
    await world.tell()
    await world.add("asks", notify=ALL)
    await world.end("asks", RunState.HELD, "who pays?")
    for _ in range(3):
        await world.step(EVERY)
    told = await world.told()
    assert [(each["event"], each["error"]) for each in told] == [("held", "who pays?")]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_who_takes_over_from_a_dead_node_sends_the_same(world: World, when: str) -> None:
    """Whether it died before they were runs, or behind that: nothing is lost, and nothing told twice."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.step()
    await world.end("bad")
    setattr(world.store, when, 1)
    await world.die()
    before = await world.told()
    await world.step(1, OTHER)
    assert await world.told() == before  # it waits: the other one may be alive
    for _ in range(6):
        await world.step(ASIDE, OTHER)
    after = await world.told()
    assert len(after) == 1
    assert before in ([], after)


async def test_what_another_version_wrote_hinders_nothing_else(world: World) -> None:
    """The step is taken again later, and raises nothing: the node has other things to do."""
    await world.tell()
    await world.store.put_document(Document(kind=KIND, name=NAME, text="{}", version=1), None)
    await world.step()
    assert world.messengers[ONE].next_at == world.clock.monotonic() + IDLE


async def test_a_node_that_is_late_does_nothing(world: World) -> None:
    """Another one has gone on meanwhile: it tells nobody of what that one has told of."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.step()
    await world.end("bad")
    await world.step(12, OTHER)
    for by in (ONE, OTHER, ONE, OTHER):
        await world.step(by=by)
    assert await world.events() == ["failure"]


async def test_what_can_not_be_read_is_left_alone(world: World) -> None:
    """An alarm of another version, and a notifier that a job names and that is gone."""
    await world.tell()
    await world.add("bad", notify={NotifyOn.FAILURE: ("gone", "ops")})
    await world.store.put_document(Document(kind=ALARM_KIND, name="bad", text="{}", version=1), None)
    await world.end("bad")
    await world.step()
    assert await world.events() == ["failure"]


async def test_a_notifier_that_was_just_added_is_told_at_once(world: World) -> None:
    """Though the node has looked a moment ago which there are: what is left out once is told to nobody later."""
    await world.tell("others")
    await world.step()
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.end("bad")
    for _ in range(15):
        await world.step()
    assert await world.events() == ["failure"]


async def test_it_is_said_that_a_notifier_is_gone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Once, in the log of the node: the job that names it was not changed when it was deleted."""
    await world.tell()
    await world.add("bad", notify={NotifyOn.FAILURE: ("gone",)})
    for _ in range(3):
        await world.end("bad")
        await world.step()
    assert caplog.text.count("bad names the notifier gone") == 1


async def test_a_paused_notifier_is_silent(world: World) -> None:
    """Its notifications are dropped, and those of others are sent."""
    await world.tell()
    await world.tell("others")
    await world.add("bad", notify={NotifyOn.FAILURE: ("ops", "others")})
    job = await world.store.get_job(notifier_id("ops"))
    await world.store.replace_job(job, replace(job, state=JobState.PAUSED))
    await world.end("bad")
    await world.step()
    assert (await world.events(), await world.events("others")) == ([], ["failure"])


async def test_of_notifications_as_many_are_sent_as_find_room(world: World) -> None:
    """A notifier with a limit loses what is more, and not all of them."""
    await world.tell(name="ops")
    job = await world.store.get_job(notifier_id("ops"))
    await world.store.replace_job(job, replace(job, definition=replace(job.definition, max_waiting=5), version=2))
    await world.add("bad", notify=ON_FAILURE)
    for n in range(8):
        await world.end("bad", error=f"number {n}")
    await world.step()
    assert len(await world.told()) == 5


async def test_far_behind_it_reads_on_in_order(world: World) -> None:
    """More ends than a page: all are told of, once each, when they are final."""
    await world.tell(bundle=1)
    await world.add("bad", notify=ON_FAILURE)
    await world.step()
    for _ in range(1_200):
        await world.end("bad", error="the same")
    for _ in range(40):
        await world.step()
    assert sum(each["count"] for each in await world.told()) == 1_200


async def test_how_far_it_is_is_written_rarely(world: World) -> None:
    """While nothing happens: a write of a document is not free."""
    await world.tell()
    versions = set()
    for _ in range(40):
        await world.step()
        versions.add((await world.store.get_document(KIND, NAME)).version)
    assert 2 <= len(versions) <= 12


async def test_a_clock_that_was_set_back_stops_nobody(world: World) -> None:
    """What ends after that is told of."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    world.clock.jump(3600)
    await world.step()
    world.clock.jump(-3600)
    await world.end("bad")
    await world.step()
    assert await world.events() == ["failure"]


@pytest.mark.parametrize("terms", [{"bundle": 60}, {"quiet": ("00:00-00:10",)}])
async def test_what_a_clock_gathered_that_was_ahead_is_told_soon(world: World, terms: dict[str, Any]) -> None:
    """As late as what is gathered now: after its bundle, or the quiet hours in which the test begins."""
    await world.tell(**terms)
    await world.add("bad", notify=ON_FAILURE)
    world.clock.jump(2 * 86_400)
    await world.end("bad")
    await world.step()
    world.clock.jump(-2 * 86_400)
    for _ in range(65):
        await world.step(10)
    assert await world.events() == ["failure"]


async def test_trouble_by_a_clock_that_was_ahead_ends(world: World) -> None:
    """The job that is parked anew, once resolved, is told of, and a run that succeeds is a recovery."""
    await world.tell()
    job = await world.add("bad", notify=ALL, on_exhausted=OnExhausted.PARK)

    async def resolve() -> None:
        parked = await world.store.get_job(job.id)
        await world.step(5)
        resolved = replace(parked, state=JobState.ENABLED, version=parked.version + 1, updated=world.clock.now())
        await world.store.replace_job(parked, resolved)

    world.clock.jump(2 * 86_400)
    await world.end("bad", parks=True)
    await world.step()
    world.clock.jump(-2 * 86_400)
    await world.step(5)
    await resolve()
    await world.end("bad", parks=True)
    await resolve()
    await world.end("bad", RunState.SUCCEEDED)
    await world.step(5)
    assert sorted(await world.events()) == ["failure", "failure", "parked", "parked", "recovery", "success"]


async def test_a_notifier_that_was_added_by_a_clock_ahead_tells(world: World) -> None:
    """Of what ends after that."""
    world.clock.jump(2 * 86_400)
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    world.clock.jump(-2 * 86_400)
    for _ in range(3):
        await world.step(5)
        await world.end("bad")
        await world.step(5)
    assert await world.events() == ["failure"] * 3


async def test_many_ends_of_a_clock_that_was_ahead_silence_nobody(world: World) -> None:
    """A store that never lets an end seem older than the one before goes on where it was, until the time has come."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.step()
    world.clock.jump(3600)
    await world.end("bad", RunState.SUCCEEDED)
    await world.step()
    world.clock.jump(-3600)
    for _ in range(3):
        for _ in range(PAGE // 2):
            await world.end("bad", RunState.SUCCEEDED)
        await world.step()
    await world.end("bad")
    for _ in range(3):
        await world.step()
    assert await world.events() == ["failure"]


async def test_who_was_frozen_in_its_step_tells_of_nothing_anew(world: World) -> None:
    """It reads that another node has gone on by its own old time, as if the clock had been set back."""
    await world.tell()
    await world.add("bad", notify=ON_FAILURE)
    await world.step()
    frozen = world.clock.now()
    await world.end("bad")
    for _ in range(40):
        await world.step()
    assert await world.events() == ["failure"]
    await world.messengers[OTHER].step(OTHER, frozen, world.clock.monotonic())
    for _ in range(20):
        await world.step(by=OTHER)
    assert await world.events() == ["failure"]
