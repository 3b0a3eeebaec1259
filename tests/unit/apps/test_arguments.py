"""Payloads become typed arguments, and arguments become payloads."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Annotated, Any

import annotated_types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import BaseModel, Field, PositiveInt, StringConstraints

from tests.unit.apps.tasks import a_facts, a_task
from tokimori.apps.arguments import Arguments, UnfitPayload
from tokimori.apps.task import Task
from tokimori.errors import InvalidInput


@dataclass
class Point:
    """Two numbers."""

    x: int
    y: int = 0


class Order(msgspec.Struct):
    """An order."""

    number: int


def report(day: date, points: list[Point], *, full: bool = False) -> None:
    """A function with types of its own."""


class Line(BaseModel):
    """Something of which there has to be one at least."""

    count: PositiveInt


class Model(BaseModel):
    """A model that is written with another name than it has here."""

    number: PositiveInt = Field(alias="no")
    lines: list[Line] = []


def test_arguments_come_back_with_their_types() -> None:
    """Dates, dataclasses and structs go through JSON and come back as what they were; defaults are filled in."""
    arguments = Arguments(report)
    payload = arguments.encode([date(2030, 1, 2)], {"points": [Point(1), Point(2, 3)]})
    assert payload == '{"day":"2030-01-02","points":[{"x":1,"y":0},{"x":2,"y":3}]}'
    assert arguments.decode(payload) == {"day": date(2030, 1, 2), "points": [Point(1), Point(2, 3)], "full": False}


def take(model: Model, points: dict[str, Point] | None = None) -> None:
    """Takes a model of pydantic's."""


def test_models_of_pydantic_come_back_as_what_they_were() -> None:
    """They write and read themselves, by their aliases."""
    arguments = Arguments(take)
    payload = arguments.encode([Model(no=3, lines=[Line(count=1)])], {})
    assert payload == '{"model":{"no":3,"lines":[{"count":1}]}}'
    assert arguments.decode(payload)["model"] == Model(no=3, lines=[Line(count=1)])


@pytest.mark.parametrize(
    ("payload", "path", "value"),
    [
        ('{"model":{"no":0}}', "$.model.no", "0"),
        ('{"model":{"no":1,"lines":[{"count":1},{"count":"three"}]}}', "$.model.lines[1].count", '"three"'),
        ('{"model":{}}', "$.model.no", "{}"),
        (
            '{"model":{"no":1},"points":{"a":{"x":1},"b":{"x":"ä"}}}',
            "$.points[...].x",
            '{"a": {"x": 1}, "b": {"x": "ä"}}',
        ),
    ],
)
def test_the_path_and_the_value_are_named(payload: str, path: str, value: str) -> None:
    """Of what does not fit within a model, too; of what is missing, where it is."""
    with pytest.raises(InvalidInput) as caught:
        Arguments(take).decode(payload)
    assert caught.value.message.endswith(f" - at `{path}`: {value}")
    assert caught.value.value == value


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ('{"day":"yesterday","points":[]}', "$.day"),
        ('{"day":"2030-01-02","points":[],"ful":true}', "unknown field `ful`"),
        ('{"points":[]}', "missing required field `day`"),
        ("[1]", "arguments need a JSON object"),
        ("no json", "arguments need a JSON object"),
    ],
)
def test_what_does_not_fit_is_named(payload: str, why: str) -> None:
    """The error says which argument, and what the function takes."""
    with pytest.raises(InvalidInput) as caught:
        Arguments(report).decode(payload)
    assert caught.value.field == "payload"
    assert why in caught.value.message
    assert "full: bool = False" in str(caught.value.allowed)


def test_wrong_arguments_are_found_where_they_are_given() -> None:
    """`enqueue` refuses what the function would not take: a wrong type, a missing one, what JSON can't hold."""
    arguments = Arguments(report)
    for given_args, kwargs in (
        (["2030-13-01"], {"points": []}),
        ([], {}),
        ([date(2030, 1, 1)], {"points": [], "other": 1}),
        ([date(2030, 1, 1)], {"points": object()}),
    ):
        with pytest.raises(InvalidInput):
            arguments.encode(given_args, kwargs)


def test_one_argument_takes_any_payload() -> None:
    """What a parent returned, a number or a text that is no JSON, is the value of the only parameter."""

    def take(value: Any) -> None:
        """Takes anything."""

    arguments = Arguments(take)
    assert [arguments.decode(text)["value"] for text in ("[1]", "3", "plain", "null")] == [[1], 3, "plain", None]


def test_a_function_without_parameters_gets_nothing_of_its_parent() -> None:
    """Whatever a parent left is not for it; what somebody gave it is still refused."""

    def bare() -> None: ...

    def with_task(task: Task) -> None: ...

    for arguments, payload in product((Arguments(bare), Arguments(with_task)), ('{"number": 1}', "42", "[1]", "text")):
        facts = replace(a_facts(payload), is_inherited=True)
        assert arguments.of(Task(facts, print)) == {}
        with pytest.raises(UnfitPayload):
            arguments.of(a_task(payload))
    with pytest.raises(UnfitPayload):
        Arguments(report).of(Task(replace(a_facts("42"), is_inherited=True), print))


