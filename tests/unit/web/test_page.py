import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from tests.unit.api.asgi import SECRET, Answer, Asker
from tests.unit.service.world import World
from tokimori.api.app import Health, create_app
from tokimori.model.expectation import looked_at
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.lanes import Pause
from tokimori.model.outcome import Failed, RetryIn, Succeeded
from tokimori.model.run import Output
from tokimori.service import runs
from tokimori.web.page import KINDS, Page

EVIL = "<script>alert(1)</script>\"'&"


class Elements(HTMLParser):
    """Every element of a page with its attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))
        self.text += " " if tag in ("dd", "dt", "td", "th") else ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.all if name == tag)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def door(world: World) -> Asker:
    health = Health(status="ok", node_id="n", store_reachable=True, version="1")
    pages = Page(lambda _: world.service, world.clock).routes()
    return Asker(
        create_app(world.service, world.clock, interface="127.0.0.1", secret=SECRET, health=lambda: health, pages=pages)
    )


def elements(answer: Answer) -> Elements:
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Elements(answer.body.decode())


async def add(world: World, job_id: str = "hello", **fields: object) -> None:
    await world.add({"command": "echo hello", **fields}, job_id)


async def test_an_empty_page_says_how_to_begin(door: Asker) -> None:
    """Where there are no jobs, the page says how to add one: in a terminal, from a crontab, over HTTP to this door."""
    answer = await door.get("/")
    assert answer.status == 200
    text = elements(answer).text
    assert 'tokimori job add hello --schedule "* * * * *" --command "echo hello"' in text
    assert "tokimori job import crontab FILE" in text
    assert "curl http://localhost/api/v2/jobs" in text
    assert "No node takes part" in text


async def test_the_way_to_begin_works(door: Asker) -> None:
    """What the empty page tells to send is accepted."""
    text = elements(await door.get("/")).text
    body = re.search(r"-d '(.*?)'", text)
    assert body is not None
    headers = [("host", "localhost"), ("content-type", "application/json")]
    assert (await door.ask("POST", "/api/v2/jobs", headers=headers, chunks=[body[1].encode()])).status == 201


async def test_jobs(world: World, door: Asker) -> None:
    """A job is shown with its command, schedule, zone, next times in that zone, last runs and what can be done."""
    await add(world, schedule="0 9 * * *", time_zone="Asia/Tokyo", name="Hello", description="Greets", owner="ada")
    world.pass_seconds(1)
    await world.service.jobs.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    page = elements(await door.get("/"))
    for text in ("Hello: Greets", "echo hello", "owner ada", "0 9 * * *", "Asia/Tokyo", "Wed 2 Jan 09:00:00"):
        assert text in page.text
    assert "in 23 h" in page.text
    assert any(mark["class"] == "mark failed" for mark in page.named("a") if "mark" in (mark.get("class") or ""))
    posts = [button["data-post"] for button in page.named("button") if "data-post" in button]
    assert posts == ["/api/v2/jobs/hello/trigger", "/api/v2/jobs/hello/pause"]


async def test_the_store_is_asked_once_for_the_last_runs(world: World, door: Asker) -> None:
    """However many jobs are listed; each shows its own, the oldest of the newest eight first."""
    for name in ("first", "second", "third"):
        await add(world, name)
    runs = [await world.trigger("first") for _ in range(9)]
    other = await world.trigger("second")
    asked = world.count("last_runs"), world.count("list_runs")
    page = elements(await door.get("/"))
    assert [len(calls) for calls in asked] == [1, 1]
    links = [str(link.get("href")) for link in page.named("a")]
    shown = [run.id for run in (*runs, other) if links.count(f"/?run={run.id}") == 2]
    assert shown == [run.id for run in (*runs[1:], other)]


async def test_dependents(world: World, door: Asker) -> None:
    """A job says after which others it runs; for the chosen one the page draws what is before and after it."""
    await add(world, "first")
    await add(world, "second", parents=[{"job": "first", "on": "always"}])
    await add(world, "third", parents=[{"job": "second"}])
    page = elements(await door.get("/"))
    assert "after other jobs" in page.text
    assert "after first on always" in page.text
    assert "Jobs before and after" not in page.text
    chosen = elements(await door.get("/?job=second"))
    assert "Jobs before and after second first └─ second on always └─ third on success" in chosen.text
    assert (await door.get("/?job=gone")).status == 200


async def test_what_is_overdue_stands_at_the_top(world: World, door: Asker) -> None:
    """In a sentence; without alarms there is no such place."""
    assert "overdue" not in elements(await door.get("/")).text
    known = await world.service.expectations.set("backup", 60)
    world.pass_seconds(61)
    alarm = looked_at(known, world.clock.now())[1]
    assert alarm is not None
    await world.service.expectations._alarms.add("backup", alarm)
    assert "backup is overdue: expected by 2030-01-01T00:01:00Z" in elements(await door.get("/")).text


async def test_a_paused_job(world: World, door: Asker) -> None:
    """A paused job says by whom and why, has no next times, can be resumed and not be triggered."""
    await add(world, schedule="@daily")
    await world.service.jobs.pause("hello", "tired")
    page = elements(await door.get("/"))
    assert "job hello is paused by ada (tired)" in page.text
    assert not [time for time in page.named("time") if time["datetime"] == "2030-01-02T00:00:00Z"]
    run_now, resume, _explain = page.named("button")
    assert "disabled" in run_now
    assert resume["data-post"] == "/api/v2/jobs/hello/resume"


async def test_a_parked_job(world: World, door: Asker) -> None:
    """A parked job says with which error, and is resolved, not resumed."""
    await add(world, on_exhausted="park")
    await world.service.jobs.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    page = elements(await door.get("/"))
    assert "job hello is parked (no luck)" in page.text
    assert "/api/v2/jobs/hello/resolve" in [button.get("data-post") for button in page.named("button")]


async def test_a_job_with_days_off(world: World, door: Asker) -> None:
    """Its calendars are named, and what becomes of what falls on their days."""
    await world.service.calendars.add("holidays", dates=["12-25"])
    await add(world, schedule="@daily", calendars=["holidays"])
    await add(world, "bye", schedule="@daily", calendars=["holidays"], shift="next")
    text = elements(await door.get("/")).text
    assert "not on days off of holidays" in text
    assert "not on days off of holidays, but on the next business day" in text


async def test_a_run_of_a_parent(world: World, door: Asker) -> None:
    """It is listed as asked for by its parent, and shows a way to the run of that."""
    await add(world)
    await add(world, "child", parents=[{"job": "hello"}])
    parent = await world.service.jobs.trigger("hello")
    await world.work(Succeeded())
    (child,) = await world.service.runs.list(job_id="child")
    page = elements(await door.get(f"/?run={child.id}"))
    assert re.search(r"ready child due .* parent", page.text)
    assert f"/?run={parent.id}" in [link.get("href") for link in page.named("a")]


async def test_a_held_run_can_go_on(world: World, door: Asker) -> None:
    """It says why it is held, and has a button to resume it."""
    await add(world)
    run = await world.service.jobs.trigger("hello")
    await world.service.runs.hold(run.id, "not before the audit")
    page = elements(await door.get(f"/?run={run.id}"))
    assert "not before the audit" in page.text
    assert f"/api/v2/runs/{run.id}/resume" in [button.get("data-post") for button in page.named("button")]


async def test_runs(world: World, door: Asker) -> None:
    """Runs are listed newest first with state, start, duration and exit code."""
    await add(world)
    await world.service.jobs.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    world.pass_seconds(1)
    await world.service.jobs.trigger("hello")
    text = elements(await door.get("/")).text
    runs = text[text.index("Runs, newest first") :]
    assert runs.index("ready") < runs.index("failed")
    assert re.search(r"failed hello 01:00:00 CET 0 ms 3 request", runs)


async def test_a_run(world: World, door: Asker) -> None:
    """A run is shown with each attempt's host, process, node, start, end and exit, and the newest one's output."""
    await add(world, retry={"attempts": 2})
    run = await world.service.jobs.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3), Succeeded(exit_code=0))
    for number, written in ((1, b"first try"), (2, b"second try")):
        await world.store.save_outputs([Output(run_id=run.id, attempt=number, size=9, head=written)])
    text = elements(await door.get(f"/?run={run.id}")).text
    panel = text[text.index("Attempts") :]
    assert (
        "failed its output Started 01:00:00 Ended 01:00:00 after 0 ms Exit 3 no luck Host, pid h, 7 Node node" in panel
    )
    assert "Output of attempt 2 second try" in panel
    other = elements(await door.get(f"/?run={run.id}&attempt=1")).text
    assert "Output of attempt 1 first try" in other


async def test_earlier_attempts_are_left_out(world: World, door: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that was tried often the page shows the newest attempts, and the command that shows the others."""
    await add(world, retry={"asked_retries": 1_000, "asked_delay": 0})
    run = await world.service.jobs.trigger("hello")
    monkeypatch.setattr(runs, "SHOWN_ATTEMPTS", 5)
    await world.work(*[RetryIn(0)] * 9, Succeeded())
    page = elements(await door.get(f"/?run={run.id}"))
    assert f"5 earlier ones are not shown: tokimori run show {run.id} --before 6" in page.text


