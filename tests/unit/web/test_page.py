import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from urllib.parse import parse_qs

import pytest
from jinja2 import Environment
from jinja2.meta import find_referenced_templates

from tests.unit.service.world import World
from tests.unit.web.conftest import EVIL, NAMED, Tab, add, elements, fill_nouns
from tokimori.model.cause import cause_id, cause_in
from tokimori.model.ids import RunId
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Output
from tokimori.service.events.notice_board import wanted_of
from tokimori.web.page import KINDS
from tokimori.web.screens.job import TABS
from tokimori.web.screens.registry import SCREENS


async def filled(world: World, **fields: str) -> Sequence[str]:
    """The paths of all screens, with something to see on each."""
    await add(world, schedule="@daily", **fields)
    run = await world.trigger("hello")
    await world.work(Failed(error="no luck", exit_code=3))
    await fill_nouns(world)
    paths = [screen.path for screen in SCREENS]
    cause = cause_in((await world.service.runs.get(run.id)).run)
    parts = {"{verb}": f"retry?cause={cause_id(str(cause))}"}
    parts |= {"{job_id}": "hello", "{run_id}": run.id, "{act}": "jobs.pause?on=hello", **NAMED}
    for name, value in parts.items():
        paths = [path.replace(name, value) for path in paths]
    assert not any("{" in path for path in paths), "give the new parameter a value here"
    return [*paths, *(f"/jobs/hello?tab={name}" for name in TABS)]


async def test_every_link_leads_somewhere(world: World, tab: Tab) -> None:
    """Every link and file that a screen names is there, and every screen of the rail."""
    paths = await filled(world)
    found = {link for path in paths for link in (await tab.show(path)).links()} - {""}
    assert len(found) > len(paths)
    for path in found:
        if not path.startswith("#"):
            assert (await tab.ask(path.replace("%3A", ":"))).status == 200, path


async def test_the_pages_keep_their_own_policy(world: World, tab: Tab) -> None:
    """No screen has a script, a style or an event handler within itself, or anything from other hosts."""
    for path in await filled(world):
        answer = await tab.ask(path)
        assert "unsafe" not in answer.headers["content-security-policy"]
        page = elements(answer)
        for tag, attributes in page.all:
            assert tag != "style"
            assert not [name for name in attributes if name == "style" or name.startswith("on")] or "name" in attributes
            assert not [
                value for name, value in attributes.items() if name in ("src", "href") and "//" in (value or "")
            ]
        (script,) = page.named("script")
        assert (script["type"], "src" in script) == ("module", True)


async def test_a_column_leaves_a_narrow_window_with_its_head(world: World, tab: Tab) -> None:
    """Else the other heads stand above cells that are not theirs."""
    paths = await filled(world)
    await world.trigger("hello")
    await world.work(Succeeded(0))
    for path in paths:
        heads, row = list[set[str]](), list[set[str]]()
        for tag, attributes in [*(await tab.show(path)).all, ("tr", {})]:
            if tag in ("table", "tr"):
                assert len(row) != len(heads) or row == heads, path
                heads, row = list[set[str]]() if tag == "table" else heads or row, []
            elif tag in ("th", "td"):
                row.append({"w1", "w2", "w3", "w4", "w5", "w6"} & set((attributes.get("class") or "").split()))


async def test_every_screen_says_what_it_shows(world: World, tab: Tab) -> None:
    """Of that it is told, in words that notices have; a refresh is sent what may change alone."""
    for path in await filled(world):
        whole, part = await tab.ask(path), await tab.ask(path, "GET", ("tokimori-part", "1"))
        (main,) = elements(whole).named("main")
        wanted_of(parse_qs(main["data-of"] or "").get("of", []))
        assert ("data-of" in main) == ('data-of="' in part.body.decode())
        if path != "/wall":
            assert "Log out" in elements(whole).text
            assert "Log out" not in elements(part).text
    (main,) = elements(await tab.ask("/runs?job=hello")).named("main")
    assert main["data-of"] == "of=jobs%2Fhello"
    (main,) = elements(await tab.ask("/calendars/days")).named("main")
    assert main["data-of"] == "of=calendars%2Fdays"


async def test_every_field_has_a_name_and_every_table_a_caption(world: World, tab: Tab) -> None:
    """Tables say what they show and their heads what they head; whatever is filled in says what it is."""
    for path in await filled(world):
        page = await tab.show(path)
        assert len(list(page.named("table"))) == len(list(page.named("caption"))), path
        assert all(head.get("scope") in ("col", "row", "rowgroup") for head in page.named("th")), path
        labelled = {label.get("for") for label in page.named("label")}
        for tag, field in page.all:
            if tag in ("input", "textarea") and field.get("type") not in ("hidden", "checkbox"):
                assert "aria-label" in field or field.get("id") in labelled, (path, field)


