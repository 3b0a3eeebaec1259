"""Lengths, moments and schedules are said in Python as on a command line, through a store and through a door."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePosixPath
from re import escape
from typing import Any, cast, get_type_hints

import pytest

from tests.unit.client.served import TRANSPORTS, store_of
from tokimori.apps.app import App
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput
from tokimori.model.transitions import RunState
from tokimori.schedules.fluent import every, on
from tokimori.service.definitions.arguments import JobArguments, NotifierArguments, RetryArguments
from tokimori.service.definitions.definitions import LENGTHS
from tokimori.service.validation import Span


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """One on a store, and one on its door."""
    with store_of(request.param) as url, open_client(url) as opened:
        yield opened


def test_every_length_is_known() -> None:
    """What type checkers let be a length is read as one."""
    kinds = {"": JobArguments, "retry.": RetryArguments, "notifier.": NotifierArguments}
    spans = {
        f"{prefix}{name}"
        for prefix, kind in kinds.items()
        for name, hint in get_type_hints(kind).items()
        if hint == Span | None
    }
    assert spans == LENGTHS | {"retention"}, "which may be as long as a month is, too"


def test_a_job_says_lengths_as_texts(client: Client) -> None:
    """All of them, also within others; when it is changed, too."""
    names = [name for name in LENGTHS if "." not in name and name != "callback_within"]
    fields: dict[str, Any] = dict.fromkeys(names, "1m30s")
    fields |= {"retry": {"delay": "PT1M", "cap": "2h"}, "approval": True}
    client.jobs.add("one", command="true", schedule=every(10).seconds, **fields)
    job = client.jobs.get("one")
    assert {getattr(job, name) for name in names} == {timedelta(seconds=90)}
    assert (job.retry.delay, job.retry.cap) == (timedelta(minutes=1), timedelta(hours=2))
    assert job.schedule == "every 10 seconds"
    assert client.schedules.explain(every(10).seconds).sentence == client.schedules.explain("every 10 seconds").sentence
    client.jobs.update("one", schedule=on().friday.at("10:00PM"), timeout="5m", retention="7d")
    changed = client.jobs.get("one")
    assert (changed.schedule, changed.timeout, changed.retention) == (
        "on friday at 10:00PM",
        timedelta(minutes=5),
        "P7D",
    )
    for length, text in ((300, "PT300S"), (0, "PT0S"), (timedelta(days=2), "P2D"), ("90s", "PT90S")):
        client.jobs.update("one", retention=length)
        assert client.jobs.get("one").retention == text
    with pytest.raises(InvalidInput, match="retention: "):
        client.jobs.update("one", retention=10**400)
    for name in names:
        with pytest.raises(InvalidInput, match=f"{name}: 'soon' is not a length of time") as found:
            client.jobs.update("one", **cast("Any", {name: "soon"}))
        assert "1h30m" in str(found.value.allowed)


def test_a_request_says_moments_as_a_command_line_does(client: Client) -> None:
    """How long from now, a day, and a time without an offset, in the job's zone."""
    client.jobs.add("one", noop=True, time_zone="Europe/Paris")
    for at in ("2h", timedelta(hours=2), "PT2H"):
        run = client.jobs.trigger("one", at=at)
        assert run.state is RunState.WAITING
        assert abs(run.due - run.created - timedelta(hours=2)) < timedelta(seconds=1)
        (many,) = client.jobs.trigger_many("one", [{"at": at}])
        assert abs(many.due - many.created - timedelta(hours=2)) < timedelta(seconds=1)
    summer = datetime(2030, 7, 1, 7, 30, tzinfo=UTC)
    for told in ("2030-07-01 09:30", "2030-07-01T09:30:00", "2030-07-01T07:30Z", summer):
        assert client.jobs.trigger("one", at=told).due == summer
    assert client.jobs.trigger("one", at="2030-07-01").due == datetime(2030, 6, 30, 22, tzinfo=UTC)
    assert client.jobs.trigger("one", "k", debounce="1h").state is RunState.WAITING
    for wrong in (5, 5.0, 1_893_456_000, True, timedelta(hours=-1), "soon"):
        with pytest.raises(InvalidInput, match="at: "):
            client.jobs.trigger("one", at=wrong)  # type: ignore[arg-type]


