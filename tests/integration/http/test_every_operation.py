"""Every operation is asked what its document allows, and what it does not; schemathesis makes both, and judges."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.integration.http.served import BEARER, Served
from tokimori.api.docs import OPENAPI
from tokimori.clock import SystemClock
from tokimori.node.http_door import formats
from tokimori.stores.memory.store import MemoryStore

if TYPE_CHECKING:  # to load it takes half a second, in each process that finds tests
    from schemathesis import APIOperation, Case
    from schemathesis.checks import CheckFunction

Operation: TypeAlias = "APIOperation[Any, Any, Any, Any]"
Asked: TypeAlias = "Case[Any]"
EXAMPLES = 200
"""Examples of each operation: what its document allows, and as many of what it does not."""
REFUSED = ["2xx", "404", "409", "412", "413", "422"]
"""The answers to what the types of the document allow: no type says which texts are schedules, or which jobs exist, or
that a text of allowed length becomes too many bytes where each character is escaped.
"""
WRONG = ["400", "401", "404", "405", "406", "409", "412", "413", "415", "422", "431"]
"""The answers to what they do not allow; some of it makes an address or a body too long."""
CONFIG: dict[str, Any] = {
    "checks": {
        "positive_data_acceptance": {"expected-statuses": REFUSED},
        "negative_data_rejection": {"expected-statuses": WRONG},
    },
    "generation": {"database": "none"},
}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(lambda: MemoryStore(SystemClock())) as found:
        yield found


@pytest.fixture(scope="module")
def operations(served: Served) -> dict[str, Operation]:
    """All operations of the document, by id."""
    import schemathesis
    from schemathesis.core.result import Ok

    config = schemathesis.Config.from_dict(CONFIG)
    schema = schemathesis.openapi.from_url(served.url + OPENAPI, headers=BEARER, config=config)
    found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    return {each.definition.raw["operationId"]: each for each in found}


def ids() -> list[str]:
    """The ids of all operations but the one that gives the document, which schemathesis leaves alone."""
    from tokimori.api.app import operations
    from tokimori.api.claims import ClaimPaths

    parts = operations(lambda _: None, None, formats(SystemClock()))  # type: ignore[arg-type, return-value]
    claims = ClaimPaths(None).operations()  # type: ignore[arg-type]
    return ["health", *(each.id for each in [*parts, *claims])]


def is_mended_on_its_way(case: Asked) -> bool:
    """Whether nothing of what schemathesis made wrong reaches the door.

    Each request has the header that it may have left out, and an address has no parameter whose value is an empty list.
    One value is a list of one there: `?label=false` asks for the label `false`, `?job_id=0` for the job `0`.
    """
    from requests import Request
    from schemathesis.core.parameters import ParameterLocation

    wrong = {place for place in ParameterLocation if case.meta is not None and case.meta.is_negative_at(place)}
    address = Request("GET", "http://door", params=case.query).prepare().url or ""
    sent = {name for name, _ in parse_qsl(urlsplit(address).query, keep_blank_values=True)}
    is_dropped = bool({str(name) for name in case.query or {}} - sent)
    query = case.query or {}
    lists = [each.name for each in case.operation.query if each.definition.get("schema", {}).get("type") == "array"]
    is_one = any(not isinstance(query[name], list) for name in lists if name in query)
    return wrong <= {ParameterLocation.HEADER, *([ParameterLocation.QUERY] if is_dropped or is_one else [])}


def is_without_end(case: Asked) -> bool:
    """Whether it asks to follow a run to its end, or waits for events: here nothing runs, so that none comes."""
    query = case.query or {}
    return "true" in str(query.get("follow", "")).lower() or str(query.get("wait", "0")) not in ("0", "0.0")


def ask(operation: Operation, served: Served) -> None:
    """Ask it so often, in all ways together. It raises where schemathesis knows something wrong with an answer."""
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import negative_data_rejection

    known = {name: value for name, value in served.known.items() if "{" + name + "}" in operation.path}
    allowed = partial(operation.as_strategy, generation_mode=GenerationMode.POSITIVE)
    ways = [allowed(), allowed(path_parameters=known)] if known else [allowed()]
    if operation.body or operation.query or known:
        ways.append(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))

    for way in ways:

        @settings(
            max_examples=max(1, EXAMPLES // len(ways)),
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=[*HealthCheck],
            phases=[Phase.generate, Phase.shrink],
        )
        @given(case=way.filter(lambda case: not is_without_end(case)))
        def answered(case: Asked) -> None:
            unjudged: list[CheckFunction] = [negative_data_rejection] if is_mended_on_its_way(case) else []
            case.call_and_validate(base_url=served.url, headers=BEARER, timeout=60, excluded_checks=unjudged)

        answered()


@pytest.mark.prove
@pytest.mark.parametrize("name", ids())
def test_every_operation_does_what_its_document_says(
    name: str, operations: dict[str, Operation], served: Served
) -> None:
    """Each operation answers as its document says, takes what it allows and refuses all else, in many tries."""
    ask(operations[name], served)
