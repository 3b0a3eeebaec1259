import re
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_run
from tests.unit.service.world import World
from tests.unit.web.conftest import Tab, add
from tokimori.clock import HOUR, Moment
from tokimori.model.outcome import Failed, Outcome, Succeeded
from tokimori.model.transitions import RunState
from tokimori.web.pictures import bars
from tokimori.web.screens import jobs


async def test_a_line_of_a_job(world: World, tab: Tab) -> None:
    """The worst true word, the schedule in words, the next moment, the last runs, and how often it succeeds."""
    await add(world, schedule="0 9 * * *", time_zone="Asia/Tokyo", name="Hello", owner="ada")
    for outcome in (Succeeded(), Succeeded(), Failed(error="no luck", exit_code=3)):
        await world.trigger("hello")
        await world.work(outcome)
    page = await tab.show("/jobs")
    line = "failing hello daily at 09:00 · Asia/Tokyo in 23 h last 3: 2 succeeded, 1 failed 0 ms 66.6 % default ada"
    assert line in page.text
    assert "/jobs/hello" in page.links()


def test_a_run_that_failed_at_once_is_seen_beside_long_ones() -> None:
    """Its bar is as high as one of the usual length, and one that took longer is higher."""
    began = NEW_YEAR - HOUR
    long = a_run(state=RunState.SUCCEEDED, started=began, ended=NEW_YEAR)
    at_once = a_run(state=RunState.FAILED, started=began, ended=began)
    heights = re.findall(r"M[\d.]+ 18v-([\d.]+)", str(bars([long, at_once])))
    assert len(heights) == 2 and len(set(heights)) == 1
    twice = replace(at_once, ended=Moment(NEW_YEAR + HOUR))
    ordinary, late = map(float, re.findall(r"M[\d.]+ 18v-([\d.]+)", str(bars([long, twice]))))
    assert late > ordinary


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("0 8 * * 1-5", "at 08:00, Mon–Fri"),
        ("20 5 * * *", "daily at 05:20"),
        ("12 * * * *", "hourly at :12"),
        ("5 */2 * * *", "every 2 hours at :05"),
        ("0 */2 * * *", "every 2 hours"),
        ("0 7 5 1,4,7,10 *", "at 07:00, on day 5, in Jan, Apr, Jul and Oct"),
        ("0 7 L * 0", "at 07:00, on the last day of the month or on Sun"),
        ("every 6 hours", "every 6 hours"),
    ],
)
async def test_a_list_says_a_schedule_in_few_words(world: World, tab: Tab, schedule: str, words: str) -> None:
    """As much as has room beside the rest; whole on hover and on the page of the job."""
    await add(world, schedule=schedule)
    assert f" hello {words} " in (await tab.show("/jobs")).text


async def test_the_store_is_asked_once_for_the_last_runs(world: World, tab: Tab) -> None:
    """However many jobs are listed."""
    for name in ("first", "second", "third"):
        await add(world, name)
        await world.trigger(name)
    await tab.show("/jobs")  # what the rail shows is kept for some seconds
    asked = world.count("last_runs"), world.count("list_runs")
    await tab.show("/jobs")
    assert [len(calls) for calls in asked] == [1, 0]


async def test_jobs_are_filtered_by_what_stands_in_the_address(world: World, tab: Tab) -> None:
    """Words, state, queue, owner, label and set; what is typed as `name:value` becomes a filter of its own."""
    await add(world, "etl-a", queue="etl", owner="ada", labels={"gpu": "yes"})
    await add(world, "etl-b", queue="etl", owner="bob")
    await add(world, "mail", name="Welcome mails", owner="ada")
    await world.service.jobs.pause("etl-b")
    await world.service.sets.apply("web", {"of-a-set": {"command": "true", "queue": "mail"}})
    await world.trigger("etl-a")
    for query, found in (
        ("q=etl", ["etl-a", "etl-b"]),
        ("q=WELCOME", ["mail"]),
        ("q=etl+ada", ["etl-a"]),
        ("state=paused", ["etl-b"]),
        ("owner=ada", ["etl-a", "mail"]),
        ("queue=etl&owner=ada", ["etl-a"]),
        ("label=gpu", ["etl-a"]),
        ("state=held", []),
        ("set=web", ["of-a-set"]),
        ("set=web&q=etl", []),
        ("state=ready&label=gpu", ["etl-a"]),
        ("state=ready&label=colour", []),
    ):
        assert (await tab.show(f"/jobs?{query}")).keys("job") == found, query
    moved = await tab.ask(f"/jobs?{'q=' + quote('etl queue:etl owner:ada colour:red')}&sort=worst")
    assert moved.headers["location"] == "/jobs?q=etl+colour%3Ared&sort=worst&queue=etl&owner=ada"
    page = await tab.show("/jobs?q=etl&queue=etl&owner=ada")
    assert "queue: etl" in page.text and "/jobs?q=etl&owner=ada" in page.links()
    assert "No job matches" in (await tab.show("/jobs?q=nothing")).text


