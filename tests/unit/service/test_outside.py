"""Values as programs get them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Struct

from tokimori.clock import FIRST, LAST, Moment, format_moment, parse_moment, to_datetime
from tokimori.service.operation import Member, members_in
from tokimori.service.service import PARTS
from tokimori.service.views.outside import Length, Outside, as_json, type_given

MEMBERS = {f"{kind.noun}.{name}": each for kind in PARTS for name, each in members_in(kind).items()}


def outside_of(member: Member[Any, Any, Any]) -> Any:
    """The type that an operation returns to programs."""
    return get_type_hints(member.method)["return"] if member.gives is None else type_given(member.gives)


def fields_of(kind: Any, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """The types of all that is in a value of this type, with where they stand."""
    if str(kind) in seen:
        return
    seen.add(str(kind))
    yield str(kind), kind
    for inner in kind if isinstance(kind, list) else get_args(kind):
        yield from fields_of(inner, seen)
    if isinstance(kind, type) and issubclass(kind, Struct):
        for name, hint in get_type_hints(kind).items():
            yield f"{kind.__name__}.{name}", hint
            yield from fields_of(hint, seen)


@pytest.mark.parametrize("name", MEMBERS)
def test_no_operation_gives_programs_a_moment_that_is_a_number(name: str) -> None:
    """Whatever is reached from the type of its result holds datetimes."""
    found = [where for where, hint in fields_of(outside_of(MEMBERS[name]), set()) if Moment in (hint, *get_args(hint))]
    assert found == []


@pytest.mark.parametrize("name", [name for name, each in MEMBERS.items() if each.gives is not None])
def test_what_programs_get_is_made_of_what_the_operation_returns(name: str) -> None:
    """Each of its fields has an attribute or a function of the value within, or is one that need not be there."""
    kind = outside_of(MEMBERS[name])
    assert kind is not Any
    if isinstance(kind, type) and issubclass(kind, Outside):
        assert set(kind.SOURCES) <= set(kind.__struct_fields__)


@pytest.mark.parametrize(
    "moment", [FIRST, Moment(0), Moment(1), parse_moment("2030-01-01T00:00:00.5Z"), LAST, Moment(-1)], ids=str
)
def test_json_writes_a_datetime_as_it_writes_a_moment(moment: Moment) -> None:
    """In UTC, a fraction only if there is one."""
    assert msgspec.json.decode(as_json(to_datetime(moment))) == format_moment(moment)


def test_json_has_a_length_in_seconds() -> None:
    """Programs get a timedelta, and see one when they print it."""
    assert msgspec.json.decode(as_json([Length(seconds=90), Length(microseconds=1)])) == [90, 0.000001]
    assert Length(seconds=90) == timedelta(minutes=1.5)
    assert repr([Length(seconds=90), Length(0)]) == repr([timedelta(seconds=90), timedelta(0)])
