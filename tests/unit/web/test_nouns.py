import pytest

from tests.unit.service.tasks.test_tasks import build
from tests.unit.service.world import World
from tests.unit.web.conftest import EVIL, NAMED, Tab, add, elements, fill_nouns
from tokimori.model.outcome import Failed
from tokimori.service import nodes
from tokimori.web.screens.registry import ACTS, SCREENS

PLACES = [screen.path for screen in SCREENS if screen.template == "noun.html"]
"""The screens that differ by their columns alone."""
WILD = f"{EVIL}\x1b[31m\u202etxt.exe\x07" + "x" * 65_536
"""A text that means harm to pages, to terminals and to whoever reads from left to right."""


def at(path: str) -> str:
    """The path of a screen, with the things of `fill_nouns`."""
    for name, value in NAMED.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("place", PLACES)
async def test_an_empty_list_says_what_would_fill_it(tab: Tab, place: str) -> None:
    """A list without things names the command that makes one, and is whole without a script."""
    if "{" not in place:
        page = await tab.show(place)
        assert any("tokimori" in text for text in (page.text,)), place
        assert not list(page.named("table"))


@pytest.mark.parametrize("place", PLACES)
async def test_texts_of_others_are_short_and_do_no_harm(world: World, tab: Tab, place: str) -> None:
    """A text of 64 KiB with markup, colours and marks that turn letters round is shown as itself, and cut."""
    await fill_nouns(world, WILD)
    answer = await tab.ask(at(place))
    page = elements(answer)
    assert answer.status == 200
    assert len(list(page.named("script"))) == 1
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert len(answer.body) < 40_000


async def test_a_wild_text_is_seen(world: World, tab: Tab) -> None:
    """What is cut begins as it was written, and its control characters are written out."""
    await fill_nouns(world, WILD)
    assert f"{EVIL}\\x1b[31m\\u202etxt.exe\\x07xxx" in (await tab.show("/queues/mail")).text


@pytest.mark.parametrize("place", PLACES)
async def test_a_token_of_one_queue_sees_nothing_of_others(world: World, place: str) -> None:
    """Neither on lists nor on pages; what is everybody's says what it would need, where its buttons would be."""
    await fill_nouns(world, "a word")
    for job_id, queue in (("mine", "a"), ("their-job", "mail")):
        await add(world, job_id, queue=queue, schedule="@daily", calendars=["holidays"] if queue == "mail" else [])
    await world.trigger("their-job")
    tab = Tab(world, (await world.service.tokens.create("eve", "operate", queues=["a"])).text)
    answer = await tab.ask(at(place))
    text = elements(answer).text
    assert "their" not in text
    assert "mail" not in text or answer.status == 404
    if answer.status == 200 and place in ("/semaphores", "/calendars"):
        assert "needs a token of all jobs and queues" in text


@pytest.mark.parametrize("place", PLACES)
async def test_whoever_only_reads_presses_nothing(world: World, place: str) -> None:
    """There is no button that changes something, and each says which role it needs."""
    await fill_nouns(world)
    tab = Tab(world, (await world.service.tokens.create("eve", "read")).text)
    answer = await tab.ask(at(place))
    page = elements(answer)
    assert page.acts() == []
    assert [form.get("action") for form in page.named("form") if form.get("method") == "post"] == [
        "/logout",
        "/do/zone",
    ]
    is_for_readers = place in ("/tasks", "/sets", "/sets/{name:path}")
    assert "the role" in page.text or answer.status == 403 or is_for_readers


async def test_filters_and_pages_stand_in_the_address(world: World, tab: Tab) -> None:
    """What is typed finds things of many, and pages lead through all."""
    for n in range(103):
        await world.service.semaphores.set(f"s{n:03}", 1)
    await world.service.queues.pause("mail")
    await add(world, queue="default")
    page = await tab.show("/semaphores")
    assert len(page.keys("semaphore")) == 100
    (more,) = (link for link in page.links() if "after=" in link)
    assert (await tab.show(more)).keys("semaphore") == ["s100", "s101", "s102"]
    assert (await tab.show("/semaphores?q=S10")).keys("semaphore") == ["s100", "s101", "s102"]
    assert (await tab.show("/queues?state=paused")).keys("queue") == ["mail"]
    assert (await tab.ask("/queues?q=state:open")).headers["location"] == "/queues?state=open"
    assert (await tab.show("/queues?state=open")).keys("queue") == ["default"]
    assert "Nothing matches" in (await tab.show("/queues?q=nowhere")).text


