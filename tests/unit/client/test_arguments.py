"""The keyword arguments by which jobs, calendars and requests are said are typed.

Each `type: ignore` below is a test by itself: mypy refuses one that it does not need, so that a misspelt keyword which
it lets pass would fail the lint.
"""

from collections.abc import Iterator

import pytest

from tokimori.client.client import Client, open_async
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput
from tokimori.model.calendar import Calendar
from tokimori.model.dependents import Parent
from tokimori.model.policies import Retry
from tokimori.service.definitions.arguments import (
    CalendarArguments,
    JobArguments,
    ParentArguments,
    RequestArguments,
    RetryArguments,
)
from tokimori.service.definitions.definitions import JobFields
from tokimori.service.definitions.requests import Request


@pytest.fixture
def client() -> Iterator[Client]:
    """One on a store of its own."""
    with open_client("memory:") as opened:
        yield opened


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (JobArguments, JobFields.__struct_fields__),
        (RetryArguments, Retry.__struct_fields__),
        (ParentArguments, Parent.__struct_fields__),
        (CalendarArguments, set(Calendar.__struct_fields__) - {"name"}),
        (RequestArguments, set(Request.__struct_fields__) - {"key", "payload"}),
    ],
)
def test_every_field_is_an_argument(arguments: type, known: set[str]) -> None:
    """What a door takes can be said in Python, and nothing else."""
    assert arguments.__annotations__.keys() | arguments.__mro__[0].__annotations__.keys() <= set(known)
    assert set(known) == getattr(arguments, "__required_keys__") | getattr(arguments, "__optional_keys__")  # noqa: B009


def test_a_misspelt_keyword_is_an_error(client: Client) -> None:
    """To the type checker, and to whoever runs the program; so is a value of another kind."""
    client.jobs.add("j", noop=True, retry={"attempts": 2}, parents=[])
    with pytest.raises(InvalidInput, match="comand: a job has no such field"):
        client.jobs.add("k", comand="make report")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="priorty: a job has no such field"):
        client.jobs.update("j", priorty=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="priority: 'high' is not allowed"):
        client.jobs.update("j", priority="high")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"retry\.attemps: retry has no such field; did you mean attempts"):
        client.jobs.update("j", retry={"attemps": 2})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="holidays: a calendar has no such field"):
        client.calendars.add("de", holidays=["12-25"])  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="debounced: a request has no such field"):
        client.jobs.trigger("j", debounced=5)  # type: ignore[call-arg]
    assert client.jobs.get("j").version == 1


async def test_a_misspelt_keyword_is_an_error_to_tasks() -> None:
    """The same in an asynchronous program."""
    async with open_async("memory:") as client:
        await client.jobs.add("j", noop=True)
        with pytest.raises(InvalidInput, match="comand: a job has no such field"):
            await client.jobs.add("k", comand="make report")  # type: ignore[call-arg]
        with pytest.raises(InvalidInput, match="priorty: a job has no such field"):
            await client.jobs.update("j", priorty=3)  # type: ignore[call-arg]