def test_the_result_of_a_parent_is_the_argument_that_is_needed_unless_it_names_arguments() -> None:
    """An object that a run before gave goes as a whole to `page`, as any other result does; one by names stays so."""

    def parse(page: Any, strict: bool = False) -> None: ...

    def store(size: int, table: str) -> None: ...

    def tag(page: Any, **labels: Any) -> None: ...

    def taken(function: Callable[..., None], payload: str | None) -> dict[str, Any]:
        return Arguments(function).of(Task(replace(a_facts(payload), is_inherited=True), print))

    for result in ('{"url": "a", "size": 1}', '{"strict": true}', "{}", "7", "[1]"):
        assert taken(parse, result) == {"page": json.loads(result), "strict": False}
    assert taken(parse, '{"page": 1, "strict": true}') == {"page": 1, "strict": True}
    assert taken(tag, '{"page": 1, "url": "a"}') == {"page": 1, "url": "a"}
    assert taken(tag, '{"url": "a"}') == {"page": {"url": "a"}}
    assert taken(parse, None) == {"page": None, "strict": False}
    assert taken(store, '{"size": 1, "table": "t"}') == {"size": 1, "table": "t"}
    for unfit in ("7", '{"url": "a"}', None):
        with pytest.raises(UnfitPayload):
            taken(store, unfit)
    with pytest.raises(InvalidInput, match="unknown field"):
        Arguments(parse).decode('{"url": "a"}')


def test_the_task_is_no_argument_of_the_payload() -> None:
    """A first parameter annotated `Task` gets the task in hand; all others come from the payload."""

    def take(task: Task, number: int = 1) -> None:
        """Takes the task."""

    arguments = Arguments(take)
    assert arguments.wants_task
    assert arguments.decode('{"number": 2}') == {"number": 2}
    assert arguments.decode(None) == {"number": 1}


def test_named_others_are_taken_as_they_are() -> None:
    """`**others` gets every member that is no parameter."""

    def take(number: int, **others: Any) -> None:
        """Takes more."""

    arguments = Arguments(take)
    assert arguments.decode(arguments.encode([1], {"a": 2, "b": [3]})) == {"number": 1, "a": 2, "b": [3]}


def test_parameters_without_names_are_refused_at_once() -> None:
    """A payload has names: a function that can't be called by them is refused when it is declared, and named."""

    def take(*numbers: int) -> None:
        """Takes many."""

    with pytest.raises(InvalidInput, match="'numbers' has no name") as refused:
        Arguments(take)
    assert "functools.wraps" in (refused.value.allowed or "")  # what most decorators without it return


def test_types_that_are_not_known_are_refused_with_what_to_do() -> None:
    """Annotations that are texts name classes which are imported for type checkers alone, or are defined later."""

    def take(value: object) -> None: ...

    take.__annotations__["value"] = "OrderedDict[str, int]"
    with pytest.raises(InvalidInput, match=r"the types of .*take can't be read: name 'OrderedDict'") as refused:
        Arguments(take)
    assert "outside `if TYPE_CHECKING:`" in (refused.value.allowed or "")


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_json, st.integers(-(2**63), 2**63 - 1), st.dates())
def test_a_payload_says_what_was_given(value: Any, number: int, day: date) -> None:
    """Whatever arguments JSON can hold: decode(encode(arguments)) are the arguments."""

    def take(value: Any, number: int, day: date) -> None:
        """Takes three."""

    arguments = Arguments(take)
    assert arguments.decode(arguments.encode([value], {"number": number, "day": day})) == {
        "value": value,
        "number": number,
        "day": day,
    }


Amount = Annotated[int, Field(gt=0)]


def pay(
    amount: Amount,
    parts: list[Annotated[int, annotated_types.Lt(9)]] | None = None,
    orders: Annotated[list[Order], Field(max_length=1)] | None = None,
    note: Annotated[str, StringConstraints(strip_whitespace=True)] = " as it is ",
    **more: Amount,
) -> None:
    """A function whose parameters have bounds."""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"amount": 0}, "Input should be greater than 0 - at `$.amount`: 0"),
        ({"amount": 1, "parts": [1, 9]}, "Input should be less than 9 - at `$.parts[1]`: 9"),
        ({"amount": 1, "orders": [Order(1), Order(2)]}, "List should have at most 1 item after validation, not 2"),
        ({"amount": 1, "rest": -3}, "Input should be greater than 0 - at `$.rest`: -3"),
    ],
)
def test_bounds_of_pydantic_are_checked(given: dict[str, Any], why: str) -> None:
    """Where a run is asked for, and where it arrives: pydantic says so itself, also of those of `annotated_types`."""
    arguments = Arguments(pay)
    with pytest.raises(InvalidInput, match=re.escape(why)):
        arguments.encode([], given)
    with pytest.raises(InvalidInput, match=re.escape(why)):
        arguments.decode(msgspec.json.encode(given).decode())


def test_values_within_bounds_are_what_pydantic_makes_of_them() -> None:
    """A default value stays as it is; without pydantic nothing is checked."""
    arguments = Arguments(pay)
    payload = arguments.encode([1], {"note": " x ", "orders": [Order(2)], "rest": 3})
    assert payload == '{"amount":1,"orders":[{"number":2}],"note":" x ","rest":3}'
    assert arguments.decode(payload) == {"amount": 1, "parts": None, "orders": [Order(2)], "note": "x", "rest": 3}
    assert arguments.decode("1")["note"] == " as it is "
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pydantic", None)
        assert Arguments(pay).decode("0")["amount"] == 0


def test_bounds_that_no_value_has_are_refused_where_they_are_declared() -> None:
    """A run would fail whatever it is given."""

    def wrong(name: Annotated[str, Field(pattern="(")]) -> None: ...

    with pytest.raises(InvalidInput, match="pydantic knows no bounds of its parameter 'name'"):
        Arguments(wrong)