async def test_a_token_is_shown_once(world: World, tab: Tab) -> None:
    """Its text is on the page that makes it, in no cookie, kept by no browser, and on no later page."""
    answer = await tab.post("tokens.create", "team", role="read", queues="mail, web", expires="12h")
    (token,) = await world.service.tokens.list()
    assert (token.role, token.scope.queues) == ("read", ("mail", "web"))
    page = elements(answer)
    shown = next(word for word in page.text.split() if word.startswith("tkm_team_"))
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert "set-cookie" not in answer.headers
    assert shown not in (await tab.ask("/tokens")).body.decode()
    assert (await Tab(world, shown).ask("/jobs")).status == 200
    assert "team revoked" in (await tab.press("tokens.revoke", "team")).text
    assert await world.service.tokens.list() == []


async def test_what_was_refused_stands_in_the_form(world: World, tab: Tab) -> None:
    """Whoever typed something wrong sees why, and what he typed; but no secret."""
    answer = await tab.post("tokens.create", "a b", role="operate", expires="soon")
    page = elements(answer)
    assert answer.status == 422
    assert "Not made." in page.text
    assert {"a b", "soon"} <= {str(field.get("value")) for field in page.named("input")}
    answer = await tab.post("secrets.set", "a b", value="hunter2\n  ", jobs="x")
    assert answer.status == 422
    assert "hunter2" not in answer.body.decode()


async def test_a_secret_keeps_its_lines_and_is_never_shown(world: World, tab: Tab) -> None:
    """A key of several lines is kept as it was typed; browsers send other ends of lines."""
    told = await tab.press("secrets.set", "KEY", value="-----BEGIN\r\nabc\r\n", jobs="mail, web")
    assert "Secret KEY set" in told.text
    assert [each.jobs for each in await world.service.secrets.list()] == [("mail", "web")]
    assert "BEGIN" not in told.text
    assert "BEGIN" not in (await tab.ask("/do/secrets.set?on=KEY")).body.decode()
    assert "1 secret encrypted" in (await tab.press("secrets.rotate", "all")).text
    await tab.press("secrets.delete", "KEY")
    assert await world.service.secrets.list() == []


async def test_a_calendar_and_a_semaphore_are_made_and_changed(world: World, tab: Tab) -> None:
    """Forms say what there is, and what is typed takes its place."""
    await tab.press("calendars.add", "holidays", dates="12-25\r\n2026-01-01", weekdays="sun", description="Germany")
    asked = await tab.ask("/do/calendars.update?on=holidays")
    assert "12-25\n2026-01-01</textarea>" in asked.body.decode()
    await tab.press("calendars.update", "holidays", dates="12-24, 12-25", description="Germany")
    calendar = await world.service.calendars.get("holidays")
    assert (calendar.dates, calendar.weekdays) == (("12-24", "12-25"), ())
    assert "holidays – 2 Tue 24 Dec 2030 Germany" in (await tab.show("/calendars")).text
    await tab.press("calendars.update", "holidays", dates="2030-01-01")
    assert "holidays – 1 today –" in (await tab.show("/calendars")).text
    assert "1 date off" in (await tab.show("/calendars/holidays")).text
    told = await tab.press("semaphores.set", "db", limit="3", rate="100/1m")
    assert "Semaphore db has 3 units, 100" in told.text
    assert elements(await tab.post("semaphores.set", "db", limit="many")).text.count("it is no number") == 1
    await tab.press("semaphores.delete", "db")
    await tab.press("calendars.delete", "holidays")
    assert (await world.service.calendars.list(), await world.service.semaphores.list()) == ([], [])


