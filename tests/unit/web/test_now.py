import re

import pytest

from tests.unit.api.asgi import JSON
from tests.unit.service.world import NODE, World
from tests.unit.web.conftest import EVIL, Tab, add
from tokimori.clock import HOUR, MINUTE, Moment
from tokimori.engine.settle import change_of
from tokimori.model.expectation import looked_at
from tokimori.model.outcome import Failed, Hold, Succeeded
from tokimori.model.policies import Approval, Approver
from tokimori.ports.nodes import Beat, StartedRun
from tokimori.service.service import Service
from tokimori.web.pictures import Minute, strip
from tokimori.web.visit import Doubts


async def test_an_empty_page_says_how_to_begin(tab: Tab) -> None:
    """Where there are no jobs, it says how to add one: in a terminal, from a crontab, over HTTP to this door."""
    text = (await tab.show("/")).text
    assert 'tokimori job add hello --schedule "* * * * *" --command "echo hello"' in text
    assert "tokimori job import crontab FILE" in text
    assert "No node takes part" in text
    body = re.search(r"-d '(.*?)'", text)
    assert body is not None
    made = await tab.ask("/api/v2/jobs", "POST", *JSON.items(), body=body[1].encode())
    assert made.status == 201


async def test_counters_lead_to_what_they_count(world: World, tab: Tab) -> None:
    """Each is a number, a word, and a link to a list of so many."""
    await world.register()
    for name in ("bad", "good", "stopped"):
        await add(world, name, schedule="@daily")
    await world.trigger("bad")
    await world.work(Failed(error="no luck", exit_code=3))
    held = await world.trigger("good")
    await world.service.runs.hold(held.id, "wait")
    await world.service.jobs.pause("stopped")
    await world.trigger("good")
    await world.begin(1)
    page = await tab.show("/")
    for link, number, kind in (
        ("/runs?state=running", 1, "run"),
        ("/jobs?state=failing", 1, "job"),
        ("/runs?state=held", 1, "run"),
        ("/jobs?state=paused", 1, "job"),
        ("/runs?state=blocked", 0, "run"),
        ("/jobs?state=overdue", 0, "job"),
    ):
        assert link in page.links()
        word = link.partition("=")[2]
        assert f" {number} {word} " in page.text
        assert len((await tab.show(link)).keys(kind)) == number, link


async def test_addresses_of_before_lead_to_the_things(world: World, tab: Tab) -> None:
    """The page was one list: links to its jobs and runs stand in old mails."""
    for noun, name in (("job", "hello"), ("run", "0197a1b2")):
        answer = await tab.ask(f"/?{noun}={name}")
        assert (answer.status, answer.headers["location"]) == (303, f"/{noun}s/{name}")


async def test_who_is_asked_has_a_counter_of_its_own(world: World, tab: Tab) -> None:
    """A run that waits for an approval is not counted among those that somebody holds."""
    await add(world, "gate", approval=True)
    await world.trigger("gate")
    asked = Approval(approver=Approver.OPERATE, asked=world.clock.now())
    await world.work(Hold("it waits for an approval", asked), started=False)
    page = await tab.show("/")
    assert " 0 held 1 to approve " in page.text
    assert "to approve gate" in (await tab.show("/runs?state=approval")).text
    assert (await tab.show("/jobs?state=approval")).keys("job") == ["gate"]
    for screen in ("jobs", "runs"):
        assert "gate" not in (await tab.show(f"/{screen}?state=held")).text
    jobs, job = (await tab.show("/jobs")).text, (await tab.show("/jobs/gate")).text
    assert "gate 1 · 1 to approve" in jobs and "to approve gate" in jobs
    assert " gate, to approve " in job and "Last run to approve" in job


async def test_what_is_held_is_cancelled_without_what_is_to_be_approved(world: World, tab: Tab) -> None:
    """All that match are those of the list, also if it has none: to the store both are held."""
    await add(world, "gate", approval=True)
    await world.trigger("gate")
    await world.work(
        Hold("it waits for an approval", Approval(approver=Approver.OPERATE, asked=world.clock.now())), started=False
    )
    await tab.press("runs.cancel", match="?state=held")
    (run,) = (await world.service.runs.list(state=["held"])).runs
    assert run.cancel is None
    await add(world, "stop")
    await world.trigger("stop")
    await world.work(Hold("somebody looks"))
    await tab.press("runs.cancel", match="?state=held")
    assert [each.job_id for each in (await world.service.runs.list(state=["held"])).runs] == ["gate"]
    await tab.press("runs.cancel", match="?state=approval")
    assert not (await world.service.runs.list(state=["held"])).runs


