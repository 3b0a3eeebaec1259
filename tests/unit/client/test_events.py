"""Programs follow events: of a store that they open themselves, and through a node's door."""

from collections.abc import Iterator

import pytest

from tests.unit.client.served import TRANSPORTS, store_of
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput, Refused
from tokimori.service.events import feed
from tokimori.service.views.events import ChangeEvent, RunEvent


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """One with a job whose runs nobody claims, whose feed looks at the store at once."""
    monkeypatch.setattr(feed, "EVERY", 0.01)
    with store_of(request.param) as url, open_client(url) as opened:
        opened.jobs.add("a", noop=True)
        yield opened


def ended(client: Client) -> str:
    """The id of a run that has ended."""
    run = client.jobs.trigger("a")
    client.runs.cancel(run.id)
    return run.id


def test_a_program_follows_events_and_goes_on_later(client: Client) -> None:
    """Each run that ends is told of in order; who stops goes on behind the position that he kept."""
    begin = client.events.read().after
    runs = [ended(client) for _ in range(3)]
    events = client.events.follow(begin, state=["cancelled"])
    first, second = next(events), next(events)
    del events
    third = next(client.events.follow(second.position))
    assert [each.run_id for each in (first, second, third)] == runs
    assert first.event == "run.cancelled"


def test_a_program_that_was_away_for_too_long_is_told(client: Client) -> None:
    """A gap is no silence: following ends with an error that says so, as it does for a filter that there is not."""
    with pytest.raises(Refused, match="not kept any more"):
        next(client.events.follow("1"))
    with pytest.raises(InvalidInput, match="no such filter"):
        next(client.events.follow(job="a"))  # type: ignore[call-arg]


def test_a_program_follows_what_is_changed(client: Client) -> None:
    """Changes in order, and ends of runs among them; it goes on behind each, and asks for one kind."""
    begin = client.events.read_all().after
    client.jobs.pause("a", "repairs")
    client.jobs.resume("a")
    run = ended(client)
    events = client.events.follow_all("all", begin, job_id="a")
    told, changes = dict[str, RunEvent | ChangeEvent](), {"job.paused", "job.resumed"}
    while not changes <= {each.event for each in told.values()} or not any(
        isinstance(each, RunEvent) for each in told.values()
    ):
        event = next(events)  # what was written late may come twice
        told[event.id] = event
    del events
    paused, resumed = (each for each in told.values() if each.event in changes)
    assert [each.run_id for each in told.values() if isinstance(each, RunEvent)] == [run]
    assert (paused.event, resumed.event) == ("job.paused", "job.resumed")
    assert isinstance(paused, ChangeEvent) and paused.reason == "repairs"
    only = client.events.follow_all("definitions", paused.position)
    assert next(only).id == resumed.id
    with pytest.raises(InvalidInput, match="kind"):
        client.events.read_all("jobs")
