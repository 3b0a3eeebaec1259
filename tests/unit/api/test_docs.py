"""The document of the API, its page, and the examples in both."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import isclass
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.simulation.virtual_time import run_virtually
from tests.unit.api.asgi import Answer, Asker
from tests.unit.api.conftest import door_of
from tests.unit.service.world import World
from tokimori.api.app import operations
from tokimori.api.claims import ClaimPaths
from tokimori.api.docs import DOCS, OPENAPI, STYLE
from tokimori.api.document import document, path_of
from tokimori.api.operation import Operation
from tokimori.clock import SystemClock
from tokimori.model.build import MAIN, Manifest, digest_of, frozen, pieces_of
from tokimori.model.task import BuildRecord
from tokimori.node.http_door import formats

NOT_HERE = ("job_resolve", "job_rewind", "run_approve", "run_attempt", "run_refuse", "task_resolve")
"""They need a run that has failed, or asks for an approval, or a job that a clock has put ahead."""
ALL = operations(lambda _: None, None, formats(SystemClock()))  # type: ignore[arg-type, return-value]


@pytest.fixture
async def said(door: Asker) -> Any:
    return (await door.get(OPENAPI)).json


async def test_the_document_names_every_operation(said: Any) -> None:
    """It is OpenAPI 3.1, each operation is told once, and each type that it refers to is there."""
    assert said["openapi"] == "3.1.0"
    ids = [each["operationId"] for path in said["paths"].values() for each in path.values()]
    assert sorted(ids) == sorted({"health", "liveness", "readiness", "openapi", *(each.id for each in ALL)})
    assert set(re.findall(r"components/schemas/([^'\"]+)", str(said))) <= said["components"]["schemas"].keys()
    assert said["paths"]["/healthz"]["get"]["security"] == []


async def test_lists_may_have_some_members_alone(said: Any) -> None:
    """Where `fields` may be said, an answer without the other members is no fault of the answer."""
    for path in ("/api/v2/jobs", "/api/v2/runs"):
        content = said["paths"][path]["get"]["responses"]["200"]["content"]
        assert {"type": "object"} in [each["items"] for each in content["application/json"]["schema"]["anyOf"]]
    queues = said["paths"]["/api/v2/queues"]["get"]["responses"]["200"]["content"]
    assert "anyOf" not in queues["application/json"]["schema"]


def test_no_two_types_have_one_name() -> None:
    """Where two had, the document would name a type that is not in it, and what is sent would be unknown."""
    claims = ClaimPaths(None).operations()  # type: ignore[arg-type]
    kinds = {kind for each in [*ALL, *claims] for kind in (each.body, each.sent, each.answers)}
    assert max(Counter(kind.__name__ for kind in kinds if isclass(kind)).values()) == 1


async def test_every_operation_says_what_it_does(said: Any) -> None:
    """Each has a summary that is a sentence, and an example of its body where it has one."""
    for path in said["paths"].values():
        for each in path.values():
            assert each["summary"].rstrip().endswith((".", "ask.")), each["operationId"]
            for content in each.get("requestBody", {}).get("content", {}).values():
                assert content["example"] is not None, each["operationId"]


async def test_a_merge_patch_may_be_null(said: Any) -> None:
    """A field may be null in what adds a job, and what stands in a field too in what changes one."""
    kinds = said["components"]["schemas"]
    assert {"type": "null"} in kinds["NewJob"]["properties"]["noop"]["anyOf"]
    retry, _ = kinds["JobChanges"]["properties"]["retry"]["anyOf"]
    assert {"type": "null"} in retry["properties"]["attempts"]["anyOf"]
    assert kinds["Retry"]["properties"]["attempts"]["type"] == "integer"


async def test_the_page_needs_no_network(door: Asker) -> None:
    """It shows every operation and type, and loads nothing but its style, from the same place."""
    page = await door.get(DOCS)
    text = page.body.decode()
    assert page.headers["content-type"].startswith("text/html")
    for each in ALL:
        assert f'id="{each.id}"' in text
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', text) == ["data:,", STYLE, OPENAPI]
    assert "<script" not in text
    assert " style=" not in text
    assert (await door.get(STYLE)).headers["content-type"].startswith("text/css")


async def built(world: World) -> str:
    """Build the task of the examples twice, in the end as they do; the digest of that."""
    for code in (b"", b"print('hello')\n"):
        content = frozen({MAIN: code}, Manifest(task="ping_google"))
        record = BuildRecord(digest=digest_of(content), size=len(content), pieces=1)
        await world.service.tasks.put_piece("ping_google", record.digest, 0, pieces_of(content)[0])
        await world.service.tasks.build("ping_google", record)
    return record.digest


@pytest.mark.parametrize("each", [each for each in ALL if each.id not in NOT_HERE], ids=lambda each: each.id)
def test_an_example_works(each: Operation, world: World, door: Asker) -> None:
    """What the document shows as an example is taken as it is."""
    answer = run_virtually(_asked(each, world, door))  # some wait for seconds, and for nodes that never beat
    assert answer.status in (each.status, *each.others), answer.body


async def _asked(each: Operation, world: World, door: Asker) -> Answer:
    """The answer to the example, where there is what it speaks of."""
    await world.add({"noop": True, "schedule": "@daily", "time_zone": "UTC"}, "nightly-report")
    await world.service.calendars.add("holidays", dates=["12-25"])
    await world.service.sets.apply("holidays", {"in-a-set": {"noop": True}})
    await world.service.semaphores.set("holidays", 2)
    await world.service.expectations.set("holidays", 60)
    await world.service.jobs.add("notifier:holidays", noop=True, notifier={})
    await world.service.tokens.create("holidays", "read")
    await world.service.secrets.set("holidays", "correct horse")
    run = (await world.trigger("nightly-report")).id
    node = "01a1fe76-c901-7d5c-b9f7-4e869d9c8e53"
    await world.register(node)
    if each.id in ("run_restart", "run_signal"):
        await world.service.jobs.delete("nightly-report")
        await world.add({"function": "report"}, "reports")
        run = (await world.trigger("reports")).id
        await world.register()
        await world.begin(1)
    if each.id == "channel_acknowledge":
        await world.service.channels.publish("orders", "a message")
    if each.id in ("job_rename", "run_retry", "run_retry_family"):
        await world.service.runs.cancel(run)
    if each.id in ("job_add", "calendar_add"):
        await world.service.jobs.delete("nightly-report")
        await world.service.calendars.delete("holidays")
    names = {"job_id": "nightly-report", "queue": "mail", "name": "holidays", "run_id": run}
    names |= {"node_id": node, "topic": "orders", "cause": "exit 1: no luck", "attempt": "1"}
    if each.id.startswith("task_"):
        names |= {"name": "ping_google", "number": "0", "digest": await built(world)}
    path = path_of(each).format(**names) + ("?" + urlencode(each.asked, doseq=True) if each.asked else "")
    return await (door.get(path) if each.method == "GET" else door.post(path, each.example, each.method))


PARAMETERS = [
    (each, parameter)
    for each in ALL
    for parameter in document([each], "1")["paths"][path_of(each)][each.method.lower()]["parameters"]
    if parameter["in"] == "query"
]
WORDS = ("2035-01-01T00:00:00Z", "2029-12-31T00:00:00Z", "nightly-report", "1", "P1D")
"""Of these texts one is right for most parameters that are no numbers."""
RIGHT: Mapping[str, Sequence[str]] = {
    "after": ("a7570e74.3",),
    "before": ("01a1fe76-c901-7d5c-b9f7-4e869d9c8e53",),
    "calendars": ("holidays",),
    "fields": ("id",),
    "fold": ("first",),
    "gap": ("shift",),
    "kind": ("runs",),
    "of": ("jobs",),
    "shift": ("next",),
    "state": ("failed", "enabled"),
    "text": ("@daily",),
    "time_zone": ("UTC",),
}


def values_of(schema: Mapping[str, Any]) -> Sequence[str]:
    """Values that the document allows."""
    if "anyOf" in schema:
        return [value for part in schema["anyOf"] for value in values_of(part)]
    if "enum" in schema:
        return [str(word) for word in schema["enum"] if word is not None]
    match schema.get("type"):
        case "integer" | "number":
            return [str(schema.get("minimum", 1))]
        case "boolean":
            return ["true", "false"]
        case "array":
            return values_of(schema["items"])
        case "null":
            return []
        case _:
            return WORDS


@pytest.mark.parametrize(
    ("each", "parameter"), PARAMETERS, ids=[f"{each.id}-{parameter['name']}" for each, parameter in PARAMETERS]
)
def test_every_parameter_is_taken(each: Operation, parameter: Mapping[str, Any]) -> None:
    """What the document names can be asked for: no such parameter is unknown, and one of its values is right."""
    answers, fine = [], {each.status, *each.others, *([404] if parameter["name"] == "attempt" else [])}
    for value in (*RIGHT.get(parameter["name"], ()), *values_of(parameter["schema"])):
        asked = replace(each, asked={**(each.asked or {}), parameter["name"]: value})
        world = World()
        answers.append(run_virtually(_asked(asked, world, door_of(world))))
        assert b"there is no such parameter" not in answers[-1].body, value
        if answers[-1].status in fine:
            return
    assert not answers, [answer.body for answer in answers]


@pytest.mark.parametrize("each", [each for each in ALL if each.path.startswith("/api/")], ids=lambda each: each.id)
async def test_no_parameter_is_ignored(world: World, door: Asker, each: Operation) -> None:
    """What a body says, `dry_run` for one, is refused in an address, and nothing is done."""
    asked = {**(each.asked or {}), "dry_run_": "true"}
    answer = await _asked(replace(each, asked=asked), world, door)
    assert (answer.status, answer.error["field"]) == (422, "dry_run_")


def test_the_document_has_parameters() -> None:
    """The test above looks at something."""
    names = {(each.id, parameter["name"]) for each, parameter in PARAMETERS}
    assert len(names) > 60
    assert {("job_ledger", "from"), ("job_verify", "to")} <= names
