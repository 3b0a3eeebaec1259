"""Results as they are kept and come back, and arguments that no JSON can hold."""

import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from unittest.mock import Mock

import pytest

from tokimori.apps import models
from tokimori.apps.arguments import Arguments
from tokimori.apps.json_text import text_of
from tokimori.errors import InvalidInput


def returns(kind: Any) -> Arguments:
    """Return the arguments of a function with a result of this type."""

    def function() -> Any: ...

    function.__annotations__["return"] = kind
    return Arguments(function)


@dataclass
class Cat:
    """One of two results."""

    name: str
    weight: float


@dataclass
class Dog:
    """The other one."""

    legs: int
    chip: bytes = b""


@dataclass
class Owner:
    """A result with one of the two."""

    pet: Cat | Dog


class Mixed(Enum):
    """Names for values of two types."""

    ONE = 1
    TWO = "two"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Cat | Dog, Dog(4)),
        (list[Cat | Dog], [Dog(4), Cat("Tom", 4.5)]),
        (Cat | Dog, Dog(4, b"\0\xff")),
        (Owner, Owner(Dog(4, b"\0\xff"))),
        (datetime | str, datetime(2030, 1, 1, tzinfo=UTC)),
        (Mixed, Mixed.TWO),
        (float, float("inf")),
        (list[float | None], [float("-inf"), None, 1.5]),
        (Cat, Cat("Infinity", float("inf"))),
        (Cat | Dog, Cat("NaN", float("-inf"))),
        (dict[str, float], {"null": float("inf")}),
        (Counter, Counter("deed")),
        (Counter[str], Counter("deed")),
        (dict[str, Counter[int]], {"a": Counter((3, 3, 4))}),
    ],
)
def test_a_result_comes_back_as_it_was(kind: Any, value: Any) -> None:
    """Also one that JSON has no number for, and one of several types that only pydantic tells apart."""
    assert returns(kind).result_of(text_of(value, "result")) == value


def test_what_reads_the_results_of_a_function_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make it takes a millisecond, and a program may gather ten thousand results."""
    made = Mock(wraps=models._adapter_of)
    monkeypatch.setattr(models, "_adapter_of", made)
    arguments = returns(Cat | Dog)
    for _ in range(3):
        assert arguments.result_of('{"legs":4}') == Dog(4)
    assert made.call_count == 1


def test_a_result_that_is_no_number_is_kept_as_a_word() -> None:
    """JSON has no NaN: a null would say that there was no result."""
    assert text_of({"x": [float("nan")], "y": None}, "result") == '{"x":["NaN"],"y":null}'
    assert math.isnan(returns(float).result_of('"NaN"'))
    assert returns(str).result_of('"NaN"') == "NaN"
    assert returns(Any).result_of('"Infinity"') == "Infinity"
    with pytest.raises(InvalidInput, match="Expected `int`, got `str`"):
        returns(int).result_of('"NaN"')


class Unsayable:
    """A value that can't be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("never")


def test_an_argument_that_is_endless_or_cannot_be_shown_is_refused_in_words() -> None:
    """With the parameter, and not with an error of ours."""
    endless: list[Any] = []
    endless.append(endless)

    def takes(value: Any) -> None: ...

    with pytest.raises(InvalidInput, match="holds itself"):
        Arguments(takes).encode([endless], {})
    with pytest.raises(InvalidInput, match="value is a Unsayable"):
        Arguments(takes).encode([Unsayable()], {})