def test_a_function_is_asked_for_at_a_moment_to_come() -> None:
    """Numbers are refused where they are said: of what, nobody knows."""
    app = App("a", url="memory:")

    @app.job(every(10).seconds, timeout="5m", retry_delay="1m")
    def fn(number: int = 1) -> None: ...

    fields = app._hello(1, 2).jobs[0].fields
    assert (fields["schedule"], fields["timeout"], fields["retry"]) == ("every 10 seconds", 300.0, {"delay": 60.0})
    for wrong in (5, 0, 5.0, 1_893_456_000_000_000, "soon", timedelta(-1)):
        with pytest.raises(InvalidInput, match="at: "):
            fn.at(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="at: "):
            fn.asked(at=wrong)  # type: ignore[arg-type]
    assert fn.at("2h").enqueue(2).state is RunState.WAITING
    assert fn.at(timedelta(hours=2)).enqueue(2).state is RunState.WAITING
    (run,) = fn.enqueue_many([fn.at(timedelta(hours=2)).request(2)])
    assert run.state is RunState.WAITING
    app.client.close()


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("retries", ("attempts", 'retry={"attempts": …}')),
        ("max_retries", ("attempts", 'retry={"attempts": …}')),
        ("attemps", ("attempts", 'retry={"attempts": …}')),
        ("default_retry_delay", ("retry_delay", 'retry={"delay": …}')),
        ("cron", "schedule"),
        ("rate", "rate_limit"),
        ("max_instances", "max_running"),
        ("priority_level", "priority"),
        ("timezone", "time_zone"),
        ("time_limit", "timeout"),
        ("misfire_grace_time", "grace"),
        ("args", "payload"),
        ("depends_on", "parents"),
        ("tags", "labels"),
        ("retry_attempts", ("attempts", 'retry={"attempts": …}')),
        ("timeout_seconds", "timeout"),
        ("memory_limit", "max_memory"),
        ("singleton", "max_running"),
        ("on_error", "on_failure_job"),
        ("queueing_lock", "semaphores"),
        ("scedule", "schedule"),
        ("seconds", "schedule"),
        ("every", "schedule"),
        ("at", "schedule"),
        ("countdown", "schedule"),
        ("max_backoff", ("retry_cap", 'retry={"cap": …}')),
    ],
)
def test_words_of_other_schedulers_are_known(word: str, meant: str | tuple[str, str]) -> None:
    """What stands for them here is named as it has to be written, for functions and for jobs of any kind."""
    of_function, of_job = (meant, meant) if isinstance(meant, str) else meant
    with pytest.raises(InvalidInput, match=f"no such field; did you mean {of_function}\\?"):
        App("a").job(id="x", **{word: 3})(lambda: None)  # type: ignore[call-overload]
    with open_client("memory:") as client, pytest.raises(InvalidInput, match=f"did you mean {escape(of_job)}\\?"):
        client.jobs.add("one", **cast("Any", {word: 3}))


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("queue", "; it is a term of the job, for all its requests"),
        ("attempts", "; it is a term of the job, for all its requests"),
        ("delay", "; did you mean at?"),
        ("countdown", "; did you mean at?"),
        ("job_id", "; did you mean key?"),
        ("priorty", "; did you mean priority?"),
        ("foo", "\nallowed: one of at"),
    ],
)
def test_a_term_that_is_none_of_a_request_is_refused_at_once(word: str, says: str) -> None:
    """Where it is said, and not only when the run is asked for; a term of the job is called one."""
    function = App("a").job(id="x")(lambda: None)
    with pytest.raises(InvalidInput, match=f"{word}: a request has no such field{says.replace('?', chr(92) + '?')}"):
        function.asked(**cast("Any", {word: 3}))


