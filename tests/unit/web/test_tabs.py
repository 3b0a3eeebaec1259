import os
import re
import tomllib
from collections import Counter
from html import unescape

from msgspec.structs import replace

from tests.unit.api.asgi import JSON
from tests.unit.examples import NEW_YEAR
from tests.unit.service.world import World
from tests.unit.web.conftest import Tab, add
from tokimori.clock import DAY, SECOND, Moment
from tokimori.engine.parkings import record_parking
from tokimori.model.audit import PARK, AuditEntry
from tokimori.model.ids import RunId, uuid7
from tokimori.model.job import JobState
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.transitions import RunState
from tokimori.ports.copying import Kind
from tokimori.web.tabs.changes import in_words
from tokimori.web.tabs.occurrences import LedgerDay
from tokimori.web.tabs.runs import Bar, chart


async def test_the_runs_of_a_span_are_bars(world: World, tab: Tab) -> None:
    """A day, a week or a month; it counts how they ended, and says so to who does not see it."""
    await add(world, schedule="*/10 * * * *")
    for _ in range(6):
        world.pass_seconds(600)
        await world.fire()
        await world.work(Succeeded())
    await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    page = await tab.show("/jobs/hello")
    says = "7 runs: 6 succeeded, 1 failed"
    assert says in page.text
    assert says in [str(each.get("aria-label")) for each in page.named("svg")]
    assert {"/jobs/hello?span=7d", "/jobs/hello?span=30d"} <= set(page.links())
    world.pass_seconds(2 * 24 * 3600)
    assert says not in (await tab.show("/jobs/hello")).text
    assert says in (await tab.show("/jobs/hello?span=7d")).text


def test_no_length_of_a_long_run_covers_another() -> None:
    """Of long bars that stand beside each other the longest one says its length, of two alike the newest."""
    bars = [Bar(place, length, 1, 1, "") for place, length in ((3, 500), (93, 300), (94, 400), (95, 400))]
    drawn = chart([bar._replace(length=bar.length * SECOND) for bar in bars if bar.length], (SECOND, SECOND), (), "")
    assert re.findall(r'<text class="e?" x="([\d.]+)%" y="14">([^<]+)', drawn) == [
        ("4.17", "8 min 20 s"),
        ("100.00", "6 min 40 s"),
    ]


async def test_each_occurrence_says_what_became_of_it(world: World, tab: Tab) -> None:
    """Equal neighbours are one line; a failure has its cause and a way to its run, a skip its reason.

    The first line is for those of today that are to come, unless the job is stopped.
    """
    await add(world, schedule="0 * * * *", time_zone="UTC", misfire="skip")
    for outcome in (Succeeded(), Succeeded(), Succeeded(), Failed(error="no luck", exit_code=3)):
        world.pass_seconds(3600)
        await world.fire()
        await world.work(outcome)
    await world.service.jobs.pause("hello")
    world.pass_seconds(2 * 3600)
    await world.service.jobs.resume("hello")
    world.pass_seconds(60)
    await world.fire()
    (failed,) = (await world.service.runs.list(state="failed")).runs
    page = await tab.show("/jobs/hello?tab=occurrences")
    assert re.search(r"Today, Tue 1 Jan 6 of 22: 2 (skipped|paused), 1 failed, 3 succeeded", page.text)
    assert re.search(r"06:00 – 07:00 skipped 2 skipped the job was paused", page.text)
    assert re.search(r"05:00 failed exit 3: no luck", page.text)
    assert "02:00 – 04:00 ran 3 succeeded median" in page.text
    assert "08:00 – 23:00 waiting 16 to come" in page.text
    await world.service.jobs.update("hello", runs_remaining=2)
    assert "08:00 – 09:00 waiting 2 to come" in (await tab.show("/jobs/hello?tab=occurrences")).text
    assert f"/runs/{failed.id}" in page.links()
    await world.service.jobs.pause("hello")
    assert "to come" not in (await tab.show("/jobs/hello?tab=occurrences")).text


def test_the_sums_of_a_day_say_nothing_twice() -> None:
    """Of what is to come today how much is over; of outcomes the sum, if there are several."""
    good, mixed = Counter(succeeded=96), Counter(failed=3, succeeded=40)
    days = (LedgerDay("d", good, ()), LedgerDay("d", mixed, ()), LedgerDay("d", mixed, (), 53))
    assert [day.sums for day in days] == [
        *("96 succeeded", "43: 3 failed, 40 succeeded", "43 of 96: 3 failed, 40 succeeded"),
    ]
    assert LedgerDay("d", Counter(), (), 96).sums == "0 of 96"


