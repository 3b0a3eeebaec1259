import re
import time
from collections.abc import Sequence

import pytest

from tests.unit.service.world import World
from tests.unit.web.conftest import EVIL, Elements, Tab, add, elements
from tokimori.model.outcome import Failed, Succeeded
from tokimori.model.run import Output, Run, times_since
from tokimori.web.ansi import Piece
from tokimori.web.log_view import SHOWN, marked


async def wrote(world: World, head: bytes, **fields: object) -> Run:
    """A run that has ended, whose output is this."""
    await add(world)
    run = await world.trigger("hello")
    await world.work(Succeeded())
    size = len(head)
    await world.store.save_outputs([Output(run_id=run.id, attempt=1, head=head, **{"size": size, **fields})])  # type: ignore[arg-type]
    return run


def numbers(page: Elements) -> Sequence[int]:
    """The numbers of the lines that are shown."""
    found = (re.fullmatch(r"L(\d+)", str(each.get("id"))) for each in page.named("span"))
    return [int(each[1]) for each in found if each]


def hits(page: Elements) -> Sequence[str | None]:
    """The lines that stand out."""
    return [each.get("id") for each in page.named("span") if each.get("class") == "hit"]


async def test_each_line_has_an_address_that_names_its_attempt(world: World, tab: Tab) -> None:
    """Whoever follows it later sees that line of that log, though the run was tried again since."""
    await add(world, retry={"attempts": 2, "delay": 0})
    run = await world.trigger("hello")
    await world.work(Failed(error="no"))
    await world.store.save_outputs([Output(run_id=run.id, attempt=1, size=8, head=b"one\ntwo\n")])
    (link,) = [each for each in (await tab.show(f"/runs/{run.id}?attempt=1")).links() if each.endswith("#L2")]
    await world.work(Succeeded())
    page = await tab.show(link.partition("#")[0])
    assert "two" in page.text
    assert hits(page) == ["L2"]


async def test_a_long_log_is_shown_in_ranges_both_ways(world: World, tab: Tab) -> None:
    """The newest lines first; links lead to all others, and a line's own address to the range around it."""
    run = await wrote(world, b"".join(b"%d\n" % n for n in range(1, 5_001)))
    here = f"/runs/{run.id}"
    newest = await tab.show(here)
    assert numbers(newest) == list(range(5_001 - SHOWN, 5_001))
    assert numbers(await tab.show(f"{here}?from=1")) == list(range(1, SHOWN + 1))
    seen, page = set(numbers(newest)), newest
    while earlier := [str(each["href"]) for each in page.named("a") if each.get("rel") == "prev"]:
        page = await tab.show(earlier[0])
        seen |= set(numbers(page))
    assert seen == set(range(1, 5_001))
    later = [str(each["href"]) for each in page.named("a") if each.get("rel") == "next"]
    assert numbers(await tab.show(later[0]))[0] == SHOWN + 1
    assert 118 in numbers(await tab.show(f"{here}?line=118"))
    for odd in ("line=0", "line=99999", "from=99999", "line=-1", "from=x", f"line={'9' * 400}"):
        assert numbers(await tab.show(f"{here}?{odd}")), odd


async def test_a_text_is_sought_in_the_output(world: World, tab: Tab) -> None:
    """Each match is marked, also across colours; `only` shows the lines that match, with their own numbers."""
    run = await wrote(world, b"one\n\x1b[31mcon\x1b[0mnection refused\nthree\nConnection reset\n")
    page = await tab.show(f"/runs/{run.id}?find=connection")
    assert numbers(page) == [1, 2, 3, 4]
    assert [each.get("class") for each in page.named("span") if "mark" in str(each.get("class"))] == [
        "mark bad t",
        "mark",
        "mark",
    ]
    assert hits(page) == ["L4"]
    assert f"/runs/{run.id}?find=connection&line=2#L2" in page.links()
    assert numbers(await tab.show(f"/runs/{run.id}?find=connection&only=1")) == [2, 4]
    none = await tab.show(f"/runs/{run.id}?find=(&only=1")
    assert (numbers(none), "No line has '(' in it." in none.text) == ([], True)


