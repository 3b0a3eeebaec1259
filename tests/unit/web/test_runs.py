import re
from copy import copy

import pytest

from tests.unit.service.world import NODE, World
from tests.unit.web.conftest import Tab, add
from tokimori.clock import HOUR, Moment
from tokimori.engine.settle import change_of
from tokimori.model.access_token import Role
from tokimori.model.outcome import Failed, Hold, RetryIn, Succeeded
from tokimori.model.policies import Approval, Approver
from tokimori.model.run import Output
from tokimori.model.transitions import RunState
from tokimori.service.runs import failures, runs
from tokimori.web.screens import runs as screen
from tokimori.web.words import distance, duration


async def test_runs_are_listed_newest_first(world: World, tab: Tab) -> None:
    """With state, job, the end of the id, when, how long, and what it says."""
    await add(world)
    first = await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    second = await world.trigger("hello")
    page = await tab.show("/runs")
    assert page.keys("run") == [second.id, first.id]
    assert re.search(rf"failed hello run {first.id[-8:]} 1 s ago 0 ms 1 exit 3: no luck requested by ada h", page.text)
    assert re.search(rf"ready hello run {second.id[-8:]} due now – –", page.text)


async def test_runs_are_filtered_by_what_stands_in_the_address(world: World, tab: Tab) -> None:
    """Beginning of a job's id, state, queue, owner, since and until."""
    await add(world, "etl-a", queue="etl", owner="ada")
    await add(world, "mail")
    old = await world.trigger("etl-a")
    await world.work(Failed(error="no luck"))
    world.pass_seconds(3600)
    new = await world.trigger("mail")
    for query, found in (
        ("q=etl", [old.id]),
        ("job=mail", [new.id]),
        ("state=failed", [old.id]),
        ("state=failed&state=ready", [new.id, old.id]),
        ("queue=etl", [old.id]),
        ("owner=ada", [old.id]),
        ("since=2030-01-01T00:30:00Z", [new.id]),
        ("until=2030-01-01T00:30:00Z", [old.id]),
        ("cause=failed%3A+no+luck", [old.id]),
        ("text=luck", [old.id]),
        ("node=h", [old.id]),
        ("over=1h", []),
    ):
        assert (await tab.show(f"/runs?{query}")).keys("run") == found, query