async def test_a_running_run_can_be_cancelled(world: World, door: Asker) -> None:
    """A run that has not ended has a button to cancel it, an ended one has none."""
    await add(world)
    run = await world.service.jobs.trigger("hello")
    cancel = f"/api/v2/runs/{run.id}/cancel"
    before = elements(await door.get(f"/?run={run.id}"))
    assert cancel in [button.get("data-post") for button in before.named("button")]
    await world.service.runs.cancel(run.id)
    after = elements(await door.get(f"/?run={run.id}"))
    assert cancel not in [button.get("data-post") for button in after.named("button")]


async def test_nothing_that_a_job_says_becomes_markup(world: World, door: Asker) -> None:
    """Names, commands, reasons and output of jobs are text, whatever stands in them."""
    await add(world, command=f"echo {EVIL}", name=EVIL, description=EVIL, owner=EVIL)
    run = await world.service.jobs.trigger("hello")
    await world.work(Failed(error=EVIL))
    await world.store.save_outputs([Output(run_id=run.id, attempt=1, size=9, head=EVIL.encode())])
    await world.service.jobs.pause("hello", EVIL)
    page = elements(await door.get(f"/?run={run.id}"))
    assert page.text.count(EVIL) >= 6
    assert len(list(page.named("script"))) == 1