async def test_nothing_that_a_job_says_becomes_markup(world: World, tab: Tab) -> None:
    """Names, commands, reasons and output of jobs are text, whatever stands in them."""
    paths = await filled(world, command=f"echo {EVIL}", name=EVIL, description=EVIL, owner=EVIL)
    run = await world.trigger("hello")
    await world.work(Failed(error=EVIL))
    await world.store.save_outputs([Output(run_id=run.id, attempt=1, size=9, head=EVIL.encode())])
    await world.service.jobs.pause("hello", EVIL)
    await world.service.queues.pause("mail", EVIL)
    count = 0
    for path in (*paths, f"/runs/{run.id}", f"/jobs?q={EVIL}", f"/jobs?owner={EVIL}", "/jobs?group=owner"):
        page = await tab.show(path.replace("<", "%3C").replace("&", "%26"))
        assert len(list(page.named("script"))) == 1, path
        count += page.text.count(EVIL)
    assert count >= 10
    assert (await tab.press("jobs.pause", "hello", reason=EVIL)).text.count(EVIL) >= 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/x", 422),
        (f"/runs/{RunId('01a1fe76-c901-7d5c-b9f7-4e869d9c8e52')}", 404),
        ("/jobs/-", 422),
        ("/jobs/none", 404),
        ("/runs?before=x", 422),
        ("/runs?state=x", 422),
        ("/jobs?q=" + "x" * 600, 422),
        ("/nowhere", 404),
        ("/do/jobs.explode?on=a", 404),
        ("/do/jobs.pause", 422),
    ],
)
async def test_what_is_not_there(tab: Tab, path: str, status: int) -> None:
    """What is not there, or can't be, is said on a page with its status and a way back."""
    page = await tab.show(path, status)
    assert "can’t be shown" in page.text
    assert "/jobs" in page.links()


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
async def test_files_are_kept_for_ever(world: World, tab: Tab, name: str, kind: str) -> None:
    """A file is kept by browsers for ever, as its address names its bytes."""
    answer = await tab.ask(f"/static/{name}")
    assert answer.headers["content-type"].startswith(kind)
    assert "immutable" in answer.headers["cache-control"]
    await add(world)
    await world.trigger("hello")
    await world.work(Succeeded(0))
    pages = [await tab.ask(path) for path in ("/", "/jobs/hello?tab=trends", "/static/trends.js")]
    assert re.search(rf"/static/{name}\?[0-9a-f]{{12}}\"", b"".join(page.body for page in pages).decode())


@pytest.mark.parametrize("name", ["nope.js", "..%2Fpage.py", "page.py"])
async def test_no_other_files(tab: Tab, name: str) -> None:
    """Nothing but the page's own files is given out."""
    assert (await tab.ask(f"/static/{name}")).status == 404


async def test_a_load_is_small(world: World, tab: Tab) -> None:
    """The style, the scripts and a list, or the curves, are sent in less than 60 KB, as browsers ask for them."""
    for n in range(60):
        await add(world, f"job-{n:02}", schedule="*/5 * * * *")
    packed = ("accept-encoding", "gzip")
    for path, left_out in (
        ("/jobs", ("uplot.js", "uplot.css", "trends.js")),
        ("/jobs/job-01?tab=trends", ("palette.js",)),
    ):
        files = [f"/static/{name}" for name in KINDS if name not in left_out]
        assert sum([len((await tab.ask(each, "GET", packed)).body) for each in (path, *files)]) < 60_000


def test_what_others_have_written_is_as_they_published_it() -> None:
    """Their files have the sums that stand beside them, with their licence."""
    folder = files("tokimori.web").joinpath("static")
    sums = re.findall(r"^([0-9a-f]{64})  (\S+)", folder.joinpath("uplot.txt").read_text(), re.MULTILINE)
    assert [name for _, name in sums] == ["uplot.js", "uplot.css"]
    for total, name in sums:
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == total


async def test_a_browser_that_is_lost_gets_a_page(world: World, tab: Tab) -> None:
    """Programs, and whoever asks the API, get JSON as ever."""
    assert "there is no page at /nowhere" in (await tab.show("/nowhere", 404)).text
    assert (await tab.ask("/nowhere", "GET", ("accept", "*/*"))).status == 404
    assert (await tab.ask("/api/v2/jobs/x")).error["code"] == "not_found"


