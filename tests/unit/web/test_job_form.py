from collections.abc import Mapping
from urllib.parse import urlencode

import pytest

from tests.unit.api.asgi import Answer
from tests.unit.service.world import World
from tests.unit.web.conftest import EVIL, Elements, Tab, add, elements
from tokimori.errors import InvalidInput
from tokimori.service.definitions.definitions import job_fields_of
from tokimori.web.job_form import fields_in, texts_of

HERE = (("content-type", "application/x-www-form-urlencoded"), ("origin", "http://localhost"))


def filled(page: Elements) -> dict[str, str]:
    """What a browser would send of the form, but for its text areas and choices."""
    fields = page.named("input")
    return {str(each["name"]): each.get("value") or "" for each in fields if each.get("name") not in ("back", None)}


async def send(tab: Tab, path: str, **fields: str) -> Answer:
    """The answer to the form with these fields, saved unless they say otherwise."""
    body = urlencode({"do": "save", **{name.replace("__", "."): text for name, text in fields.items()}}).encode()
    return await tab.ask(f"/do/form{path}", "POST", *HERE, body=body)


async def test_a_job_is_made_in_the_form(world: World, tab: Tab) -> None:
    """Its page says so; what was left empty has its default."""
    await world.service.semaphores.set("warehouse", 3)
    fields = {"id": "etl", "command": "make etl", "schedule": "every 20 minutes", "retry__attempts": "5"}
    answer = await send(tab, "/jobs/new", **fields, env="A=1\r\nB=x=y", timeout="10m", semaphores="warehouse:2")
    assert (answer.status, answer.headers["location"]) == (303, "/jobs/etl")
    assert "etl added" in (await tab.show("/jobs/etl")).text
    made = job_fields_of(await world.service.jobs.get("etl"))
    assert made["env"] == {"A": "1", "B": "x=y"}
    assert (made["retry"]["attempts"], made["timeout"], list(made["semaphores"])) == (5, 600, ["warehouse:2"])  # type: ignore[index,arg-type]


async def test_a_preview_saves_nothing(world: World, tab: Tab) -> None:
    """It says the schedule in words, its next ten moments, and what will change."""
    await add(world, schedule="*/15 * * * *")
    page = await tab.show("/jobs/hello/edit")
    assert "As a notifier all as usual" in page.text, "where nothing is common, the title itself unfolds"
    answer = await send(
        tab, "/jobs/hello/edit", **{**filled(page), "do": "look"}, command="echo hello", schedule="@daily"
    )
    shown = elements(answer)
    assert answer.status == 200
    assert len(list(shown.named("time"))) == 10
    assert "- schedule = */15 * * * *" in shown.text
    assert "+ schedule = @daily" in shown.text
    assert (await world.service.jobs.get("hello")).version == 1


async def test_an_error_stands_at_its_field(world: World, tab: Tab) -> None:
    """Within a part that is folded too; all that was typed stays."""
    await add(world)
    for fields, at in (
        ({"schedule": "every blue moon"}, "f-schedule"),
        ({"retry__attempts": "many"}, "f-retry.attempts"),
        ({"env": "no pair"}, "f-env"),
        ({"starts_at": "soon"}, "f-starts_at"),
    ):
        answer = await send(tab, "/jobs/new", id="new-one", command=f"echo {EVIL}", **fields)
        page = elements(answer)
        assert answer.status == 422, fields
        assert [each["id"] for _, each in page.all if each.get("aria-invalid")] == [at]
        assert EVIL in page.text
        assert len(list(page.named("script"))) == 1
    assert (await send(tab, "/jobs/new", id="hello", command="x")).status == 409