async def test_the_page_keeps_its_own_policy(world: World, door: Asker) -> None:
    """The page needs no script, style or event handler within itself, and nothing from other hosts."""
    await add(world, schedule="@daily")
    run = await world.service.jobs.trigger("hello")
    await world.work(Succeeded())
    answer = await door.get(f"/?run={run.id}")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    page = elements(answer)
    for tag, attributes in page.all:
        assert tag != "style"
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        assert not [value for name, value in attributes.items() if name in ("src", "href") and "//" in (value or "")]
    (script,) = page.named("script")
    assert (script["type"], "src" in script) == ("module", True)


async def test_every_link_leads_somewhere(world: World, door: Asker) -> None:
    """Every link and file that the page names is there."""
    await add(world, schedule="@daily")
    run = await world.service.jobs.trigger("hello")
    await world.work(Failed(error="no luck"))
    page = elements(await door.get(f"/?run={run.id}&job=hello"))
    paths = {attributes.get("href") or attributes.get("src") for _, attributes in page.all} - {None}
    assert len(paths) >= 6
    for path in paths:
        assert path
        assert (await door.get(path)).status == 200


async def test_tables_have_captions_and_buttons_types(world: World, door: Asker) -> None:
    """Every table says what it shows, headers say what they head, and no button is a submit button."""
    await add(world, schedule="@daily")
    await world.service.jobs.trigger("hello")
    await world.work(Succeeded())
    page = elements(await door.get("/"))
    assert len(list(page.named("table"))) == len(list(page.named("caption"))) == 3
    assert all(head.get("scope") in ("col", "row") for head in page.named("th"))
    assert all(button.get("type") in ("button", "submit") for button in page.named("button"))


async def test_pages_of_runs(world: World, door: Asker) -> None:
    """Where there are more runs than a page shows, links lead through all of them."""
    await add(world)
    for _ in range(70):
        world.pass_seconds(1)
        await world.service.jobs.trigger("hello")
    path, found = "/?job=hello", 0
    while path:
        page = elements(await door.get(path))
        found += sum(1 for row in page.named("tr") if (row.get("data-key") or "").startswith("run "))
        older = [link["href"] for link in page.named("a") if "before=" in (link.get("href") or "")]
        path = next((link for link in older if link and link != path and "run=" not in link), "")
    assert found == 70


async def test_runs_of_one_job(world: World, door: Asker) -> None:
    """Only the runs of the chosen job are listed."""
    for name in ("hello", "other"):
        await add(world, name)
        await world.service.jobs.trigger(name)
    page = elements(await door.get("/?job=other"))
    assert "Runs of other" in page.text
    assert sum(1 for row in page.named("tr") if (row.get("data-key") or "").startswith("run ")) == 1