async def test_times_are_shown_in_the_chosen_zone(world: World, tab: Tab) -> None:
    """That of the service, that of each job, or one of his own; the browser keeps the choice."""
    await add(world, schedule="0 9 * * *", time_zone="Asia/Tokyo")
    seen = {}
    for zone in ("", "job", "America/New_York", "Mars/Base"):
        form = ("content-type", "application/x-www-form-urlencoded")
        body = f"zone={zone}&back=/jobs".encode()
        answer = await tab.ask("/do/zone", "POST", form, ("origin", "http://localhost"), body=body)
        assert (answer.status, answer.headers["location"]) == (303, "/jobs")
        titles = [str(time["title"]) for time in (await tab.show("/jobs")).named("time")]
        seen[zone] = titles[0].split()[2]
    assert seen == {
        "": "01:00:00+01:00",
        "job": "09:00:00+09:00",
        "America/New_York": "19:00:00-05:00",
        "Mars/Base": "01:00:00+01:00",
    }


async def test_ids_are_quoted_in_every_address(world: World, tab: Tab) -> None:
    """What stands in an id means nothing in an address."""
    for job_id in ("a:b@c+d", "..."):
        await add(world, job_id)
    page = await tab.show("/jobs")
    assert page.keys("job") == ["...", "a:b@c+d"]
    assert {"/jobs/...", "/jobs/a%3Ab%40c%2Bd"} <= set(page.links())


async def test_a_reader_sees_what_he_may_not_do(world: World) -> None:
    """Where the button would be it says what the act needs; nothing can be pressed."""
    await add(world)
    token = (await world.service.tokens.create("eve", "read")).text
    tab = Tab(world, token)
    page = await tab.show("/jobs/hello")
    assert page.acts() == []
    assert "Run, Pause, Delete need the role operate" in page.text
    assert "eve · read" in page.text
    assert "need the role operate" in (await tab.show("/jobs")).text
    asked = await tab.show("/do/jobs.pause?on=hello")
    assert "tokimori token create NAME --role operate" in asked.text
    told = await tab.press("jobs.pause", "hello", back="/jobs/hello")
    assert "Not paused. Your token may only read." in told.text
    assert "tokimori token create NAME --role operate" in told.text
    assert (await world.service.jobs.get("hello")).state == "enabled"


async def test_a_token_of_one_queue_sees_nothing_else(world: World) -> None:
    """On no screen, in no counter, and in no suggestion."""
    await world.work()
    for job_id, queue in (("mine", "a"), ("theirs", "b")):
        await add(world, job_id, queue=queue, schedule="@daily")
        await world.trigger(job_id)
    for _ in range(2):
        await world.work(Failed(error="no luck"))
    run = await world.trigger("theirs")
    await world.service.runs.hold(run.id, "their secret")
    await world.service.jobs.pause("theirs", "their secret")
    token = (await world.service.tokens.create("eve", "operate", queues=["a"])).text
    tab = Tab(world, token)
    for path in ("/", "/jobs", "/jobs?state=failing", "/jobs?state=held", "/runs", "/jobs/mine", "/jobs?q=t", "/nodes"):
        text = (await tab.show(path)).text
        assert "their" not in text, path
    assert (await tab.ask("/jobs/theirs")).status == 404
    assert (await tab.ask(f"/runs/{run.id}")).status == 404
    assert re.search(r" 1 failing 0 held 0 to approve 0 paused", (await tab.show("/")).text)


async def test_a_run_that_succeeded_has_no_cause(world: World, tab: Tab) -> None:
    """The page of a run shows its output, with numbers of lines that are links, and nothing that moves a cursor."""
    await add(world)
    run = await world.trigger("hello")
    await world.work(Succeeded())
    written = b"\x1b[31mred\x1b[0m\r\ntwo\n\x1b]0;title\x07three\n"
    await world.store.save_outputs([Output(run_id=run.id, attempt=1, size=9, head=written)])
    answer = await tab.ask(f"/runs/{run.id}")
    assert b"\x1b" not in answer.body
    page = elements(answer)
    assert "1 red 2 two 3 three" in page.text
    assert f"/runs/{run.id}?attempt=1&line=2#L2" in page.links()


def test_bars_are_drawn_in_narrow_windows() -> None:
    """A column that leaves where there is no room names its cells: strokes of pictures have the same class."""
    style = files("tokimori.web").joinpath("static", "console.css").read_text()
    assert ":is(td, th).w5 { display: none; }" in style and not re.search(r"[{}\s]\.w5 \{ display", style)


def test_the_login_needs_no_other_template() -> None:
    """It is rendered in the loop, for whoever is not let in: the macros of the screens take long to be compiled."""
    source = files("tokimori.web").joinpath("templates", "closed.html").read_text()
    assert list(find_referenced_templates(Environment(autoescape=True).parse(source))) == []