async def test_words_of_runs_and_alarms_are_states_too(world: World, tab: Tab) -> None:
    """Failing jobs are those whose newest end is a failure, within the other filters."""
    for name in ("bad", "mended"):
        await add(world, name)
        await world.trigger(name)
        await world.work(Failed(error="no luck"))
    await world.trigger("mended")
    await world.work(Succeeded())
    await world.trigger("mended")
    await world.begin(1)
    assert (await tab.show("/jobs?state=failing")).keys("job") == ["bad"]
    assert (await tab.show("/jobs?state=running")).keys("job") == ["mended"]
    assert (await tab.show("/jobs?state=failing&q=mended")).keys("job") == []
    await add(world, "due")
    await world.trigger("due")
    assert "ready due" in (await tab.show("/jobs?state=ready")).text


async def test_pages_of_jobs_lead_through_all(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """With words or without; none is missing, and none comes twice."""
    monkeypatch.setattr(jobs, "SHOWN", 7)
    for n in range(31):
        await add(world, f"job-{n:02}", name="odd" if n % 2 else "even")
    for query, wanted in (("", range(31)), ("q=odd", range(1, 31, 2))):
        path, found = f"/jobs?{query}", list[str]()
        while path:
            page = await tab.show(path)
            found += page.keys("job")
            path = next((link for link in page.links() if "after=" in link and link != path), "")
        assert found == [f"job-{n:02}" for n in wanted]


async def test_jobs_are_sorted_and_grouped(world: World, tab: Tab) -> None:
    """By prefix, queue, owner or label, with what hurts in each group; or worst first, by next, slowest first."""
    await add(world, "a-late", schedule="@yearly", owner="ada")
    await add(world, "a-soon", schedule="@hourly", owner="bob")
    await add(world, "b-bad", owner="ada")
    await world.trigger("b-bad")
    await world.work(Failed(error="no luck"))
    assert "a 2 " in (await tab.show("/jobs")).text
    assert "b 1 · 1 failing" in (await tab.show("/jobs")).text
    assert "ada 2 · 1 failing" in (await tab.show("/jobs?group=owner")).text
    await add(world, "c-far", labels={"region": "eu"})
    page = await tab.show("/jobs?group=label")
    assert "region=eu 1" in page.text and "no label 3 · 1 failing" in page.text
    await world.service.jobs.delete("c-far")
    assert (await tab.show("/jobs?sort=worst")).keys("job") == ["b-bad", "a-late", "a-soon"]
    assert (await tab.show("/jobs?sort=next")).keys("job") == ["a-soon", "a-late", "b-bad"]


async def test_a_group_is_paused_and_resumed_at_once(world: World, tab: Tab) -> None:
    """Its head asks for all that can be paused, or resumed; not for whoever may not."""
    for name in ("etl-a", "etl-b", "web-a"):
        await add(world, name)
    page = await tab.show("/jobs")
    (to,) = (link for link in page.links() if "jobs.pause" in link and "etl-a" in link)
    assert "Pause 2 jobs?" in (await tab.show(to)).text
    await tab.press("jobs.pause", "etl-a")
    links = [link for link in (await tab.show("/jobs")).links() if "/do/jobs." in link]
    assert [("pause" in link, link.count("on=")) for link in links if "etl" in link] == [(True, 1), (False, 1)]
    token = (await world.service.tokens.create("eve", "read")).text
    assert not [link for link in (await Tab(world, token).show("/jobs")).links() if "/do/" in link]


async def test_a_zone_that_is_not_known_here_hides_no_other_job(world: World, tab: Tab) -> None:
    """A machine with newer rules has added such a job: it is listed without a next moment, and says why."""
    await world.service.jobs.add("other", noop=True, schedule="@daily")
    job = await world.service.jobs.add("elsewhere", noop=True, schedule="@daily")
    await world.trigger("elsewhere")
    world.store.tables.jobs[job.id] = replace(job, definition=replace(job.definition, time_zone="America/Newtown"))
    assert (await tab.show("/jobs")).keys("job") == ["elsewhere", "other"]
    assert (await tab.show("/")).keys("job") == []
    text = (await tab.show("/jobs/elsewhere?tab=schedule")).text
    assert "no time zone 'America/Newtown'" in text


async def test_a_page_of_a_job(world: World, tab: Tab) -> None:
    """What it is, what is done with it, why nothing starts, and its runs."""
    await add(world, schedule="0 3 * * *", description="Greets")
    run = await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    page = await tab.show("/jobs/hello")
    assert "At 03:00, every day" in page.text and "Greets" in page.text
    assert "The last run failed: exit 3: no luck. The next try is in 1 h." in page.text
    (alike,) = [link for link in page.links() if link.startswith("/runs?cause=")]
    assert (await tab.show(alike)).keys("run") == [run.id]
    assert page.acts() == ["jobs.trigger", "jobs.pause", "jobs.delete"]
    assert page.keys("run") == [run.id]
    await world.service.jobs.pause("hello", "tired")
    page = await tab.show("/jobs/hello")
    assert "Job hello is paused by ada (tired)" in page.text
    assert page.acts() == ["jobs.resume", "jobs.delete"]


async def test_a_parked_job_is_resolved(world: World, tab: Tab) -> None:
    """It says with which error, and is resolved, not resumed."""
    await add(world, on_exhausted="park")
    await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    page = await tab.show("/jobs/hello")
    assert "Job hello is parked (no luck)" in page.text
    assert page.acts() == ["jobs.resolve", "jobs.delete"]


async def test_the_schedule_of_a_job_is_explained(world: World, tab: Tab) -> None:
    """In a sentence, with warnings, and with its next moments: with the name of the time, and how far away."""
    await add(world, schedule="30 2 31 3 *", time_zone="Europe/Paris")
    text = (await tab.show("/jobs/hello?tab=schedule")).text
    assert "At 02:30, on day 31 of the month, in March. Europe/Paris" in text
    assert "02:30 does not exist on 2030-03-31" in text
    assert "Sun 31 Mar 03:00:00 CEST in 89 d" in text
    assert "Mon 31 Mar 2031 02:30:00 CEST" in text


async def test_a_job_says_what_is_before_and_after_it(world: World, tab: Tab) -> None:
    """And on which end; calendars are named, and what becomes of their days."""
    await world.service.calendars.add("holidays", dates=["12-25"])
    await add(world, "first", schedule="@daily", calendars=["holidays"], shift="next")
    await add(world, "second", parents=[{"job": "first", "on": "always"}])
    await add(world, "third", parents=[{"job": "second"}])
    page = await tab.show("/jobs/second?tab=graph")
    assert "second after first on always" in page.text and "third after second on success" in page.text
    assert {"/jobs/first", "/jobs/third", "/graph?q=second&job=second"} <= set(page.links())
    await add(world, "alone")
    assert "No job runs before or after it." in (await tab.show("/jobs/alone?tab=graph")).text
    assert "After first" in (await tab.show("/jobs/second")).text
    assert "not on days off of holidays, but on the next business day" in (await tab.show("/jobs/first")).text


async def test_the_page_tells_what_a_deleted_job_leaves(world: World, tab: Tab) -> None:
    """What runs of it is listed and shown as what it is."""
    await add(world, schedule="0 3 * * *")
    run = await world.trigger("hello")
    await world.begin(1)
    await world.service.jobs.delete("hello")
    page = await tab.show("/jobs/hello?tab=schedule")
    assert "It was deleted, and is known until the last of its runs has ended." in page.text
    assert page.acts() == []
    assert "Its job was deleted." in (await tab.show(f"/runs/{run.id}")).text
    assert "hello deleted" in (await tab.show("/runs")).text


async def test_success_is_that_of_seven_days(world: World, tab: Tab) -> None:
    """Not of the last runs alone; it is told in colour only below 98 in 100, and one failure of many is seen."""
    await add(world)
    outcomes: list[Outcome] = [Failed(error="no luck", exit_code=3), *[Succeeded()] * 60]
    for outcome in outcomes:
        await world.trigger("hello")
        await world.work(outcome)
    page = (await tab.ask("/jobs")).body.decode()
    assert '<td class="n w4">98.3 %</td>' in page
    await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    world.pass_seconds(60)
    assert '<b class="bad t">96.7 %</b>' in (await tab.ask("/jobs")).body.decode()
    world.pass_seconds(7 * 24 * 3600)
    assert " %</" not in (await tab.ask("/jobs")).body.decode()