async def test_hostile_output_stays_text(world: World, tab: Tab) -> None:
    """Markup, escapes and turning characters within it and within what is sought reach no browser."""
    text = f"{EVIL}\x1b]8;;javascript:alert(1)\x07{EVIL}\x1b]8;;\x07\u202e\x00\x1b[31m\n".encode()
    run = await wrote(world, text)
    for query in ("", "?find=%3Cscript%3E", "?find=%1b%00%e2%80%ae&only=1"):
        answer = await tab.ask(f"/runs/{run.id}{query}")
        log = answer.body.decode().partition('<pre class="log')[2].partition("</pre>")[0]
        assert "<script" not in log
        assert not set(log) & {"\x1b", "\x00", "\u202e"}
    assert "javascript:" not in "".join((await tab.show(f"/runs/{run.id}")).links())


async def test_lines_have_their_times_where_they_are_known(world: World, tab: Tab) -> None:
    """And can do without."""
    now = world.clock.now()
    run = await wrote(world, b"one\ntwo\n", times=times_since(now, bytes([0, 5, 4, 10])))
    page = await tab.show(f"/runs/{run.id}")
    assert "00.005 one 201:00:00.015 two" in page.text
    assert ".015" not in (await tab.show(f"/runs/{run.id}?notimes=1")).text


async def test_a_colour_lasts_beyond_what_is_shown(world: World, tab: Tab) -> None:
    """A line that is not shown colours those that are, until the colour ends."""
    lines = [b"\x1b[31mred", *(b"%d" % n for n in range(2, 2_001)), b"\x1b[0mplain"]
    run = await wrote(world, b"\n".join(lines))
    page = (await tab.ask(f"/runs/{run.id}")).body.decode()
    assert '<span class="bad t">2000</span>' in page
    assert "<span>plain</span>" in page


async def test_who_has_the_first_lines_gets_the_others(world: World, tab: Tab) -> None:
    """A tab that follows a run says which line it has: it gets that one again, which may have grown, and the next."""
    await add(world)
    run = await world.trigger("hello")
    await world.begin(1)
    await world.store.save_outputs([Output(run_id=run.id, attempt=1, size=18, tail=b"one\ntwo\nthree\nfour")])
    whole = await tab.ask(f"/runs/{run.id}")
    rest = await tab.ask(f"/runs/{run.id}", "GET", ("tokimori-part", "3"))
    assert numbers(elements(whole)) == [1, 2, 3, 4]
    assert numbers(elements(rest)) == [3, 4]
    assert "Lines 1 to 4 of 4" in elements(rest).text
    assert 3 * len(rest.body) < 2 * len(whole.body)
    found = await tab.ask(f"/runs/{run.id}?find=o&only=1", "GET", ("tokimori-part", "3"))
    assert numbers(elements(found)) == [1, 2, 4], "of matches alone all come: lines are no positions there"


async def test_the_lines_of_a_running_log_that_lost_its_begin_have_no_numbers(world: World, tab: Tab) -> None:
    """They would change with each byte that falls out, and no link may lead to another line."""
    await add(world)
    run = await world.trigger("hello")
    await world.begin(1)
    await world.store.save_outputs([Output(run_id=run.id, attempt=1, size=900_000, tail=b"the end\n")])
    page = await tab.show(f"/runs/{run.id}")
    assert "899992 bytes left out" in page.text
    assert not [each for each in page.links() if "#L" in each]


@pytest.mark.parametrize("text", ["a" * 65_536, "\x1b[1ma\x1b[0mb" * 6_000])
def test_marks_of_a_long_line_are_bounded(text: str) -> None:
    """A line of 64 KiB that matches everywhere takes no second."""
    began = time.process_time()
    assert "".join(each.text for each in marked([Piece(text)], re.compile("a"))) == text
    assert time.process_time() - began < 1