@pytest.mark.parametrize("word", ["key", "debounce", "unique", "then"])
def test_a_term_of_a_request_is_no_term_of_a_job(word: str) -> None:
    """How it is said is told, as a function has it and as any job."""
    if word != "unique":
        with pytest.raises(InvalidInput, match=rf"a request has it: fn.asked\({word}=…\)"):
            App("a").job(id="x", **{word: 3})(lambda: None)  # type: ignore[call-overload]
    with open_client("memory:") as client, pytest.raises(InvalidInput, match=rf"jobs.trigger\(…, {word}=…\)"):
        client.jobs.add("one", **cast("Any", {word: 3}))


@pytest.mark.parametrize(("word", "meant"), [("attemps", "attempts"), ("retries", "attempts"), ("backof", "backoff")])
def test_fields_of_fields_are_known(word: str, meant: str) -> None:
    """What is misspelt in `retry` is named, too, and what is no mapping at all is refused in words."""
    for declare in (
        lambda: App("a").job(id="x", retry=cast("Any", {word: 3}))(lambda: None),
        lambda: open_client("memory:").jobs.add("one", noop=True, retry=cast("Any", {word: 3})),
    ):
        with pytest.raises(InvalidInput, match=f"retry.{word}: retry has no such field; did you mean {meant}\\?"):
            declare()
    with pytest.raises(InvalidInput, match="retry: 3 is not allowed"):
        App("a").job(id="x", retry=cast("Any", 3))(lambda: None)


def test_none_is_the_default_of_each_term() -> None:
    """Of those of `retry`, too."""
    app = App("a")
    app.job(id="x", retry={"delay": None}, lost_attempts=None, retry_wait=None, timeout=None)(lambda: None)
    assert "retry" not in app._hello(1, 2).jobs[0].fields
    with open_client("memory:") as client:
        bare = client.jobs.add("one", noop=True)
        assert client.jobs.add("two", noop=True, retry={"delay": None, "attempts": None}).retry == bare.retry


@pytest.mark.parametrize(("word", "meant"), [("countdown", "at"), ("eta", "at"), ("priorty", "priority")])
def test_words_of_other_requests_are_known(word: str, meant: str) -> None:
    """As those of jobs."""
    with open_client("memory:") as client:
        client.jobs.add("one", noop=True)
        with pytest.raises(InvalidInput, match=f"did you mean {meant}\\?"):
            client.jobs.trigger("one", **cast("Any", {word: 3}))


class Colour(StrEnum):
    """A text."""

    RED = "red"


@pytest.mark.parametrize(
    "bad",
    [
        *({1: 2}, {"a": {None: 1}}, {True: 1}, {"a": [(1, 2)]}, {"a": Colour.RED}, [{Colour.RED: 1}]),
        *({"a": date(2030, 1, 1)}, [datetime(2030, 1, 1, tzinfo=UTC)], {"a": Decimal(1)}, {"a": b"x"}, {"a": {1}}),
        *({"a": timedelta(1)}, {"a": PurePosixPath("a")}, {"a": float("nan")}),
    ],
)
def test_a_payload_that_json_would_change_is_refused_at_every_door(client: Client, bad: Any) -> None:
    """Silently nothing becomes something else: of one request, of many, of a job, and of a change of it."""
    client.jobs.add("j", noop=True)
    for ask in (
        lambda: client.jobs.trigger("j", payload=bad),
        lambda: client.jobs.request("j", payload=bad),
        lambda: client.jobs.trigger_many("j", [{"payload": bad}]),
        lambda: client.jobs.add("k", noop=True, payload=bad),
        lambda: client.jobs.update("j", payload=bad),
        lambda: client.channels.publish("topic", bad),
    ):
        with pytest.raises(InvalidInput, match="JSON") as found:
            ask()
        assert found.value.field in ("payload", "requests", "message")
    assert client.jobs.trigger("j", payload={"a": [1, 1.5, "x", None, True, {"b": []}]}).payload is not None
