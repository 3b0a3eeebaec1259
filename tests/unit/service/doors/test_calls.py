"""Calls of the client as they go over a wire."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tokimori.client.door import error_of, kinds_of
from tokimori.clock import Moment
from tokimori.errors import ClaimLost, InvalidInput, Refused, TokimoriError
from tokimori.service.definitions.definitions import definition_from
from tokimori.service.definitions.imports import Start
from tokimori.service.doors.calls import Call, arguments, offered, result_of, written
from tokimori.service.service import table

HOLDS_ITSELF: dict[str, object] = {}
HOLDS_ITSELF["a"] = HOLDS_ITSELF


def sent(name: str, *args: object, **kwargs: object) -> tuple[list[object], dict[str, object]]:
    """What a node's method gets of a call."""
    body = written(offered()[name], args, kwargs, author=None, time_zone=None)
    return arguments(offered()[name], msgspec.json.decode(body, type=Call))


def test_every_operation_is_offered_but_those_of_tables() -> None:
    """Who changes tables opens the store itself."""
    assert table().keys() - offered().keys() == {"db.migrate", "db.retire", "db.sql", "db.check"}


def test_every_result_can_be_read() -> None:
    """Of each method the type of what it returns is one that JSON is read as."""
    assert len(offered()) > 50
    for method in offered().values():
        msgspec.json.Decoder(result_of(method))


def test_values_arrive_as_the_method_takes_them() -> None:
    """Lengths as seconds, moments as texts, zones by name, sets as lists, and values of ours as what they are."""
    _, fields = sent(
        "jobs.add",
        "j",
        command=[PurePosixPath("/bin/x"), "y"],
        timeout=timedelta(minutes=2),
        retention=timedelta(days=1),
        starts_at=datetime(2030, 1, 1, tzinfo=UTC),
        time_zone=ZoneInfo("Europe/Paris"),
        retry={"delay": timedelta(seconds=3)},
    )
    assert fields == {
        "command": ["/bin/x", "y"],
        "timeout": 120.0,
        "retention": "P1D",
        "starts_at": "2030-01-01T00:00:00+00:00",
        "time_zone": "Europe/Paris",
        "retry": {"delay": 3.0},
    }
    since = datetime(2030, 1, 1, tzinfo=UTC)
    nothing, filters = sent("runs.list", state={"failed"}, since=since, limit=3)
    assert (nothing, filters) == ([], {"state": ["failed"], "since": "2030-01-01T00:00:00+00:00", "limit": 3})
    jobs = [("a", definition_from({"noop": True, "queue": "q"}))]
    (given,), _ = sent("jobs.import_all", jobs)
    assert list(given) == jobs  # type: ignore[call-overload]
    starts = {"a": Start(parked_because="it failed", since=Moment(5))}
    assert sent("jobs.import_all", jobs, starts=starts)[1] == {"starts": starts}


@pytest.mark.parametrize(
    "wrong",
    [object(), b"x", [b"x"], {"a": object()}, {1: 2}, math.nan, datetime(2030, 1, 1), "\ud800", HOLDS_ITSELF],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_json_can_not_hold_is_refused_before_it_is_sent(wrong: object) -> None:
    """By the argument's name: nothing of it arrives as something else."""
    for name, args, kwargs in (("jobs.trigger", ("j",), {"payload": wrong}), ("jobs.get", (wrong,), {})):
        field = "payload" if kwargs else "job_id"
        with pytest.raises(InvalidInput) as refused:
            sent(name, *args, **kwargs)
        assert refused.value.field == field


def test_arguments_that_a_method_does_not_have() -> None:
    """A program gets Python's error, as on a store; whoever writes to the door an error of ours."""
    with pytest.raises(TypeError):
        sent("jobs.get", "j", "k")
    for call in (Call(args=["j", "k"]), Call(kwargs={"x": 1})):
        with pytest.raises(InvalidInput, match="arguments"):
            arguments(offered()["jobs.get"], call)
    with pytest.raises(InvalidInput) as refused:
        arguments(offered()["runs.summaries"], Call(args=[{"states": 7}]))
    assert refused.value.field == "runs"


def test_errors_keep_their_kind() -> None:
    """Each code is that of one class; what only doors say is a refusal."""
    codes = [kind.code for kind in kinds_of(TokimoriError)]
    assert len(codes) == len(set(codes))
    for kind in kinds_of(TokimoriError):
        error = error_of(kind.code, "m", "f", 3, "a")
        assert (type(error), str(error)) == (kind, "m")
    lost = error_of("claim_lost", "m", "token", 3, "a")
    assert isinstance(lost, ClaimLost)
    assert (lost.field, lost.value, lost.allowed) == ("token", 3, "a")
    assert type(error_of("unauthorized", "m", None, None, None)) is Refused