async def test_occurrences_go_on_to_older_days(world: World, tab: Tab) -> None:
    """Until the job was added, and back, each day whole on one page; a moment that is none is refused in its place."""
    await add(world, schedule="0 * * * *", time_zone="UTC")
    world.pass_seconds(9 * 24 * 3600)
    await world.fire()
    path, days = "/jobs/hello?tab=occurrences", list[str]()
    while path:
        page = await tab.show(path)
        days += re.findall(r"\w{3} \d+ Jan", page.text[page.text.index("equal neighbours") :])
        path = next((link for link in page.links() if "until=" in link and link not in (path,)), "")
        assert len(days) < 40
    assert len(days) == len(set(days)) and "Thu 10 Jan" in days and "Tue 1 Jan" in days
    assert (await tab.show("/jobs/hello?tab=occurrences&until=x", 422)).text
    await add(world, "asked")
    assert "It has no schedule" in (await tab.show("/jobs/asked?tab=occurrences")).text


async def test_a_month_shows_what_is_named_off_and_failed(world: World, tab: Tab) -> None:
    """Days off, days on which clocks change, how runs ended, and the way to other months."""
    await world.service.calendars.add("closed", dates=["2030-01-08"])
    await add(world, schedule="0 */2 * * *", time_zone="Europe/Paris", calendars=["closed"])
    await world.trigger("hello")
    await world.work(Failed(error="no luck"))
    page = await tab.show("/jobs/hello?tab=schedule")
    assert "January 2030" in page.text
    assert "12 occurrences a day unless said" in page.text
    assert re.search(r"8 ?0 named: 0 succeeded", page.text) and "» day off" in page.text
    assert "! 1 failed" in page.text
    late = "Over 1 min late is missed: the newest one runs, the others are skipped. At most 1 at a time"
    assert late in page.text
    march = await tab.show("/jobs/hello?tab=schedule&month=2030-03")
    assert "March 2030" in march.text and re.search("≈ clocks change(: 1[13])?", march.text)
    assert "/jobs/hello?tab=schedule&month=2030-02" in march.links()
    for wrong in ("x", "1-1", "9999-01"):
        await tab.show(f"/jobs/hello?tab=schedule&month={wrong}", 422)


async def test_changes_say_who_did_what_and_what_it_was_before(world: World, tab: Tab) -> None:
    """Field by field, of this job alone; who may not read the audit log is told which role does."""
    for name in ("hello", "other"):
        made = await tab.ask("/api/v2/jobs", "POST", *JSON.items(), body=b'{"id": "%s", "noop": true}' % name.encode())
        assert made.status == 201
    world.pass_seconds(1)
    changed = b'{"owner": "ada", "schedule": "@daily", "timeout": "10m", "retry": {"attempts": 3, "delay": "1m"}}'
    await tab.ask("/api/v2/jobs/hello", "PATCH", *JSON.items(), body=changed)
    world.pass_seconds(1)
    await tab.press("jobs.pause", "hello", reason="we move")
    page = await tab.show("/jobs/hello?tab=changes")
    text = page.text[page.text.index("What changed") :]
    assert text.index("pause") < text.index("+ owner = ada")
    assert "+ reason = we move" in text and "- state = enabled" in text and "+ state = paused" in text
    assert all(f"+ {each} " in text for each in ("timeout = 600s", "retry.attempts = 3", "retry.delay = 60s"))
    assert "other" not in text
    token = (await world.service.tokens.create("eve", "operate")).text
    assert "is read with the role admin" in (await Tab(world, token).show("/jobs/hello?tab=changes")).text


def test_a_change_is_told_in_few_words() -> None:
    """The new state with its reason, or the fields; of what the engine has parked the state before is unknown."""
    fields = {"state": "enabled", "definition": {"timeout": 5.0, "queue": "a"}, "version": 1}
    entry = AuditEntry(at=NEW_YEAR, who="ada", what="jobs.update", of="job a", before=fields, after=fields)
    parked = {"state": "parked", "reason": "exit code 3", "definition": {}}
    for each, words in (
        (replace(entry, after={"state": "enabled", "definition": {"queue": "b"}}), "queue, timeout"),
        (replace(entry, what=PARK, before=None, after=parked), "parked: exit code 3"),
        (replace(entry, before=None), "new"),
        (replace(entry, after=None), "gone"),
        (entry, "changed"),
    ):
        assert in_words(each) == words


