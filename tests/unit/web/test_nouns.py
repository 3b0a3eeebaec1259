import pytest

from tests.unit.service.world import World
from tests.unit.web.conftest import EVIL, NAMED, Tab, add, elements, fill_nouns
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
    assert "the role" in page.text or answer.status == 403


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
    assert "1 secrets encrypted" in (await tab.press("secrets.rotate", "all")).text
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


async def test_a_node_is_drained(world: World, tab: Tab) -> None:
    """It is said on its page and in the list, and taken back."""
    await fill_nouns(world)
    node = NAMED["{node_id}"]
    assert "takes no new runs" in (await tab.press("nodes.drain", node)).text
    assert "draining" in (await tab.show(f"/nodes/{node}")).text
    assert (await tab.show("/nodes?state=draining")).keys("node") == [node]
    await tab.press("nodes.resume", node)
    assert (await tab.show("/nodes?state=draining")).keys("node") == []
    assert (await tab.ask("/nodes/nobody")).status == 404


def test_every_act_has_a_screen_to_go_back_to() -> None:
    """Wherever an act came from, there is a list of its noun."""
    assert {f"/{act.noun}" for act in ACTS.values()} <= {screen.path for screen in SCREENS}
