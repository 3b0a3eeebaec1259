"""Arguments that pydantic reads: one of several models or dataclasses."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from tokimori.apps.arguments import Arguments
from tokimori.apps.models import adapters_of
from tokimori.errors import InvalidInput


class Card(BaseModel):
    """A way to pay."""

    kind: Literal["card"] = "card"
    limit: Decimal


class Transfer(BaseModel):
    """Another one."""

    kind: Literal["transfer"] = "transfer"
    on: datetime


@dataclass
class Cat:
    """A dataclass."""

    name: str
    raw: bytes = b""


@dataclass
class Dog:
    """Another one."""

    number: UUID


@dataclass
class Cage:
    """One that holds either."""

    of: Cat | Dog


CARD, TRANSFER, DOG = Card(limit=Decimal("1.10")), Transfer(on=datetime(2030, 1, 1)), Dog(UUID(int=7))


def takes(kind: Any) -> Arguments:
    """The arguments of a function with a parameter of this type."""

    def take(value: Any) -> None: ...

    take.__annotations__["value"] = kind
    return Arguments(take)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((Card | Transfer, each) for each in (CARD, TRANSFER)),
        (Annotated[Card | Transfer, Field(discriminator="kind")], TRANSFER),
        *((Cat | Dog | None, each) for each in (Cat("Tom"), DOG, None)),
        (Card | Cat, Cat("Tom", b"text")),
        (Cat | Dog, Cat("Tom", b"\0\xff")),
        *((Card | int, each) for each in (CARD, 3)),
        (list[Card | Dog], [DOG, CARD]),
        (dict[str, Cat | Dog], {"a": DOG}),
        (Cage, Cage(DOG)),
    ],
)
def test_one_of_several_models_arrives_as_what_it_was(kind: Any, value: Any) -> None:
    """As a result does; msgspec alone would refuse the function."""
    arguments = takes(kind)
    found = arguments.decode(arguments.encode([value], {}))["value"]
    assert (found, type(found)) == (value, type(value))


def test_an_object_in_a_payload_is_read_by_the_same_types() -> None:
    """A payload is given with values, too, and bytes in it arrive as they were."""
    arguments = takes(Cat | Dog)
    cat = Cat("Tom", b"\0\xff")
    assert arguments.decode(arguments.text_of({"value": cat})) == {"value": cat}


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (Card | Transfer, "seven", r"payload: it does not fit .* - at `\$.value.Card`: \"seven\""),
        (Cat | Dog, object(), "a value of the type object can't be written as JSON"),
        (Cat | Dog, {"name": "Tom", "raw": "AP8="}, "which JSON would change"),
        (Cat | Dog, {"name": "Tom", "row": ""}, r"Unexpected keyword argument - at `\$.value.Cat.row`"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_asked_for(kind: Any, value: Any, why: str) -> None:
    """In words, with the parameter."""
    with pytest.raises(InvalidInput, match=why):
        takes(kind).encode([value], {})


def test_what_would_come_back_as_another_value_is_refused() -> None:
    """A field that a model leaves out of its JSON would be lost."""

    class Secret(BaseModel):
        shown: int
        hidden: int = Field(default=0, exclude=True)

    with pytest.raises(InvalidInput, match="which JSON would change"):
        takes(Secret | Card).encode([Secret(shown=1, hidden=2)], {})


def test_what_msgspec_reads_is_left_to_it() -> None:
    """Pydantic is slower, and reads bytes and words in its own way."""
    kinds: dict[str, Any] = {
        "a": Card,
        "b": Cat | None,
        "c": list[Dog],
        "d": Annotated[int, "which"],
        "e": str | datetime,
    }
    assert adapters_of(kinds) == {}