async def test_queues_are_paused_and_all_of_them(world: World, tab: Tab) -> None:
    """A reason is kept, and what is paused says so at the top of the list."""
    await add(world, queue="mail")
    told = await tab.press("queues.pause", "mail", reason="the supplier moves")
    assert "the supplier moves" in told.text
    await tab.press("queues.pause", "*")
    page = await tab.show("/queues")
    assert "Everything is paused by" in page.text
    await tab.press("queues.resume", "*")
    assert [pause.queue for pause in await world.service.queues.pauses()] == ["mail"]


async def test_a_node_is_drained(world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said on its page and in the list, and taken back."""
    monkeypatch.setattr(nodes, "LONGEST", 0.0)  # no node lives that could hear of it
    await fill_nouns(world)
    node = NAMED["{node_id}"]
    assert "takes no new runs" in (await tab.press("nodes.drain", node)).text
    assert "draining" in (await tab.show(f"/nodes/{node}")).text
    assert (await tab.show("/nodes?state=draining")).keys("node") == [node]
    await tab.press("nodes.resume", node)
    assert (await tab.show("/nodes?state=draining")).keys("node") == []
    assert (await tab.ask("/nodes/nobody")).status == 404


async def test_a_number_has_its_name_on_a_phone(world: World, tab: Tab) -> None:
    """The heads of columns are not seen there; what a moment is, it says, too."""
    await world.register()
    page = await tab.show("/nodes")
    assert {"runs", "up since"} <= {each.get("data-says") for each in page.named("td")}


async def test_a_semaphore_says_whose_units_are_held(world: World, tab: Tab) -> None:
    """The job of the run that holds them, in the list too."""
    await world.service.semaphores.set("warehouse", 2)
    await add(world, "load", semaphores=["warehouse"])
    await world.trigger("load")
    await world.begin(1)
    page = await tab.show("/semaphores/warehouse")
    assert "/jobs/load" in page.links()
    assert "warehouse 1 of 2 – – load" in (await tab.show("/semaphores")).text, "its id alone names nothing"


async def test_a_semaphore_says_who_waits_for_it(world: World, tab: Tab) -> None:
    """The runs in its line, and no others."""
    await world.service.semaphores.set("warehouse", 1)
    for name in ("load", "sync"):
        await add(world, name, semaphores=["warehouse"])
    await add(world, "alone", max_running=1)
    runs = [await world.trigger(name) for name in ("load", "sync", "alone", "alone")]
    await world.begin(4)
    page = await tab.show("/semaphores/warehouse")
    assert page.keys("run") == [runs[1].id] and "1 of 1 unit used" in page.text


async def test_a_queue_says_how_many_of_its_runs_run_and_wait(world: World, tab: Tab) -> None:
    """Each number leads to a list of so many."""
    await add(world, "load", queue="etl", max_running=0)
    await add(world, "other")
    for name in ("load", "other", "load", "load"):
        await world.trigger(name)
    await world.begin(2)
    page = await tab.show("/queues/etl")
    assert " Running 1 Ready 2 Blocked 0 Runs all" in page.text
    for state, number in (("running", 1), ("ready", 2), ("blocked", 0)):
        link = f"/runs?queue=etl&state={state}"
        assert link in page.links() and len((await tab.show(link)).keys("run")) == number


def test_every_act_has_a_screen_to_go_back_to() -> None:
    """Wherever an act came from, there is a list of its noun."""
    assert {f"/{act.noun}" for act in ACTS.values()} <= {screen.path for screen in SCREENS}


async def test_what_runs_elsewhere_is_expected_and_reports(world: World, tab: Tab) -> None:
    """It is made, it reports a failure with what it says, and it is forgotten."""
    await tab.press("expectations.set", "nas", within="25h", description="the NAS")
    assert "Report of nas kept" in (await tab.press("expectations.ping", "nas", report="fail", log="disk full")).text
    page = await tab.show("/expectations/nas")
    assert "disk full" in page.text
    assert "a good end every 25 h" in page.text and "25 h 00" not in page.text
    assert (await tab.show("/expectations?state=failed")).keys("expectation") == ["nas"]
    assert (await tab.show("/expectations?state=good")).keys("expectation") == []
    assert "25h" in (await tab.ask("/do/expectations.set?on=nas")).body.decode() or "90000s" in page.text
    await tab.press("expectations.delete", "nas")
    assert await world.service.expectations.list() == []


async def test_a_notifier_that_reaches_nobody_is_failing(world: World, tab: Tab) -> None:
    """In their list and on its page, as among jobs: it looked as good as one that works."""
    await add(world, "notifier:ops", notifier={})
    await world.trigger("notifier:ops")
    await world.work(Failed(error="no such channel"))
    assert "failing ops" in (await tab.show("/notifiers")).text
    assert "failing its runs" in (await tab.show("/notifiers/ops")).text


async def test_a_notifier_is_made_tried_and_deleted(world: World, tab: Tab) -> None:
    """It does one thing; jobs that name it stand on its page, and keep it."""
    refused = elements(await tab.post("notifiers.add", "ops", url="https://example.org/hook", command="true"))
    assert "a notifier does one thing" in refused.text
    await tab.press(
        "notifiers.add", "ops", command="./page.sh now", bundle="1m", quiet="22:00-07:00; sat,sun 00:00-24:00"
    )
    (job,) = await world.service.jobs.list(prefix="notifier:")
    assert job.definition.notifier is not None
    assert (job.definition.notifier.bundle, len(job.definition.notifier.quiet)) == (60, 2)
    await add(world, notify={"failure": ["ops"]})
    assert "hello" in (await tab.show("/notifiers/ops")).text
    assert "tries ops" in (await tab.press("notifiers.test", "ops")).text
    assert "jobs name it" in (await tab.press("notifiers.delete", "ops")).text
    assert "ops deleted" in (await tab.press("notifiers.delete", "ops", force="yes")).text


async def test_messages_are_published_and_read(world: World, tab: Tab) -> None:
    """The newest first; older ones are a page behind; what is no JSON is said to be none."""
    for number in range(53):
        await world.service.channels.publish("orders", {"order": number})
    assert (await tab.ask("/channels?q=orders")).headers["location"] == "/channels/orders"
    page = await tab.show("/channels/orders")
    assert len(page.keys("message")) == 50
    (older,) = (link for link in page.links() if "after=" in link)
    assert '{"order":0}' in (await tab.show(older)).text
    await world.service.channels.publish("news", 1)
    assert (await tab.show("/channels")).keys("channel") == ["news", "orders"]
    news = await tab.show("/channels/news")
    assert "No older message is kept" in news.text
    assert not any("after=" in link for link in news.links())
    assert "Publish…" in news.text
    assert "it is no JSON" in elements(await tab.post("channels.publish", "orders", message="{")).text
    assert '"new"' in (await tab.press("channels.publish", "orders", message='"new"', back="/channels/orders")).text
    await tab.press("channels.unsubscribe", "orders", name="billing")


async def test_the_audit_log_says_what_it_was_before(world: World, tab: Tab) -> None:
    """Changes are filtered by who, what, of and when; each says what it did, and has its difference at an address."""
    await add(world)
    await tab.press("jobs.pause", "hello", reason="a reason")
    await tab.press("queues.pause", "mail")
    page = await tab.show("/audit?what=jobs")
    (entry,) = page.keys("entry")
    assert "paused: a reason" in page.text
    change = await tab.show(f"/audit/{entry}")
    assert '- "state": "enabled"' in change.text
    assert '+ "reason": "a reason"' in change.text
    assert "/jobs/hello" in change.links()
    assert len((await tab.show("/audit?who=http")).keys("entry")) == 2
    assert len((await tab.show("/audit?q=mail")).keys("entry")) == 1
    assert (await tab.show("/audit?until=2020-01-01T00:00:00Z")).keys("entry") == []
    assert (await tab.ask("/audit?since=never")).status == 422
    assert (await tab.ask("/audit/nothing")).status == 404


async def test_a_task_is_paused_and_rolled_back(world: World, tab: Tab) -> None:
    """Its builds stand on its page, and the one before runs again."""
    first, _ = await build(world.service, "1", "etl"), await build(world.service, "2", "etl")
    assert len((await tab.show("/tasks/etl")).keys("build")) == 2
    await tab.press("tasks.rollback", "etl", digest=str(first.record.current)[:8])
    assert (await world.service.tasks.get("etl")).record.current == first.record.current
    assert "has no such build" in (await tab.press("tasks.rollback", "etl", digest="zz")).text
    await tab.press("tasks.pause", "etl")
    assert (await tab.show("/tasks?state=paused")).keys("task") == ["etl"]
    await tab.press("tasks.delete", "etl")
    assert await world.service.tasks.list() == []


async def test_the_wall_says_the_worst_first(world: World, tab: Tab) -> None:
    """Large, with the worst first, the moment of its data, and nothing to press."""
    await add(world)
    await world.trigger("hello")
    await world.work(Failed(error="no luck"))
    page = await tab.show("/wall")
    assert page.acts() == []
    assert not list(page.named("form"))
    assert page.text.index("overdue") < page.text.index("failing") < page.text.index("running")
    assert "as of" in page.text
    assert "no luck" in page.text


async def test_the_palette_finds_jobs_runs_places_and_verbs(world: World, tab: Tab) -> None:
    """By beginnings, words and the end of a run's id; what somebody may not do or see is not suggested."""
    for job_id, queue in (("etl-load", "a"), ("etl-extract", "b"), ("mail", "a")):
        await add(world, job_id, queue=queue)
    run = await world.trigger("etl-load")
    page = await tab.show("/find?q=etl")
    jobs = [link for link in page.links() if link.startswith("/jobs/")]
    assert jobs == ["/jobs/etl-load", "/jobs/etl-extract", "/jobs/etl-load/edit"], "the one that is ready first"
    assert "Run etl-load… r " in page.text and "Jobs g j " in (await tab.show("/find?q=jobs")).text
    assert list(page.named("mark")) and f"/runs/{run.id}" in page.links()
    await world.work(Failed(error="no luck"))
    worst = (await tab.show("/find?q=etl")).text
    assert worst.index("etl-load failing") < worst.index("etl-extract") and "Run etl-load…" in worst
    await world.service.jobs.pause("etl-load")
    assert "Resume etl-load…" in (await tab.show("/find?q=etl-load")).text  # whatever its worst word is
    assert f"/runs/{run.id}" in (await tab.show(f"/find?q={run.id[-8:]}")).links()
    assert "/semaphores" in (await tab.show("/find?q=sem")).links()
    assert "New token…" in (await tab.show("/find?q=token")).text
    assert "Nothing is called so" in (await tab.show("/find?q=zzz")).text
    eve = Tab(world, (await world.service.tokens.create("eve", "read", queues=["b"])).text)
    text = (await eve.show("/find?q=etl")).text
    assert "etl-extract" in text
    assert "etl-load" not in text
    assert "Run etl" not in text
    assert "Edit etl" not in text
    assert f"/runs/{run.id}" not in (await eve.show(f"/find?q={run.id[-8:]}")).links()
    assert "New token" not in (await eve.show("/find?q=token")).text


async def test_a_token_and_a_secret_have_a_page(world: World, tab: Tab) -> None:
    """With what the list says and its verbs; never with a value, and not for a token that does not see it."""
    await fill_nouns(world)
    await world.service.secrets.set("OTHER", "hunter3", jobs=["else"])
    page = await tab.show("/tokens/team")
    assert "Role read Scope queue mail" in page.text and page.acts() == ["tokens.revoke"]
    page = await tab.show("/secrets/KEY")
    assert "Only for jobs hello*" in page.text and "hunter2" not in page.text
    assert page.acts() == ["secrets.set", "secrets.delete"]
    for path in ("/tokens/nobody", "/secrets/NONE"):
        await tab.show(path, 404)
    assert (
        "/secrets/KEY" in (await tab.show("/secrets")).links() and "/tokens/team" in (await tab.show("/tokens")).links()
    )
    eve = Tab(world, (await world.service.tokens.create("eve", "operate", jobs=["hello"])).text)
    await eve.show("/secrets/KEY")
    assert (await eve.ask("/secrets/OTHER")).status == 404
    assert (await eve.ask("/tokens/team")).status != 200