async def test_pages_of_runs_lead_through_all(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the list of all, and on the page of a job."""
    monkeypatch.setattr(screen, "SHOWN", 7)
    monkeypatch.setattr("tokimori.web.tabs.runs.SHOWN", 7)
    await add(world)
    for _ in range(30):
        await world.trigger("hello")
    for first in ("/runs", "/jobs/hello"):
        path, found = first, list[str]()
        while path:
            page = await tab.show(path)
            found += page.keys("run")
            path = next((link for link in page.links() if "before=" in link and link != path), "")
        assert len(found) == len(set(found)) == 30


async def test_a_page_of_a_run(world: World, tab: Tab) -> None:
    """Each attempt with host, process and exit, a waterfall of all, and the output of the newest, or of another."""
    await add(world, retry={"attempts": 2})
    run = await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3), Succeeded(exit_code=0))
    for number, written in ((1, b"first try"), (2, b"second try")):
        await world.store.save_outputs([Output(run_id=run.id, attempt=number, size=9, head=written)])
    page = await tab.show(f"/runs/{run.id}")
    assert "1 failed after 0 ms, exit 3 01:00:01 to 01:00:01 on h, pid 7" in page.text
    assert "second try" in page.text
    assert f"/runs/{run.id}?attempt=1" in page.links()
    assert "first try" in (await tab.show(f"/runs/{run.id}?attempt=1")).text


async def test_a_cause_stands_as_it_was_written(world: World, tab: Tab) -> None:
    """With the numbers that are left out where failures are counted, and beside the last good run."""
    await add(world)
    good = await world.trigger("hello")
    await world.work(Succeeded())
    run = await world.trigger("hello")
    (claimed,) = await world.begin(1)
    output = Output(run_id=run.id, attempt=1, size=26, head=b"ok\nbank said 401: expired\n")
    failed, now = Failed(error="exit code 3", exit_code=3), world.clock.now()
    change = change_of(claimed, failed, owner=NODE, now=now, chance=0, started=now, output=output)
    await world.store.settle([change], NODE, now)
    await world.store.save_outputs([output])
    (says,) = [each for each in (await tab.show("/runs")).named("td") if "pf" in str(each.get("class"))]
    assert says.get("class") == "wide w5 pf"  # on phones, too
    page = await tab.show(f"/runs/{run.id}")
    assert "exit 3: bank said 401: expired All with this cause · Last good run" in page.text
    assert f"/runs/{good.id}" in page.links()
    job = await tab.show("/jobs/hello")
    assert "The last run failed: exit 3: bank said 401: expired." in job.text and "Last good" in job.text
    for path in ("/runs", "/jobs/hello", "/"):
        assert "exit 3: bank said 401: expired" in (await tab.show(path)).text, path


async def test_a_failed_run_says_how_many_failed_so(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the last day, itself among them, and of how many jobs; a single failure says nothing of it."""
    await add(world)
    run = await world.trigger("hello")
    await world.work(Failed(error="bank said 401", exit_code=3))
    path = f"/runs/{run.id}"
    assert "failed so" not in (await tab.show(path)).text
    await add(world, "other")
    for name, says in (("other", "401 2 runs of 2 jobs"), ("hello", "401 3 runs of 2 jobs")):
        await world.trigger(name)
        await world.work(Failed(error="bank said 402", exit_code=3))
        assert f"{says} failed so in 24 hours." in (await tab.show(path)).text
    monkeypatch.setattr(failures, "MOST_FAILURES", 2)
    monkeypatch.setattr(failures, "_PAGE", 2)
    assert "401 At least 2 runs of 2 jobs failed so in 24 hours." in (await tab.show(path)).text
    world.pass_seconds(25 * 3600)
    assert "failed so" not in (await tab.show(path)).text


async def test_a_run_took_from_its_first_begin_to_its_last_end(world: World, tab: Tab) -> None:
    """In lists as on its page: waits between attempts and earlier attempts count."""
    await add(world, retry={"attempts": 2, "delay": 60})
    run = await world.trigger("hello")
    for seconds in (70, 10):
        (claimed,) = await world.begin(1)
        began = world.clock.now()
        world.pass_seconds(5)
        failed, now = Failed(error="no luck"), world.clock.now()
        await world.store.settle([change_of(claimed, failed, owner=NODE, now=now, chance=0, started=began)], NODE, now)
        world.pass_seconds(seconds)
    kept = (await world.service.runs.get(run.id)).run
    assert kept.state is RunState.FAILED and kept.details.begun is not None
    whole = duration((kept.ended or 0) - kept.details.begun)
    for path in ("/runs", "/jobs/hello", "/", f"/runs/{run.id}"):
        assert f" {whole} " in (await tab.show(path)).text, path
    away = distance(kept.details.begun, world.clock.now())
    assert f" {away} {whole} " in (await tab.show("/runs")).text, "when it first began"


async def test_a_link_and_a_command_are_copied_from_a_run(world: World, tab: Tab) -> None:
    """The command asks for the same once more, with its payload between quotes."""
    await add(world)
    run = await world.service.jobs.trigger("hello", payload='{"to": "a b"}')
    page = await tab.show(f"/runs/{run.id}")
    copied = [each["data-copy"] for each in page.named("button") if "data-copy" in each]
    assert copied == ["", """tokimori job trigger hello --payload '{"to": "a b"}'"""]
    assert f"The same again Copy as command {copied[1]}" in page.text, "it is seen before it is copied"


async def test_the_output_stands_before_the_family(world: World, tab: Tab) -> None:
    """Which is at its side, if it has room there."""
    await add(world, "extract")
    for name in ("load", *(f"child-{n}" for n in range(3))):
        await add(world, name, parents=[{"job": "extract"}])
    slim = await world.trigger("load")
    assert "Family of this run" not in (await tab.show(f"/runs/{slim.id}")).text
    await world.trigger("extract")
    await world.work(Succeeded())
    wide = await world.trigger("extract")
    page = await tab.show(f"/runs/{wide.id}")
    assert page.text.index("Output") < page.text.index("Family of this run")


async def test_an_attempt_says_what_it_cost(world: World, tab: Tab) -> None:
    """Processors and memory, as far as they are known; a running one says nothing of it."""
    await add(world)
    run = await world.trigger("hello")
    (claimed,) = await world.begin(1)
    assert " CPU" not in (await tab.show(f"/runs/{run.id}")).text
    now = world.clock.now()
    change = change_of(claimed, Succeeded(0), owner=NODE, now=now, chance=0, started=now, cpu=1_200_000, memory=2**27)
    await world.store.settle([change], NODE, now)
    assert "1.2 s CPU, 128.0 MiB memory" in (await tab.show(f"/runs/{run.id}")).text


async def test_the_waterfall_says_what_took_how_long(world: World, tab: Tab) -> None:
    """The wait before it began, each attempt, and the waits between them."""
    await add(world, retry={"attempts": 2, "delay": 60})
    run = await world.trigger("hello")
    world.pass_seconds(63)
    waits = [str(each.get("aria-label")) for each in (await tab.show(f"/runs/{run.id}")).named("svg")]
    assert "Before it began: 1 min 03 s ready" in waits, "nothing that has not begun is said to be late"
    await world.work(RetryIn(60))
    world.pass_seconds(60)
    await world.work(Failed(error="no luck", exit_code=3))
    page = await tab.show(f"/runs/{run.id}")
    pictures = " ".join(str(each.get("aria-label")) for each in page.named("svg"))
    assert "Before it began: 1 min 03 s late; Attempt 1: " in pictures
    assert "Attempt 2: ! exit 3, 0 ms" in pictures
    assert re.search(r"waits 1 min(?! 00)", page.text)
    assert re.search(r"01:00:01\+\d+ s", page.text)  # the scale begins at the clock


async def test_earlier_attempts_are_left_out(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that was tried often the page shows the newest attempts, and the command that shows the others."""
    await add(world, retry={"asked_retries": 1_000, "asked_delay": 0})
    run = await world.trigger("hello")
    monkeypatch.setattr(runs, "SHOWN_ATTEMPTS", 5)
    await world.work(*[RetryIn(0)] * 9, Succeeded())
    page = await tab.show(f"/runs/{run.id}")
    assert f"5 earlier ones are not shown: tokimori run show {run.id} --before 6" in page.text


async def test_an_attempt_that_is_no_number_of_one_shows_the_newest(world: World, tab: Tab) -> None:
    """However long the number is that somebody writes into the address."""
    await add(world)
    run = await world.trigger("hello")
    assert (await tab.ask(f"/runs/{run.id}?attempt={'9' * 400}")).status == 200


async def test_an_approval_is_offered_to_whoever_may_give_it(world: World, tab: Tab) -> None:
    """On the run's page and at Now, with its answer afterwards; an operator only cancels what an admin approves."""
    await add(world, "gate", approval=True, approver="admin")
    run = await world.trigger("gate")
    asks = Hold(
        "asks", Approval(approver=Approver.ADMIN, asked=world.clock.now(), until=Moment(world.clock.now() + HOUR))
    )
    await world.work(asks, started=False)
    operator = Tab(world, (await world.service.tokens.create("op", Role.OPERATE)).text)
    for path in ("/", f"/runs/{run.id}"):
        all_acts = ["runs.approve", "runs.refuse", "runs.cancel"]
        assert (await tab.show(path)).acts() == (all_acts[:2] if path == "/" else all_acts)
        page = await operator.show(path)
        assert page.acts() == ["runs.cancel"]
        assert re.search(r"waits for an approval: .* may answer, until \d\d:\d\d:\d\d [A-Z]+[.:]", page.text)
    assert f"Approve run {run.id[-8:]} of gate?" in (await tab.show(f"/do/runs.approve?on={run.id}")).text
    assert "Not begun" in page.text
    answered = await tab.press("runs.approve", run.id, back=f"/runs/{run.id}", reason="checked")
    assert re.search("approved by .* at .*: checked", answered.text)
    assert "runs.approve" not in answered.acts()


async def test_nobody_is_offered_to_approve_what_he_asked_for(world: World, tab: Tab) -> None:
    """With four eyes: the page says so in place of the button, on the run's page and at Now; another one gets it."""
    await add(world, "gate", approval=True, four_eyes=True)
    operator = Tab(world, (await world.service.tokens.create("op", Role.OPERATE)).text)
    await operator.press("jobs.trigger", "gate")
    (run,) = await world.service.runs.list(job_id="gate")
    asks = Hold("asks", Approval(approver=Approver.OPERATE, four_eyes=True, asked=world.clock.now()))
    await world.work(asks, started=False)
    for path in ("/", f"/runs/{run.id}"):
        assert (await tab.show(path)).acts()[:2] == ["runs.approve", "runs.refuse"]
        page = await operator.show(path)
        assert page.acts() == ["runs.refuse", "runs.cancel"] and "⊘ Approve: " in page.text
    assert "⊘ Approve: you asked for it, and its job wants the approval of another" in page.text


async def test_a_reader_is_never_shown_what_another_with_his_rights_may_do(world: World, tab: Tab) -> None:
    """Tabs share answers; those that name a reader's own requests are his alone."""
    await add(world, "gate", approval=True, four_eyes=True)
    tokens = [(await world.service.tokens.create(name, Role.OPERATE)).text for name in ("asker", "other")]
    asker, other = copy(tab), copy(tab)
    for each, token in zip((asker, other), tokens, strict=True):
        each._always = [("host", "localhost"), ("authorization", f"Bearer {token}")]
    await asker.press("jobs.trigger", "gate")
    (run,) = await world.service.runs.list(job_id="gate")
    asks = Hold("asks", Approval(approver=Approver.OPERATE, four_eyes=True, asked=world.clock.now()))
    await world.work(asks, started=False)
    for path in ("/", f"/runs/{run.id}"):
        texts = [(await each.ask(path, "GET", ("tokimori-part", "1"))).body.decode() for each in (asker, other)]
        assert ["⊘ Approve" in text for text in texts] == [True, False], path


async def test_what_can_be_done_with_a_run(world: World, tab: Tab) -> None:
    """One that has not begun is cancelled or held, a held one resumed, one that has ended repeated."""
    await add(world)
    run = await world.trigger("hello")
    assert (await tab.show(f"/runs/{run.id}")).acts() == ["runs.cancel", "runs.hold"]
    held = await tab.press("runs.hold", run.id, back=f"/runs/{run.id}", reason="not before the audit")
    assert "not before the audit" in held.text
    assert held.acts() == ["runs.resume", "runs.cancel"]
    over = await tab.press("runs.cancel", run.id, back=f"/runs/{run.id}")
    assert over.acts() == ["runs.retry"]
    world.pass_seconds(1)
    again = await tab.press("runs.retry", run.id, back=f"/runs/{run.id}")
    (newest, _) = await world.service.runs.list(job_id="hello")
    assert f"Run {newest.id[-8:]} started" in again.text
    assert f"/runs/{newest.id}" in again.links()


async def test_a_run_of_a_parent_leads_to_it(world: World, tab: Tab) -> None:
    """And a run that repeats another leads to that."""
    await add(world)
    await add(world, "child", parents=[{"job": "hello"}])
    parent = await world.trigger("hello")
    await world.work(Succeeded())
    (child,) = await world.service.runs.list(job_id="child")
    assert f"/runs/{parent.id}" in (await tab.show(f"/runs/{child.id}")).links()
    again = (await world.service.runs.retry(parent.id)).run
    assert f"/runs/{parent.id}" in (await tab.show(f"/runs/{again.id}")).links()


async def test_backfilled_runs_are_called_so(world: World, tab: Tab) -> None:
    """In the list of runs, with the occurrence that each makes good: it starts at another time."""
    await add(world, schedule="0 0 * * *", time_zone="UTC")
    now = world.clock.now()
    (run,) = (await world.service.jobs.backfill("hello", now, now)).runs
    world.pass_seconds(3600 * 24)
    assert "backfill of Tue 1 Jan 01:00:00" in (await tab.show("/runs")).text
    assert "backfill of" in (await tab.show(f"/runs/{run.id}")).text


async def test_a_run_of_a_deleted_job(world: World, tab: Tab) -> None:
    """Runs outlive their job, and are still shown."""
    await add(world)
    run = await world.trigger("hello")
    await world.work(Succeeded())
    await world.service.jobs.delete("hello")
    assert "succeeded" in (await tab.show(f"/runs/{run.id}")).text


async def test_columns_are_chosen_in_the_address(world: World, tab: Tab) -> None:
    """The chosen ones are shown, and stay with a filter; names that are none change nothing."""
    await add(world)
    run = await world.trigger("hello")
    await world.work(Succeeded())
    heads = ("Attempts", "Asked by", "Whole id", "Occurrence")
    assert [head in (await tab.show("/runs")).text.split("When Took")[1] for head in heads] == [
        True,
        True,
        False,
        False,
    ]
    page = await tab.show("/runs?column=id&column=nope&q=hel")
    assert run.id in page.text and "Asked by" not in page.text.split("When Took")[1]
    assert [each["value"] for each in page.named("input") if each.get("name") == "column" and "checked" in each] == [
        "id"
    ]


async def test_a_search_for_a_text_goes_on_to_older_runs(
    world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says in how many runs it has looked, and where to go on."""
    monkeypatch.setattr("tokimori.service.search.runs.PAGE", 2)
    monkeypatch.setattr("tokimori.service.search.runs.MOST_SEARCHED", 4)
    await add(world)
    first = await world.trigger("hello")
    await world.service.runs.cancel(first.id, "a needle")
    for _ in range(6):
        await world.trigger("hello")
    page = await tab.show("/runs?text=needle")
    assert "looked for in 4 runs" in page.text
    more = next(link for link in page.links() if "before=" in link)
    assert first.id[-8:] in (await tab.show(more)).text


async def test_a_rare_cause_is_looked_for_in_so_many_runs(
    world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at a bounded number, says at how many, and leads to the older ones."""
    monkeypatch.setattr("tokimori.service.search.runs.PAGE", 2)
    monkeypatch.setattr("tokimori.service.search.runs.MOST_LOOKED_AT", 2)
    await add(world)
    rare = await world.trigger("hello")
    await world.work(Failed(error="rare"))
    for _ in range(3):
        await world.trigger("hello")
        await world.work(Failed(error="usual"))
    page = await tab.show("/runs?cause=failed:+rare")
    assert "among 2 runs" in page.text
    assert "there are more" in page.text
    more = next(link for link in page.links() if "before=" in link)
    assert (await tab.show(more)).keys("run") == [rare.id]


async def test_a_run_shows_its_parents_and_what_follows_it(world: World, tab: Tab) -> None:
    """The results of its parents, whatever stands in them, and the runs that were requested to follow it."""
    await add(world, "first")
    await add(world, "second", parents=[{"job": "first"}])
    step = {"id": "01b8dac5-b400-7000-8000-000000000001", "job": "second", "on_failure": True}
    run = await world.service.jobs.trigger("first", then=[step])
    assert "Then second 00000001 if it fails" in (await tab.show(f"/runs/{run.id}")).text
    await world.work(Succeeded(None, '"<b>42</b>"'))
    (child,) = (await world.service.runs.list(job_id="second")).runs
    page = await tab.show(f"/runs/{child.id}")
    assert f'Results of parents succeeded first {run.id[-8:]} "<b>42</b>"' in page.text
