"""Bodies that are nearly right, and such as nobody means well with, for every operation: none is a bug."""

import gzip
import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.contract.stores.conftest import forget
from tests.integration.http.served import BEARER, Served
from tests.servers import mariadb, postgres, redis
from tokimori.api.app import operations
from tokimori.api.calls import PATH as CALLS
from tokimori.api.claims import ClaimPaths
from tokimori.clock import SystemClock
from tokimori.model.sizes import MOST_DEPTH
from tokimori.node.http_door import formats
from tokimori.service.doors.calls import offered
from tokimori.stores.open import open_store

EXAMPLES, ON_A_SERVER = 40, 2_000
"""Bodies for each operation; for all of them together, where the store is a server."""
STORES: Mapping[str, Callable[[Path], str]] = {
    "postgres": postgres.loans.url_of,
    "mariadb": mariadb.loans.url_of,
    "redis": redis.loans.url_of,
}
DEEP = "@deep@"
"""In place of this text there are lists within lists: few, or nearly as many as can be read, or far more."""
HUGE = "@huge@"
"""In place of this text there is a number of 5,000 digits."""
WAITS = "wait"
"""What lets an answer wait: it is never said, because nothing comes here."""
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, HUGE]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.text(st.characters(categories=["Cs", "Cc", "Zl", "Lu"]), max_size=3),
    st.sampled_from(
        [
            *("", ".", "..", "*", "\x00", "\ud800", "\ufeff", "x" * 70_000, "nightly", "mail", "no-such-thing", DEEP),
            *("* * * * *", "every 10 minutes", "@daily", "R/2030-01-31T00:00:00Z/P1M", "0 0 29 2 *", "P1D", "PT1S"),
            *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2030-02-30T00:00:00Z", "Europe/Paris", "UTC"),
            *("retry", "skip", "latest", "sat", "12-25", "2026-12-24/2027-01-01", "read", "admin", "true", "{{ x }}"),
            *("{{ secret.X }}", "http://127.0.0.1/", "https://[::1", "GET", "a=b"),
        ]
    ),
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_TYPES = [
    *["application/json"] * 8,
    "application/merge-patch+json",
    "text/plain",
    "",
    "application/x-www-form-urlencoded",
]


@dataclass(frozen=True)
class Asked:
    """An operation: its method and path, a body that is right or nearly so, and what its bodies may name."""

    name: str
    method: str
    path: str
    example: Mapping[str, object] = field(default_factory=dict)
    names: Sequence[str] = ()


def every_operation() -> Iterator[Asked]:
    """All of `/api/v2`, calls by name, and Kala's API."""
    told = operations(lambda _: None, None, formats(SystemClock()))  # type: ignore[arg-type, return-value]
    for each in [*told, *ClaimPaths(None).operations()]:  # type: ignore[arg-type]
        names = fields_of(each.sent) or fields_of(each.body)
        yield Asked(each.id, each.method, each.path, each.example or {}, names)
    for name, method in offered().items():
        yield Asked(name, "POST", f"{CALLS}/{name}", call_of(method), ("args", "kwargs", "author", "time_zone"))
    job = {"name": "x", "command": "true", "schedule": "R2/2035-06-04T19:25:16Z/PT10S", "owner": "o", "retries": 1}
    told_kala = (*job, "epsilon", "parent_jobs", "on_failure_job", "type", "remote_properties", "disabled")
    yield Asked("kala_create", "POST", "/api/v1/job/", job, told_kala)
    remote = {"name": "x", "type": 1, "remote_properties": {"url": "http://x.example/", "headers": {"a": ["b"]}}}
    yield Asked("kala_create_remote", "POST", "/api/v1/job/", remote, (*told_kala, "url", "method", "timeout"))
    for word in ("enable", "disable"):
        yield Asked(f"kala_{word}", "POST", f"/api/v1/job/{word}/" + "{job_id}/")
    yield Asked("kala_start", "POST", "/api/v1/job/start/none/")
    yield Asked("kala_delete", "DELETE", "/api/v1/job/none/")


def fields_of(kind: object) -> Sequence[str]:
    """The names of the members of a body."""
    return kind.__struct_fields__ if isinstance(kind, type) and issubclass(kind, Struct) else ()


def call_of(method: Callable[..., object]) -> dict[str, object]:
    """A call of the method: what it demands is said. What is there stays there."""
    known = {"job_id": "nightly", "name": "mail", "queue": "mail", "text": "@daily"}
    known = {} if method.__name__ == "delete" else known
    takes = [each for name, each in signature(method).parameters.items() if name != "self"]
    words = [each for each in takes if each.kind is not Parameter.VAR_KEYWORD and each.name != WAITS]
    args = [known.get(each.name, "x") for each in words if each.kind is Parameter.POSITIONAL_ONLY]
    named = {each.name: known.get(each.name) for each in words if each.kind is not Parameter.POSITIONAL_ONLY}
    return {"args": args, "kwargs": named}


def places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The way to each value within a value, itself too."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def put(value: Any, path: Sequence[Any], new: object) -> Any:
    """The value, with another one at this place."""
    if not path:
        return new
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = new
    return value


def at(value: Any, path: Sequence[Any]) -> Any:
    """What is at this place."""
    for key in path:
        value = value[key]
    return value