async def test_held_runs_are_found_behind_many_that_are_to_be_approved(world: World, tab: Tab) -> None:
    """A page of the list has as many as fit, and all that match are found, also those on its later pages."""
    asked = Approval(approver=Approver.OPERATE, asked=world.clock.now())
    await add(world, "stop")
    await add(world, "gate", approval=True)
    for job, held in (("stop", Hold("somebody looks")), ("gate", Hold("it waits for an approval", asked))):
        for _ in range(60):
            await world.trigger(job)
            await world.work(held, started=False)
    for state, job in (("held", "stop"), ("approval", "gate")):
        first = await tab.show(f"/runs?state={state}")
        (older,) = (link for link in first.links() if "before=" in link)
        rest = (await tab.show(older)).keys("run")
        assert (len(first.keys("run")), len({*first.keys("run"), *rest})) == (50, 60)
        jobs = {(await world.service.runs.get(each)).run.job_id for each in rest}
        assert jobs == {job}
    assert "Cancel 60 runs that match?" in (await tab.show("/do/runs.cancel?match=%3Fstate%3Dheld")).text


async def test_a_refused_run_that_can_t_begin_says_so(world: World, tab: Tab) -> None:
    """Its page says who has refused it and that it ends when it could begin, beside what keeps it from that."""
    await add(world, "gate", approval=True)
    run = await world.service.jobs.trigger("gate")
    asked = Approval(approver=Approver.OPERATE, asked=world.clock.now())
    await world.work(Hold("it waits for an approval", asked), started=False)
    await world.service.jobs.pause("gate")
    await world.service.runs.refuse(run.id, "not today")
    text = (await tab.show(f"/runs/{run.id}")).text
    assert "not today; it ends as failed when it could begin" in text and "Job gate is paused" in text