async def test_an_edit_keeps_what_was_not_touched(world: World, tab: Tab) -> None:
    """And what was emptied gets its default back."""
    await add(world, schedule="@daily", owner="ada", description="first\nsecond", retry={"attempts": 3, "delay": 1.5})
    typed = texts_of(job_fields_of(await world.service.jobs.get("hello")))
    tag = filled(await tab.show("/jobs/hello/edit"))["tag"]
    answer = await send(tab, "/jobs/hello/edit", **{**typed, "tag": tag, "owner": "", "queue": "etl"})
    assert answer.status == 303, elements(answer).text
    job = job_fields_of(await world.service.jobs.get("hello"))
    assert (job["queue"], job.get("owner"), job["description"]) == ("etl", None, "first\nsecond")
    assert job["retry"] == {"attempts": 3, "delay": 1.5}


async def test_a_conflict_shows_both_sides(world: World, tab: Tab) -> None:
    """What only the others changed is taken over, nothing is saved before somebody has looked, then it is."""
    await add(world, schedule="@daily", owner="ada")
    first = filled(await tab.show("/jobs/hello/edit"))
    await world.service.jobs.update("hello", schedule="@hourly", owner="eve")
    mine = {"command": "echo hello", "schedule": "@weekly"}
    answer = await send(tab, "/jobs/hello/edit", **{**first, **mine})
    page = elements(answer)
    assert answer.status == 409
    assert "theirs: @hourly" in page.text
    assert "yours: @weekly" in page.text
    assert (await world.service.jobs.get("hello")).definition.schedule == "@hourly"
    assert filled(page)["owner"] == "eve"
    assert (await send(tab, "/jobs/hello/edit", **{**filled(page), **mine})).status == 303
    job = (await world.service.jobs.get("hello")).definition
    assert (job.schedule, job.owner) == ("@weekly", "eve")


async def test_a_copy_is_a_new_job(world: World, tab: Tab) -> None:
    """With the fields of the other."""
    await add(world, owner="ada")
    page = await tab.show("/jobs/hello/copy")
    fields = {**filled(page), "id": "again", "command": "echo hello"}
    assert (await send(tab, "/jobs/hello/copy", **fields)).status == 303
    assert (await world.service.jobs.get("again")).definition.owner == "ada"


async def test_whoever_may_not_sees_why(world: World) -> None:
    """No button to save, and a form that is sent all the same is refused."""
    await add(world)
    tab = Tab(world, (await world.service.tokens.create("eve", "read")).text)
    page = await tab.show("/jobs/hello/edit")
    assert "This needs the role operate" in page.text
    assert "save" not in [each.get("value") for each in page.named("button")]
    answer = await send(tab, "/jobs/hello/edit", **filled(page), command="rm -rf /")
    assert answer.status == 403
    assert (await world.service.jobs.get("hello")).version == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["a", "b c"], "env": {"A": "line\nline", "B": ""}, "labels": {"zone": "a"}},
        {"command": "[ -e x ] && y", "schedule": "@daily\n@weekly", "timeout": 0.25, "client": True},
        {"url": "http://e.org", "headers": {"X-A": "b: c"}, "expect": [200, 404], "auto_complete_success": False},
        {"noop": True, "parents": [{"job": "a", "on": "always"}], "notify": {"failure": ["mail", "chat"]}},
        {"noop": True, "retry": {"lost_attempts": "unlimited", "backoff": 2}, "notifier": {"quiet": ["22:00-07:00"]}},
        {"command": "  spaces stay  ", "payload": '{"a": [1]}', "priority": -3, "runs_remaining": 1000000},
    ],
)
def test_what_stands_in_the_form_means_the_fields(fields: Mapping[str, object]) -> None:
    """Untouched they stay as they are, and typed anew into an empty form they mean the same."""
    texts = texts_of(fields)
    assert fields_in(texts, fields) == fields
    again = fields_in(texts, {})
    assert {**again, "timeout": "0.25s"} == {**fields, "timeout": "0.25s"}


def test_what_is_no_pair_is_refused() -> None:
    """With the field, the line and what is allowed."""
    with pytest.raises(InvalidInput, match="env: 'x' has no '='"):
        fields_in({"env": "x"}, {})
