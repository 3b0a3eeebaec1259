"""Bad input of every policy: the same answer in the same words through every door, and nothing changed."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import tokimori
from tests.integration.cli.conftest import Program
from tests.unit.api.asgi import SECRET, Asker
from tokimori.api.app import Health, create_app
from tokimori.client.client import Client
from tokimori.clock import SystemClock
from tokimori.errors import InvalidInput, TokimoriError
from tokimori.service.service import Service, service_for

JOBS = "/api/v2/jobs"


@dataclass(frozen=True)
class Case:
    """What is asked of a job: `act` is what HTTP calls it; `field` is what the errors name, `allowed` what they say."""

    act: str
    job: str
    values: Mapping[str, Any]
    line: str
    field: str
    allowed: str
    code: str = "invalid_input"


def adding(line: str, field: str, allowed: str, code: str = "invalid_input", **values: Any) -> Case:
    """A job that can't be."""
    return Case("add", "new", {"noop": True, **values}, f"job add new --noop {line}", field, allowed, code)


def editing(job: str, line: str, field: str, allowed: str, **values: Any) -> Case:
    """An edit that can't be."""
    return Case("update", job, values, f"job update {job} {line}", field, allowed)


def asking(job: str, line: str, field: str, allowed: str, code: str = "invalid_input", **values: Any) -> Case:
    """A run that nobody may ask for."""
    return Case("trigger", job, values, f"job trigger {job} {line}", field, allowed, code)


CASES = {
    "unknown parent": adding("--after nobody", "parents", "ids of jobs", parents=[{"job": "nobody"}]),
    "cycle": editing("mother", "--after child", "parents", "do not come after", parents=[{"job": "child"}]),
    "unknown failure job": adding("--on-failure-job no", "parents", "ids of jobs", on_failure_job="no"),
    "negative limit": adding("--max-running -1", "max_running", ">= 0", max_running=-1),
    "negative number that wait": adding("--max-running 1 --max-waiting -1", "max_waiting", ">= 0", max_waiting=-1),
    "nobody waits": adding("--max-waiting 1", "max_waiting", "max_running above 0", max_waiting=1),
    "who replaces does not wait": editing(
        "bounded", "--on-overlap replace", "max_waiting", "skip or queue", on_overlap="replace"
    ),
    "bad duration": adding('--retention "30 days"', "retention", "P", retention="30 days"),
    "negative seconds": adding("--retry-delay -1", "retry.delay", ">= 0", retry={"delay": -1}),
    "no time at all": adding("--timeout 0", "timeout", "> 0", timeout=0),
    "unknown misfire policy": adding("--misfire no", "misfire", "latest", misfire="no"),
    "unknown overlap policy": adding("--on-overlap no", "on_overlap", "queue", on_overlap="no"),
    "unknown end of retries": adding("--on-exhausted no", "on_exhausted", "park", on_exhausted="no"),
    "bad priority": adding("--priority 101", "priority", "<= 100", priority=101),
    "not parked": Case("resolve", "mother", {}, "job resolve mother", "state", "a parked job", "refused"),
    "paused": asking("paused", "", "id", "force", "refused"),
    "full": asking("bounded", "", "max_waiting", "a larger max_waiting", "refused"),
    "debounce of nothing": asking("mother", "--debounce 5", "key", "a key beside", debounce=5),
    "no debounce": asking("mother", "--key k --debounce 0", "debounce", "above 0", key="k", debounce=0),
    "negative throttle": asking("mother", "--key k --throttle -1", "throttle", "above 0", key="k", throttle=-1),
    "both": asking(
        "mother",
        "--key k --replace --throttle 1",
        "replace",
        "one of",
        key="k",
        replace=True,
        throttle=1,
    ),
    "bad priority of a run": asking("mother", "--priority 101", "priority", "-100..100", priority=101),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A store with a mother and her child, a paused job, and one that has as many runs as it may."""
    program = Program(tmp_path_factory.mktemp("doors"))
    program("job", "add", "mother", "--noop")
    program("job", "add", "child", "--noop", "--after", "mother")
    program("job", "add", "paused", "--noop")
    program("job", "pause", "paused")
    program("job", "add", "bounded", "--noop", "--max-running", "1", "--max-waiting", "0")
    program("job", "trigger", "bounded")
    return program


@pytest.fixture(scope="module")
def client(program: Program) -> Iterator[Client]:
    """A client of the same store."""
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as opened:
        yield opened


def said(error: Mapping[str, Any]) -> str:
    """What an error says of what is allowed, wherever it stands."""
    return f"{error['allowed'] or ''} {error['message']}"


@pytest.mark.parametrize("name", CASES)
def test_the_program(name: str, program: Program) -> None:
    """Exit code 2, and the field."""
    case, before = CASES[name], program.contents()
    error = program.error(*shlex.split(case.line))
    assert error["code"] == case.code
    assert error["field"] in {case.field, case.field.replace("retry.", "retry_")}
    assert case.allowed in said(error) or "is not one of" in error["message"]
    assert program.contents() == before


@pytest.mark.parametrize("name", CASES)
def test_the_client(name: str, program: Program, client: Client) -> None:
    """An exception of ours that names the field."""
    case, before = CASES[name], program.contents()
    act = getattr(client.jobs, case.act)
    with pytest.raises(TokimoriError) as refused:
        act(case.job, **case.values)
    assert (refused.value.code, refused.value.field) == (case.code, case.field)
    assert case.allowed in f"{refused.value.allowed} {refused.value.message}"
    assert program.contents() == before


@pytest.mark.parametrize("name", CASES)
def test_the_api(name: str, program: Program, client: Client) -> None:
    """422 for what can't be, 409 for what can't be now, and the field."""
    case, before = CASES[name], program.contents()

    async def ask(behind: Service) -> Any:
        service = service_for(behind._shared, behind._caller)
        health = Health(status="ok", node_id="n", store_reachable=True, version="1")
        app = create_app(service, SystemClock(), interface="127.0.0.1", secret=SECRET, health=lambda: health)
        match case.act:
            case "add":
                return await Asker(app).post(JOBS, {"id": case.job, **case.values})
            case "update":
                return await Asker(app).post(f"{JOBS}/{case.job}", dict(case.values), "PATCH")
            case _:
                return await Asker(app).post(f"{JOBS}/{case.job}/{case.act}", dict(case.values))

    answer = client._run(lambda behind: ask(behind._inside))
    assert answer.status == (InvalidInput.status if case.code == "invalid_input" else 409)
    assert (answer.error["code"], answer.error["field"]) == (case.code, case.field)
    assert case.allowed in said(answer.error)
    assert program.contents() == before