async def test_the_schedule_of_a_chosen_job_is_explained(world: World, door: Asker) -> None:
    """In a sentence, with warnings, and with its next moments: zone, offset, and how far away."""
    await add(world, schedule="30 2 31 3 *", time_zone="Europe/Paris")
    page = elements(await door.get("/?job=hello"))
    assert "Schedule of hello" in page.text
    assert "At 02:30, on day 31 of the month, in March. Europe/Paris" in page.text
    assert "02:30 does not exist on 2030-03-31" in page.text
    assert "Sun 2030-03-31 03:00:00+02:00 CEST in 89 d" in page.text
    assert "Mon 2031-03-31 02:30:00+02:00 CEST" in page.text
    assert "Schedule of" not in elements(await door.get("/")).text


async def test_a_zone_that_is_not_known_here_hides_no_other_job(world: World, door: Asker) -> None:
    """A machine with newer rules has added such a job: its times are in UTC, and it is said why it has no next."""
    await world.service.jobs.add("other", noop=True, schedule="@daily")
    job = await world.service.jobs.add("elsewhere", noop=True, schedule="@daily")
    await world.trigger("elsewhere")
    world.store.tables.jobs[job.id] = replace(job, definition=replace(job.definition, time_zone="America/Newtown"))
    for address in ("/", "/?job=elsewhere"):
        text = elements(await door.get(address)).text
        assert "other" in text
        assert ("no time zone 'America/Newtown'" in text) == ("?" in address)
    assert {job.id for job, _ in await world.service.schedules.upcoming()} == {"other"}


async def test_a_typed_schedule_is_explained(door: Asker) -> None:
    """What somebody types is explained in the zone that he names, and stays in the form."""
    page = elements(await door.get("/?schedule=on+sunday+at+2:30AM&zone=America%2FNew_York"))
    assert "Sun 2030-03-10 03:00:00-04:00 EDT" in page.text
    assert "02:30 does not exist on 2030-03-10" in page.text
    values = {field["name"]: field["value"] for field in page.named("input") if "name" in field}
    assert values == {"schedule": "on sunday at 2:30AM", "zone": "America/New_York"}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("schedule=61+*+*+*+*", "minute"),
        ("schedule=0+0+*+*+*&zone=Mars%2FBase", "there is no time zone"),
        ("schedule=%3Cscript%3Ealert(1)%3C%2Fscript%3E", "<script>alert(1)</script>"),
    ],
)
async def test_a_typed_text_that_is_no_schedule_is_refused_in_its_place(door: Asker, query: str, said: str) -> None:
    """The rest of the page stays, and the field and what is allowed are said."""
    answer = await door.get(f"/?{query}")
    page = elements(answer)
    assert answer.status == 200
    assert said in page.text
    assert page.text.lower().count("allowed: ") == 1
    assert "There are no jobs yet" in page.text
    assert len(list(page.named("script"))) == 1


async def test_backfilled_runs_are_called_so(world: World, door: Asker) -> None:
    """In the list of runs, with the occurrence that each makes good: it starts at another time."""
    await add(world, schedule="0 0 * * *", time_zone="UTC")
    now = world.clock.now()
    (run,) = (await world.service.jobs.backfill("hello", now, now)).runs
    world.pass_seconds(3600 * 24)
    page = elements(await door.get(f"/?run={run.id}"))
    assert re.search(r"ready hello due .* backfill of Tue 1 Jan 00:00:00", page.text)
    assert "Occurrence" in page.text


async def test_a_run_of_a_deleted_job(world: World, door: Asker) -> None:
    """Runs outlive their job, and are still shown."""
    await add(world)
    run = await world.service.jobs.trigger("hello")
    await world.work(Succeeded())
    await world.service.jobs.delete("hello")
    assert "succeeded" in elements(await door.get(f"/?run={run.id}")).text


async def test_an_attempt_that_is_no_number_of_one_shows_the_newest(world: World, door: Asker) -> None:
    """However long the number is that somebody writes into the address."""
    await add(world)
    run = await world.service.jobs.trigger("hello")
    assert (await door.get(f"/?run={run.id}&attempt={'9' * 5000}")).status == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [("run=x", 422), (f"run={RunId('01a1fe76-c901-7d5c-b9f7-4e869d9c8e52')}", 404), ("job=-", 422), ("before=x", 422)],
)
async def test_what_is_not_there(door: Asker, query: str, status: int) -> None:
    """What is not there, or can't be, is said on a page with its status and a way back."""
    answer = await door.get(f"/?{query}")
    assert answer.status == status
    page = elements(answer)
    assert "can't be shown" in page.text
    assert "/" in [link["href"] for link in page.named("a")]


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
async def test_files_are_kept_for_ever(door: Asker, name: str, kind: str) -> None:
    """A file is kept by browsers for ever, as its address names its bytes."""
    answer = await door.get(f"/static/{name}")
    assert answer.headers["content-type"].startswith(kind)
    assert "immutable" in answer.headers["cache-control"]
    assert re.search(rf"/static/{name}\?[0-9a-f]{{12}}\"", (await door.get("/")).body.decode())