@st.composite
def changed(draw: st.DrawFn, example: Mapping[str, object], names: Sequence[str]) -> object:
    """A value that differs from the example in some places."""
    value: Any = deepcopy(dict(example))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from([*places(value)]))
        old = at(value, path)
        match draw(st.integers(0, 5)):
            case 0 if isinstance(old, dict) and old:
                del old[draw(st.sampled_from([*old]))]
            case 1 | 2 if isinstance(old, dict) and names:
                old[draw(st.sampled_from([*names]))] = draw(_VALUES)
            case 3:
                value = put(value, path, draw(st.sampled_from([[old], {"x": old}, str(old), [old, old]])))
            case 4:
                value = put(value, path, draw(st.sampled_from([DEEP, HUGE])))
            case _:
                value = put(value, path, draw(_VALUES))
    return value


@st.composite
def bodies(draw: st.DrawFn, asked: Asked) -> tuple[bytes, dict[str, str]]:
    """A body, and the headers that tell of it."""
    value, written_out = draw(changed(asked.example, asked.names)), draw(st.booleans())
    text = json.dumps(without_waiting(value), ensure_ascii=written_out)
    depth = draw(st.sampled_from([20, MOST_DEPTH - 5, 100_000]) | st.integers(950, 975))
    text = text.replace(f'"{DEEP}"', "[" * depth + "]" * depth).replace(f'"{HUGE}"', "9" * 5_000)
    sent = text.encode("utf-8", "surrogatepass")
    headers = {"Content-Type": draw(st.sampled_from(_TYPES)), **BEARER}
    match draw(st.integers(0, 19)):
        case 0:
            return sent[: draw(st.integers(0, len(sent)))], headers
        case 1:
            name = draw(st.sampled_from(asked.names or ("id",)))
            return sent.replace(b"{", f'{{"{name}": "y", "{name}": null, '.encode(), 1), headers
        case 2:
            return text.encode("utf-16", "surrogatepass"), headers
        case 3:
            return sent + draw(st.binary(max_size=5)), headers
        case 4:
            packed = gzip.compress(sent)
            return packed[: draw(st.integers(0, len(packed)))], {**headers, "Content-Encoding": "gzip"}
        case 5:
            return draw(st.binary(max_size=40)), headers
        case _:
            return sent, headers


def without_waiting(value: object) -> object:
    """The value without what would let the answer wait."""
    match value:
        case dict():
            return {key: without_waiting(each) for key, each in value.items() if key != WAITS}
        case list():
            return [*map(without_waiting, value)]
        case _:
            return value


class Line:
    """A connection to a door, which is made anew where the door has closed it."""

    def __init__(self, served: Served) -> None:
        self._known = served.known
        self._line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)

    def close(self) -> None:
        """End it."""
        self._line.close()

    def ask(self, asked: Asked, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """The status of the answer, and its body."""
        path = asked.path
        for name, value in self._known.items():
            path = path.replace("{" + name + "}", "none" if asked.method == "DELETE" else quote(str(value)))
        path = path.split("{", maxsplit=1)[0]
        try:
            self._line.request(asked.method, path, body, dict(headers))
            answer = self._line.getresponse()
            return answer.status, answer.read()
        except (http.client.HTTPException, ConnectionError):
            self._line.close()
            raise


def check(line: Line, asked: Asked, sent: tuple[bytes, dict[str, str]]) -> None:
    """The body is no bug: it is taken, or the client is told what is wrong with it."""
    status, told = line.ask(asked, *sent)
    assert status < 500, (asked.name, status, told[:500])
    assert b'"code":"bug"' not in told


_OURS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[*HealthCheck],
    phases=[Phase.generate, Phase.shrink],
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A door over a store in a file."""
    url = f"sqlite:///{tmp_path_factory.mktemp('door')}/tokimori.db"
    with Served(lambda: open_store(url, SystemClock()), kala=True) as found:
        yield found


@pytest.mark.prove
@pytest.mark.parametrize("asked", [*every_operation()], ids=lambda each: each.name)
def test_no_body_is_a_bug(asked: Asked, served: Served) -> None:
    """Whatever is sent to an operation, the door takes it or says what is wrong with it, and never has a bug."""
    with closing(Line(served)) as line:

        @settings(_OURS, max_examples=EXAMPLES)
        @given(bodies(asked))
        def answered(sent: tuple[bytes, dict[str, str]]) -> None:
            check(line, asked, sent)

        answered()


@pytest.mark.prove
@pytest.mark.parametrize("name", STORES)
def test_no_body_is_a_bug_of_a_server(name: str, tmp_path: Path) -> None:
    """No store is asked for what it can't keep: its own errors never reach who sent a body."""
    url = STORES[name](tmp_path)  # in this thread: a server ends with the thread that has started it
    everything = [*every_operation()]
    with Served(lambda: open_store(url, SystemClock()), kala=True) as served, closing(Line(served)) as line:

        @settings(_OURS, max_examples=ON_A_SERVER)
        @given(st.sampled_from(everything).flatmap(lambda each: st.tuples(st.just(each), bodies(each))))
        def answered(asked: tuple[Asked, tuple[bytes, dict[str, str]]]) -> None:
            check(line, *asked)

        answered()
    forget(name, tmp_path)
