import re

import pytest

from tests.unit.service.world import World
from tests.unit.web.conftest import Tab, add
from tokimori.model.access_token import Role
from tokimori.model.outcome import Failed
from tokimori.web.pictures import histogram
from tokimori.web.screens import failures


async def _fail(world: World, job_id: str, error: str, times: int = 1) -> None:
    for _ in range(times):
        await world.trigger(job_id)
        await world.work(Failed(error=error, exit_code=1))


async def test_failures_are_listed_by_cause(world: World, tab: Tab) -> None:
    """What differs between failures is left out; the most frequent cause is first, and leads to its runs."""
    for name in ("etl", "mail"):
        await add(world, name)
    await _fail(world, "etl", "connection refused: pid 17", 2)
    await _fail(world, "mail", "connection refused: pid 4")
    await _fail(world, "mail", "quota is exhausted")
    page = await tab.show("/failures")
    first, second = page.keys("cause")
    assert page.text.index("connection refused: pid #") < page.text.index("quota is exhausted")
    assert "Failures 4 in 24 h" in page.text and "etl, mail" in page.text
    assert any(f"/runs?cause={first}&" in link for link in page.links())
    assert "3 in 24 h, by hour" in [str(each.get("aria-label")) for each in page.named("svg")]
    assert (await tab.show("/failures?job=mail&q=QUOTA")).keys("cause") == [second]
    assert "No failure matches" in (await tab.show("/failures?q=nothing")).text
    world.pass_seconds(2 * 24 * 3600)
    assert "Nothing failed in 24 h" in (await tab.show("/failures")).text
    assert (await tab.show("/failures?span=7d")).keys("cause") == [first, second]


async def test_all_failures_of_a_cause_are_retried_at_once(world: World, tab: Tab) -> None:
    """The runs are named before; those of other causes stay as they are."""
    await add(world)
    await _fail(world, "hello", "no luck", 3)
    await _fail(world, "hello", "quota is exhausted")
    (link,) = [
        each for each in (await tab.show("/failures")).links() if "/retry?" in each and "Retry" and "cause" in each
    ][:1]
    page = await tab.show(link)
    chosen = [str(each["value"]) for each in page.named("input") if each.get("name") == "on"]
    assert "Retry 3 runs?" in page.text and len(chosen) == 3
    assert all(f"hello {each[-8:]}" in page.text for each in chosen)
    told = await tab.press("runs.retry", *chosen, back="/failures")
    assert "3 runs retried" in told.text and len(await world.service.runs.list(state="ready")) == 3


async def test_the_jobs_of_a_cause_are_paused_at_once(world: World, tab: Tab) -> None:
    """Each job is named once, and a reason is asked for."""
    for name in ("etl", "mail", "other"):
        await add(world, name)
        await _fail(world, name, "no luck" if name != "other" else "quota is exhausted", 2)
    link = next(each for each in (await tab.show("/failures")).links() if "/pause?" in each)
    page = await tab.show(link)
    assert {str(each["value"]) for each in page.named("input") if each.get("name") == "on"} == {"etl", "mail"}
    assert "Reason" in page.text
    await tab.show("/failures/mute?cause=0123456789ab", 404)
    await tab.show(re.sub("since=[^&]*", "since=2999-01-01T00:00:00Z", link), 404)
    await tab.show(re.sub("since=[^&]*", "since=soon", link), 422)


async def test_a_muted_cause_stands_below_and_needs_nobody(world: World, tab: Tab) -> None:
    """It says until when and why, its job is not counted as failing, and one press ends it."""
    await add(world)
    await _fail(world, "hello", "no luck", 2)
    await add(world, "other")
    await _fail(world, "other", "quota is exhausted")
    first, second = (await tab.show("/failures")).keys("cause")
    told = await tab.press("runs.mute", "exit 1: no luck", back="/failures", lasts="2d", reason="on Monday")
    assert "“exit 1: no luck” is muted until" in told.text
    page = await tab.show("/failures")
    assert page.keys("cause") == [second, first]
    assert "Muted for everybody" in page.text and "on Monday" in page.text and "Unmute" in page.text
    assert "1 failing" in (await tab.show("/")).text and "hello" not in (await tab.show("/jobs?state=failing")).text
    await tab.press("runs.unmute", "exit 1: no luck", back="/failures")
    assert "Muted" not in (await tab.show("/failures")).text


async def test_a_reader_sees_the_failures_of_his_queue_alone(world: World) -> None:
    """No count, no job and no picture says anything of another queue; what he may not do is not offered."""
    await add(world, "mine", queue="mine")
    await add(world, "hidden", queue="other")
    for name in ("mine", "hidden"):
        await _fail(world, name, "no luck", 2)
    token = await world.service.tokens.create("eve", Role.READ, queues=["mine"])
    page = await Tab(world, token.text).show("/failures")
    assert "Failures 2 in 24 h" in page.text and "hidden" not in page.text
    assert "need the role" in page.text and not [link for link in page.links() if "/retry" in link]


def test_failures_are_drawn_on_one_scale() -> None:
    """The part with most failures of all causes is as high as the picture, and a single one can be seen."""
    picture = histogram([0, 1, 100], 100, "<3>")
    assert re.findall(r'height="([\d.]+)"/>', picture) == ["3", "20"]
    assert "<3>" not in picture and "&lt;3&gt;" in picture


async def test_rare_causes_are_shown_when_they_are_asked_for(
    world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many causes the most frequent are shown, and how many more there are; a link leads to all, which are read."""
    monkeypatch.setattr(failures, "SHOWN", 2)
    await add(world)
    for number, error in enumerate(("no luck", "quota is exhausted", "out of paper")):
        await _fail(world, "hello", error, 3 - number)
    page, outputs = await tab.show("/failures"), world.count("output")
    assert len(page.keys("cause")) == 2 and "2 causes, and 1 more" in page.text and "out of paper" not in page.text
    every = await tab.show(next(link for link in page.links() if "all=1" in link))
    assert len(every.keys("cause")) == 3 and "out of paper" in every.text and len(outputs) <= 1