@pytest.mark.parametrize("name", ["nope.js", "..%2Fpage.py", "page.py"])
async def test_no_other_files(door: Asker, name: str) -> None:
    """Nothing but the page's own files is given out."""
    assert (await door.get(f"/static/{name}")).status == 404


async def test_the_page_says_what_is_paused(door: Asker, world: World) -> None:
    """Above everything else: what, since when, by whom and why, with a button; each job says what it waits for."""
    await add(world, queue="Mail")
    await world.service.queues.pause("Mail", EVIL)
    await world.service.queues.pause()
    page = elements(await door.get("/"))
    assert "Everything is paused since" in page.text
    assert "Queue Mail is paused since" in page.text
    assert f"by ada: {EVIL}. Runs wait until it is resumed." in page.text
    for what in ("everything is paused since 2030-01-01T00:00:00Z by ada", "queue Mail is paused since 2030-01-01T00"):
        assert what in page.text
    posts = [button.get("data-post") for button in page.named("button")]
    assert posts[:2] == ["/api/v2/resume", "/api/v2/queues/Mail/resume"]
    await world.service.queues.resume("Mail")
    await world.service.queues.resume()
    assert "is paused" not in elements(await door.get("/")).text


async def test_the_page_tells_what_a_deleted_job_leaves(door: Asker, world: World) -> None:
    """What runs of it is listed and shown as what it is; so is what its schedule was."""
    await add(world, schedule="0 3 * * *")
    run = await world.service.jobs.trigger("hello")
    await world.begin(1)
    await world.service.jobs.delete("hello")
    page = elements(await door.get(f"/?run={run.id}&job=hello"))
    assert "hello deleted" in page.text
    assert "its job was deleted" in page.text
    assert "It was deleted, and is known until the last of its runs has ended." in page.text


async def test_ids_are_quoted_in_every_address(world: World, door: Asker) -> None:
    """What stands in an id means nothing in an address; an id that means a folder has no address, so no button."""
    for job_id in ("a:b@c+d", "..."):
        await add(world, job_id)
    old = await world.service.jobs.get("...")
    await world.store.add_jobs([replace(old, id=JobId(".."), incarnation=Incarnation(7))])
    for queue in ("mail", ".."):
        await world.store.add_pause(Pause(queue=queue, since=world.clock.moment))
    page = elements(await door.get("/"))
    assert [button["data-post"] for button in page.named("button") if "data-post" in button] == [
        "/api/v2/queues/mail/resume",
        "/api/v2/jobs/.../trigger",
        "/api/v2/jobs/.../pause",
        "/api/v2/jobs/a%3Ab%40c%2Bd/trigger",
        "/api/v2/jobs/a%3Ab%40c%2Bd/pause",
    ]
    assert "Queue .. is paused" in page.text


async def test_a_browser_that_is_lost_gets_a_page(world: World) -> None:
    """Programs, and whoever asks the API, get JSON as ever."""
    page, health = (
        Page(lambda _: world.service, world.clock),
        Health(status="ok", node_id="n", store_reachable=True, version="1"),
    )
    app = create_app(
        world.service,
        world.clock,
        interface="127.0.0.1",
        secret=SECRET,
        health=lambda: health,
        pages=page.routes(),
        lost=page.lost,
    )
    door, browser = Asker(app), {"accept": "text/html,application/xhtml+xml"}
    lost = await door.get("/jobs/x", **browser)
    assert lost.status == 404 and "there is no page at /jobs/x" in elements(lost).text
    assert (await door.get("/jobs/x")).error["code"] == "not_found"
    assert (await door.get("/api/v2/jobs/x", **browser)).error["code"] == "not_found"


async def test_the_chosen_job_is_shown_though_it_is_far_behind(world: World, door: Asker) -> None:
    """Whose runs are listed stands first, where the page of jobs does not have it; a job that is gone does not."""
    for n in range(51):
        await add(world, f"job-{n:02}")
    shown = [attributes.get("data-key") for attributes in elements(await door.get("/?job=job-50")).named("tr")]
    jobs = [key for key in shown if key and key.startswith("job ")]
    assert (jobs[0], len(jobs), len(set(jobs))) == ("job job-50", 51, 51)
    await world.service.jobs.delete("job-50")
    assert "job job-50" not in str(elements(await door.get("/?job=job-50")).all)