async def test_trends_tell_what_gets_slower_later_and_dearer(world: World, tab: Tab) -> None:
    """Day by day, in the zone of the reader: the table has what the curves are drawn from, and says it in words."""
    await add(world, schedule="0 12 * * *", time_zone="UTC")
    await world.trigger("hello")
    await world.work(Succeeded(0))
    (known,) = (await world.service.runs.list()).runs
    runs = [
        replace(
            known,
            due=(due := Moment(known.due + day * DAY)),
            created=due,
            id=RunId(uuid7(due, os.urandom)),
            origin=f"s:{day}",
            started=Moment(due + SECOND),
            ended=Moment(due + SECOND + (20 + day) * SECOND),
            state=RunState.FAILED if day == 9 else RunState.SUCCEEDED,
            cpu=3 * SECOND,
            memory=2**20 * (100 if day < 8 else 80),
        )
        for day in range(1, 21)
    ]
    await world.store.import_rows(Kind.HISTORY, runs)
    world.pass_seconds(20 * 24 * 3600 + 60)
    page = await tab.show("/jobs/hello?tab=trends")
    assert "longer than at first: 22 s → 38 s" in page.text
    assert "Late about the same as at first" in page.text
    assert "less than at first: 100.0 MiB → 80.0 MiB" in page.text
    assert re.search(
        r"Fri 11 Jan 1 100 % 30 s 30 s 1.0 s 1.0 s 3.0 s 3.0 s 80.0 MiB 80.0 MiB Thu 10 Jan 1 0 % 1.0 s", page.text
    )
    values = [str(each["data-value"]) for each in page.named("td") if "data-value" in each]
    assert values[:3] == ["100", "40", "40"]
    assert len(list(page.named("li"))) > 5
    assert len((await tab.show("/jobs/hello?tab=trends&span=7d")).keys("step")) == 8
    assert "No run has ended" not in page.text
    await add(world, "idle")
    assert "No run has ended" in (await tab.show("/jobs/idle?tab=trends")).text


async def test_the_definition_is_what_makes_the_job_again(world: World, tab: Tab) -> None:
    """As TOML without defaults, and with the commands that take it."""
    await add(world, schedule="@daily", retry={"attempts": 3}, env={"A B": "<1>"})
    answer = (await tab.ask("/jobs/hello?tab=definition")).body.decode()
    text = re.search(r"\[\[jobs\]\].*?(?=</pre>)", answer, re.DOTALL)
    assert text is not None and "tokimori apply hello.toml" in answer
    (job,) = tomllib.loads(unescape(text[0]))["jobs"]
    assert {name: job[name] for name in ("id", "schedule", "retry", "env")} == {
        **{"id": "hello", "schedule": "@daily", "retry": {"attempts": 3}},
        "env": {"A B": "<1>"},
    }
    command = re.search(r"<pre[^>]*>(tokimori job add hello.*?)</pre>", answer, re.DOTALL)
    assert command is not None
    assert "\n  --env 'A B=<1>' \\\n  --schedule @daily" in unescape(command[1])
    await add(world, "hidden", stdin="a\x1b[2Jb")
    assert "job add" not in (await tab.show("/jobs/hidden?tab=definition")).text, "a terminal would obey it"


async def test_a_job_that_the_engine_has_parked_says_its_state_alone(world: World, tab: Tab) -> None:
    """How it was before is unknown: its definition is not shown as if it were new."""
    await add(world, on_exhausted="park")
    job = await world.service.jobs.get("hello")
    await record_parking(world.store, None, replace(job, state=JobState.PARKED, reason="no luck"), "run")
    text = (await tab.show("/jobs/hello?tab=changes")).text
    assert "+ reason = no luck + state = parked" in text.replace("  ", " ") and "on_exhausted" not in text
    assert "park job hello tokimori now parked: no luck" in (await tab.show("/audit")).text


async def test_a_tab_that_there_is_not_is_not_found(world: World, tab: Tab) -> None:
    """It says which there are."""
    await add(world)
    assert "runs, occurrences, schedule" in (await tab.show("/jobs/hello?tab=x", 404)).text