async def test_a_clock_in_doubt_needs_somebody(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the clocks of the node and of the store disagree the first screen says so."""
    says = "The clocks of this node and of the store disagree"
    assert says not in (await tab.show("/")).text
    monkeypatch.setattr(Service, "trusts_time", False)
    assert f"doubt clock {says}: nothing fires here." in (await tab.show("/")).text


async def test_a_store_in_doubt_needs_somebody(world: World) -> None:
    """What the node knows against its disk, its loop and the store is told, with the command that says more.

    Jobs that it names are for readers of all jobs alone; what the store can't promise stands with the nodes.
    """
    causes = (
        ("disk", "the disk can't be written: No space left", "/var/lib/a"),
        ("fired", "what is due is not fired: `tokimori doctor` names it", "due and not fired: etl"),
    )
    doubts = Doubts(causes, ("Redis may forget a second of what it has acknowledged",))
    await world.register("01a1fe76-c901-7d5c-b9f7-4e869d9c8e52", {})
    page = await Tab(world, doubts=doubts).show("/")
    assert "The disk can't be written: No space left (/var/lib/a). tokimori doctor says more." in page.text
    assert "What is due is not fired: tokimori doctor names it (due and not fired: etl)." in page.text
    assert "Needs you 2, worst first" in page.text
    eve = Tab(world, (await world.service.tokens.create("eve", "read", queues=["a"])).text, doubts)
    text = (await eve.show("/")).text
    assert "What is due is not fired: tokimori doctor names it." in text
    assert "etl" not in text and "/var/lib" not in text
    says = "The store does not keep every promise: Redis may forget a second of what it has acknowledged."
    assert says in (await eve.show("/nodes")).text


async def test_what_needs_somebody_says_why_and_what_mends_it(world: World, tab: Tab) -> None:
    """A parked job is resolved, a failure retried, a held run resumed, a pause ended: worst first."""
    await add(world, "parked", on_exhausted="park")
    await world.trigger("parked")
    await world.work(Failed(error="no luck", exit_code=3))
    await add(world, "failing")
    failed = await world.trigger("failing")
    await world.work(Failed(error="connection refused: db-3:5432", exit_code=1))
    await add(world, "held")
    held = await world.trigger("held")
    await world.service.runs.hold(held.id, "not before the audit")
    await world.service.queues.pause("Mail", EVIL)
    page = await tab.show("/")
    assert "no luck" in page.text
    assert "exit 1: connection refused: db-3:5432" in page.text
    assert "not before the audit" in page.text
    assert f"Queue Mail is paused by ada (now): {EVIL}. Runs wait" in page.text
    keys = [str(row["data-key"]) for row in page.named("tr") if "data-key" in row]
    needs = [key for key in keys if not key.startswith("run ")]
    assert (needs[0], needs[-1]) == ("parked parked", "paused Mail")
    assert f"Needs you {len(needs)}, worst first" in page.text.replace("  ", " ")
    for path in ("/", "/nodes"):
        (badge, _) = [each["title"] for each in (await tab.show(path)).named("i") if "title" in each]
        assert badge == f"{len(needs)} need you", "the menu counts what the first screen shows"
    assert f"/runs/{failed.id}" in page.links()
    assert "Mail resumed" in (await tab.press("queues.resume", "Mail", back="/")).text
    assert await world.service.queues.pauses() == []


async def test_many_needs_are_grouped_by_cause(world: World, tab: Tab) -> None:
    """Above eight: whom it concerns, a list of them, and one act for all, which a reader does not get."""
    await world.register()
    for n in range(12):
        await add(world, f"etl-{n:02}")
        await world.trigger(f"etl-{n:02}")
        await world.work(Failed(error="connection refused: db-3:5432" if n else "out of memory", exit_code=1))
    page = await tab.show("/")
    assert "Needs you 12, worst first" in page.text.replace("  ", " ")
    assert re.search(
        r"failing 11 jobs exit 1: connection refused: db-#: etl-\d+, etl-\d+, etl-\d+ and 8 more", page.text
    )
    assert "failing etl-00 Its last run failed" in page.text
    assert "/jobs?state=failing" in page.links()
    (ask,) = [link for link in page.links() if link.startswith("/do/runs.retry?on=")]
    assert "Retry 11 runs?" in (await tab.show(ask)).text
    token = (await world.service.tokens.create("eve", "read")).text
    assert not [link for link in (await Tab(world, token).show("/")).links() if link.startswith("/do/")]


async def test_a_long_run_has_just_ended(world: World, tab: Tab) -> None:
    """The last ends come first, of whichever runs: one that began before others, and ended after them, is the first."""
    for name in ("long", "short"):
        await add(world, name)
    long = await world.trigger("long")
    (begun,) = await world.begin(1)
    short = await world.trigger("short")
    await world.work(Succeeded())
    world.pass_seconds(60)
    change = change_of(begun, Succeeded(), owner=NODE, now=world.clock.now(), chance=0, started=None, pid=7)
    await world.store.settle([change], NODE, world.clock.now())
    assert [*(await tab.show("/")).keys("run")][-2:] == [long.id, short.id]


async def test_what_is_overdue_is_said(world: World, tab: Tab) -> None:
    """In a sentence; without alarms there is no such line."""
    known = await world.service.expectations.set("backup", 60)
    world.pass_seconds(61)
    alarm = looked_at(known, world.clock.now())[1]
    assert alarm is not None
    await world.service.expectations._alarms.add("backup", alarm)
    page = await tab.show("/")
    assert "A good end was expected by 01:01:00 CET, 1 s ago; it has never ended well." in page.text
    assert " 1 overdue" in page.text and "/expectations/backup" in page.links()
    listed = "/expectations?state=overdue&state=failed"
    assert listed in page.links(), "it is no job: the list of jobs does not have it"
    assert (await tab.show(listed)).keys("expectation") == ["backup"]
    assert any(link.startswith("/do/expectations.ping?on=backup&") for link in page.links())


async def test_a_run_that_no_node_may_run_is_seen(world: World, tab: Tab) -> None:
    """It has been ready for long, and says which label is missing."""
    await world.register()
    await add(world, "train", labels={"gpu": "yes"})
    await world.trigger("train")
    assert "gpu" not in (await tab.show("/")).text
    world.pass_seconds(90)
    for path in ("/", "/nodes"):
        assert re.search(r"ready train Due 1 min ago: .*label.* gpu=yes", (await tab.show(path)).text)


async def test_running_runs_are_seen_beside_how_long_they_take(world: World, tab: Tab) -> None:
    """A bar over the median, what is left, and past the 95th percentile by how much it is over the median."""
    await add(world)
    for seconds in (60, 60, 80):
        await world.trigger("hello")
        (claimed,) = await world.begin(1)
        started = world.clock.now()
        world.pass_seconds(seconds)
        now = world.clock.now()
        change = change_of(claimed, Succeeded(), owner=NODE, now=now, chance=0, started=started, pid=7)
        await world.store.settle([change], NODE, now)
    run = await world.trigger("hello")
    (claimed,) = await world.begin(1)
    begun = StartedRun(run_id=run.id, token=claimed.run.token, pid=7, at=world.clock.now())
    await world.store.tick(Beat(node=NODE, started=(begun,)), world.clock.now())
    world.pass_seconds(20)
    assert re.search(r"running hello .*20 s of ~1 min 00 s about 40 s left", (await tab.show("/")).text)
    world.pass_seconds(80)
    assert "1 min 40 s of ~1 min 00 s 40 s over" in (await tab.show("/")).text
    assert "1 min 40 s 40 s over" in (await tab.show("/wall")).text
    assert "Runs for 1 min 40 s of ~1 min 00 s" in (await tab.show(f"/runs/{run.id}")).text


async def test_the_hours_say_what_began_what_failed_and_what_comes(world: World, tab: Tab) -> None:
    """A picture made on the server, that says its numbers to who does not see it."""
    await add(world, schedule="*/10 * * * *")
    await world.trigger("hello")
    await world.work(Failed(error="no luck"))
    world.pass_seconds(60)
    page = await tab.show("/")
    pictures = [str(each.get("aria-label")) for each in page.named("svg")]
    assert "Runs by minute of the past hour and the next: 1 began, 1 of them failed" in pictures
    assert "· 1 firing" in page.text


async def test_a_run_that_is_tried_again_stands_where_it_was_made(world: World, tab: Tab) -> None:
    """Not at its newest attempt: failures of one moment would wander through the hour."""
    await add(world, retry={"attempts": 2, "delay": 1200})
    await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    world.pass_seconds(1500)
    await world.work(Succeeded())
    world.pass_seconds(60)
    assert "01:00 · 1 firing" in (await tab.show("/")).text


async def test_few_questions_are_asked_however_many_jobs_there_are(world: World, tab: Tab) -> None:
    """The first screen of 200 jobs asks the store no more than that of two."""
    counts = []
    for number in (2, 200):
        for n in range(number):
            if n >= 2 or number == 2:
                await add(world, f"job-{n:03}", schedule="@daily")
        asked = [world.count(name) for name in ("get_job", "list_jobs", "list_runs", "last_runs")]
        await tab.show("/")
        counts.append(sum(map(len, asked)))
        del world.store.__dict__["get_job"], world.store.__dict__["list_jobs"]
        del world.store.__dict__["list_runs"], world.store.__dict__["last_runs"]
    assert counts[1] <= counts[0] + 4


async def test_the_rail_counts_what_needs_somebody(world: World, tab: Tab) -> None:
    """On every screen, anew after each act."""
    await world.register()
    await add(world)
    run = await world.trigger("hello")
    await world.service.runs.hold(run.id, "wait")
    assert "Now 1 " in (await tab.show("/jobs")).text
    assert "Now 1 " not in (await tab.press("runs.resume", run.id, back="/jobs")).text


def test_failures_that_are_near_to_each_other_are_told_once_on_a_phone() -> None:
    """Those within twenty minutes of one that is told there stand in the strip of wide windows alone."""
    now = Moment(100 * HOUR)
    minutes = [Minute(Moment(now - ago * MINUTE), 3, 1) for ago in (42, 27, 12)]
    drawn = str(strip(minutes, now, ()))
    assert drawn.count('halo"') == 2 and drawn.count('halo odd"') == 1


def test_a_label_of_the_hours_counts_all_failures_around_it() -> None:
    """A label that says one beside several red marks is wrong; together the labels say them all."""
    now = Moment(100 * HOUR)
    minutes = [Minute(Moment(now - ago * MINUTE), 3, 1) for ago in (42, 41, 38, 20)]
    assert re.findall(r">(\d+) failed<", str(strip(minutes, now, ()))) == ["3", "1"]


async def test_the_next_hour_says_how_far_it_is_known(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many firings to come the first are counted, and the picture is no promise of silence behind them."""
    await add(world, schedule="* * * * *")
    assert "alone, to" not in (await tab.show("/")).text
    monkeypatch.setattr("tokimori.web.screens.now.MOST_LISTED", 5)
    world.pass_seconds(60)
    assert re.search(r"to come the first 1,000 alone, to 01:0\d:00", (await tab.show("/")).text)
