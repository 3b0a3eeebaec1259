"""Arguments of types that JSON does not have, and what is refused because it would change or vanish."""

from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import (
    Callable,
    Collection,
    Container,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Reversible,
    Sequence,
    Set,
)
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path, PurePosixPath
from types import GenericAlias, MappingProxyType
from typing import IO, Annotated, Any, NamedTuple, Never, NewType, NotRequired, TypedDict, TypeVar, Unpack
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from typing_extensions import TypeAliasType
from typing_extensions import TypeVar as Named

from tokimori.apps.app import App
from tokimori.apps.arguments import Arguments
from tokimori.apps.closed import unfolded
from tokimori.errors import InvalidInput


class Colour(StrEnum):
    """A text."""

    RED = "red"


class Kind(Enum):
    """A number."""

    A = 1


class Shade(Enum):
    """No text, though its values are."""

    DARK = "dark"


OrderNumber = NewType("OrderNumber", str)


class Pair(NamedTuple):
    """Two numbers."""

    one: int
    two: int


class Box(TypedDict):
    """A closed one."""

    width: int
    parts: NotRequired[list["Box"]]


@dataclass
class Place:
    """Closed, too."""

    street: str
    floor: int = 0


@dataclass
class Loaded:
    """It holds types that JSON does not have."""

    line: deque[int]
    more: Iterable[int]


class Options(TypedDict, total=False):
    """Of keywords."""

    level: int


def takes(kind: Any) -> Arguments:
    """The arguments of a function of one argument of this type."""

    def take(value: Any) -> None: ...

    take.__annotations__["value"] = kind
    return Arguments(take)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (dict[int, str], {1: "a", -2: "b"}),
        (dict[date, int], {date(2030, 1, 2): 1}),
        (dict[UUID, int], {UUID(int=5): 1}),
        (dict[Colour, int], {Colour.RED: 1}),
        (list[dict[int, dict[int, float]]], [{1: {2: 0.5}}]),
        (Path, Path("/tmp/a b")),
        (PurePosixPath, PurePosixPath("a")),
        (list[Path | None], [Path("a"), None]),
        (dict[str, Path], {"a": Path("b")}),
        (ZoneInfo, ZoneInfo("Europe/Paris")),
        (IPv4Address, IPv4Address("10.0.0.1")),
        (IPv6Network, IPv6Network("fe80::/10")),
        (Fraction, Fraction(1, 3)),
        (Annotated[Path, "where"], Path("a")),
        (Box, {"width": 1, "parts": [{"width": 2}]}),
        (list[Place], [Place("Main", 2)]),
        (tuple[Box, Place], ({"width": 1}, Place("Main"))),
        (Place | None, Place("Main")),
        (bytes, b"\x00\xff"),
        (Decimal, Decimal("1.10")),
        (datetime, datetime(2030, 1, 1, tzinfo=UTC)),
        (tuple[int, ...], (1, 2)),
        (set[int], {1, 2}),
        (dict, {"a": [1, {"b": None}]}),
        (Any, {"a": [1, 1.5, "x", None, True]}),
        (object, {"a": [1, 1.5, "x", None, True]}),
        (Iterable[int], [1, 2]),
        (Iterable, [1, "x"]),
        (Iterable[Path], [Path("a")]),
        (Collection[int], [1]),
        (Container[int], [1]),
        (Reversible[int], [1]),
        (Sequence[int], [1, 2]),
        (Mapping[str, int], {"a": 1}),
        (Mapping[int, date], {1: date(2030, 1, 2)}),
        (Set[int], {1}),
        (frozenset[int], frozenset({1})),
        (OrderedDict[str, int], OrderedDict(b=1, a=2)),
        (OrderedDict, OrderedDict(b=1, a=2)),
        (OrderedDict[int, Place], OrderedDict({2: Place("Main"), 1: Place("Side")})),
        (deque[int], deque([1, 2])),
        (deque, deque([1, "x"])),
        (deque[date] | None, deque([date(2030, 1, 2)])),
        (list[deque[deque[int]]], [deque([deque([1])])]),
        (Loaded, Loaded(deque([1]), [2])),
    ],
)
def test_arguments_arrive_as_they_were(kind: Any, value: Any) -> None:
    """Of the very type that is annotated."""
    arguments = takes(kind)
    found = arguments.decode(arguments.encode([value], {}))["value"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        (dict[int, str], '{"value": {"one": "a"}}', "Expected `int`, got `str`"),
        (Path, '{"value": 5}', "Expected `Path`, got `int` - at `$.value`: 5"),
        (IPv4Address, '{"value": "10.0.0.300"}', "Octet 300"),
        (Box, '{"value": {"width": 1, "wdith": 2}}', "unknown field `wdith` - at `$.value`"),
        (Box, '{"value": {"width": 1, "parts": [{"width": 1, "x": 2}]}}', "unknown field `x` - at `$.value.parts[0]`"),
        (dict[str, Box], '{"value": {"a": {"width": 1, "x": 2}}}', "unknown field `x` - at `$.value.a`"),
        (Box | None, '{"value": {"width": 1, "x": 2}}', "unknown field `x`"),
        (tuple[int, Box], '{"value": [1, {"width": 1, "x": 2}]}', "unknown field `x` - at `$.value[1]`"),
        (Annotated[Place, {}], '{"value": {"street": "a", "flor": 2}}', "unknown field `flor`"),
        (deque[int], '{"value": [1, "x"]}', "Expected `int`, got `str` - at `$.value[1]`"),
        (dict[str, deque[int]], '{"value": {"a": [1, "x"]}}', "Expected `int`, got `str` - at `$.value[...][1]`"),
        (OrderedDict[str, int], '{"value": {"a": "x"}}', "Expected `int`, got `str` - at `$.value[...]`"),
        (Iterable[int], '{"value": "12"}', "Expected `array`, got `str` - at `$.value`"),
        (NewType("Named", list[Box]), '{"value": [{"width": 1, "x": 2}]}', "unknown field `x` - at `$.value[0]`"),
        (Iterable[Box], '{"value": [{"width": 1, "x": 2}]}', "unknown field `x` - at `$.value[0]`"),
        (float, '{"value": NaN}', "Expected `float`, got `str`"),
        (dict, '{"value": Infinity}', "Expected `object`, got `str`|Expected `dict`, got `str`"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(kind: Any, payload: str, why: str) -> None:
    """With the place, and the value that stands there."""
    with pytest.raises(InvalidInput) as found:
        takes(kind).decode(payload)
    assert any(each in found.value.message for each in why.split("|"))


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        {"a": [float("inf")]},
        datetime(2030, 1, 1, tzinfo=UTC),
        date(2030, 1, 1),
        Decimal("1.1"),
        b"x",
        (1, 2),
        {1, 2},
        {1: "a"},
        UUID(int=1),
        Path("a"),
        Colour.RED,
        Kind.A,
        Place("Main"),
        Pair(1, 2),
        {"a": {"b": Decimal(1)}},
        [[date(2030, 1, 1)]],
    ],
)
@pytest.mark.parametrize("kind", [None, Any, dict, list, dict[str, Any]])
def test_what_nobody_says_the_type_of_is_kept_or_refused(kind: Any, value: Any) -> None:
    """JSON has its values; any other one would come as something else, and nobody would be told."""

    def bare(value, **more):  # type: ignore[no-untyped-def]
        """Say no type."""

    arguments = Arguments(bare) if kind is None else takes(kind)
    given = value if kind in (None, Any) else [value] if kind is list else {"k": value}
    with pytest.raises(InvalidInput, match="JSON"):
        arguments.encode([given], {})
    if kind is None:
        with pytest.raises(InvalidInput):
            arguments.encode([1], {"other": value})


def test_numbers_that_are_none_are_named() -> None:
    """Not as a null that would not fit."""
    for value, named in ((float("nan"), "nan"), (float("-inf"), "-inf")):
        with pytest.raises(InvalidInput, match=f"JSON can't hold the number {named}"):
            takes(float).encode([value], {})
    assert takes(float | None).encode([None], {}) == '{"value":null}'


def numbers(one: int, **more: int) -> None:
    """Named numbers."""


def options(**more: Unpack[Options]) -> None:
    """Keywords of a TypedDict."""


@pytest.mark.parametrize(
    ("function", "payload", "why"),
    [
        (numbers, '{"one": 1, "two": "x"}', "Expected `int`, got `str`"),
        (options, '{"level": "high"}', "Expected `int`, got `str`"),
        (options, '{"levle": 1}', "unknown field `levle`"),
    ],
)
def test_other_keywords_are_of_their_type(function: Callable[..., None], payload: str, why: str) -> None:
    """As every other parameter."""
    with pytest.raises(InvalidInput, match=why):
        Arguments(function).decode(payload)
    assert Arguments(numbers).decode('{"one": 1, "two": 2}') == {"one": 1, "two": 2}
    assert Arguments(options).decode('{"level": 1}') == {"level": 1}


@dataclass
class Loose:
    """It says nothing of what it holds."""

    value: Any = None
    more: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Loose, Loose(datetime(2030, 1, 1))),
        (list[Loose], [Loose(1, {"deep": [Decimal(1)]})]),
        (Any | None, date(2030, 1, 1)),
        (set, {date(2030, 1, 1)}),
        (frozenset[Any], frozenset({(1, 2)})),
        (TypeVar("Anything"), Decimal(1)),
        (deque, deque([date(2030, 1, 1)])),
        (deque[Any], deque([(1, 2)])),
        (Iterable, [date(2030, 1, 1)]),
        (Mapping, {"a": date(2030, 1, 1)}),
        (Mapping, {1: 2}),
        (OrderedDict, OrderedDict({1: 2})),
        (str, b"text"),
        (str | None, date(2030, 1, 1)),
        (list[str], [UUID(int=1)]),
        (dict[str, str], {"a": Path("b")}),
        (tuple[int, str], (1, Shade.DARK)),
        (dict[str, int], {1: 2}),
        (dict[int | str, int], {1: 2}),
        (list[Mapping[str, int]], [{1: 2}]),
        (Counter, Counter([1])),
        (Counter[str], Counter([1])),
        (list[Counter[int | str]], [Counter([1, "a"])]),
        (OrderNumber, UUID(int=1)),
        (list[OrderNumber | None], [None, b"text"]),
    ],
)
def test_nothing_within_a_type_that_is_open_changes_silently(kind: Any, value: object) -> None:
    """A dataclass, a set or a type variable says as little of a value as no annotation does; a text stays a text."""
    with pytest.raises(InvalidInput, match="JSON would change"):
        takes(kind).encode([value], {})


def test_texts_and_keys_that_json_has_are_taken_as_such() -> None:
    """A StrEnum is a text; a key of a number may be given as the text that JSON makes of it."""
    assert takes(str).encode([Colour.RED], {}) == '{"value":"red"}'
    for key in ("1", 1):
        assert takes(dict[int, str]).decode(takes(dict[int, str]).encode([{key: "a"}], {})) == {"value": {1: "a"}}


class Mixed(Enum):
    """Values of two kinds."""

    ONE = 1
    TWO = "two"


@pytest.mark.parametrize("kind", [str | date, Path | str, datetime | date, Mixed, list[bytes | str], Never])
def test_types_that_no_payload_fits_are_refused_where_they_are_declared(kind: Any) -> None:
    """Each run would fail, one without a payload, too."""

    def function(value: object = None) -> None:
        """Be declared."""

    function.__annotations__["value"] = kind
    with pytest.raises(InvalidInput, match=r"can't be a handler: .* not supported"):
        App("a").job(function)


@dataclass
class Holder:
    """It needs what no JSON is."""

    of: defaultdict[str, int]


@pytest.mark.parametrize(
    "kind",
    [
        *(Iterator[int], Generator[int, None, None], defaultdict[str, int], ChainMap[str, int], UserDict),
        *(complex, range, Callable[[], int], type[int], IO[str], Exception, App, App | None, list[App], dict[str, App]),
        *(tuple[int, App], Annotated[App, 1], Holder, list[Holder]),
        *(dict[Path, int], dict[bool, int], dict[tuple[int, ...], int], list[dict[Place, int]]),
        *(deque[App], Iterable[App], OrderedDict[Path, int], Counter[Path], NewType("Apps", deque[App])),
    ],
)
def test_a_type_that_no_json_has_is_refused_where_it_is_declared(kind: Any) -> None:
    """With the parameter and the type, in words; one with a default value is never needed, and is taken."""

    def function(value: object) -> None:
        """Be declared."""

    function.__annotations__["value"] = kind
    with pytest.raises(InvalidInput, match=r"'value' is of the type (dict\[)?[A-Za-z]+(, …\])?, which no JSON"):
        App("a").job(function)

    def optional(value: object = None) -> None:
        """Be declared, and called without."""

    optional.__annotations__["value"] = kind
    assert Arguments(optional).decode(None) == {"value": None}


def test_what_a_sequence_may_be_is_taken() -> None:
    """A range, a tuple and what may not be changed come as a list and a dict."""
    assert takes(Sequence[int]).encode([range(3)], {}) == '{"value":[0,1,2]}'
    assert takes(Iterable[int]).encode([{1: 2}.keys()], {}) == '{"value":[1]}'
    assert takes(Mapping[str, int]).encode([MappingProxyType({"a": 1})], {}) == '{"value":{"a":1}}'


def test_the_payload_of_a_declared_job_is_typed_as_its_arguments() -> None:
    """By its annotations; what nothing says the type of is kept, or refused."""

    def typed(day: date, names: dict[int, str]) -> None: ...

    def bare(value, **more) -> None: ...  # type: ignore[no-untyped-def]

    made = App("a").job(payload={"day": date(2030, 1, 2), "names": {1: "a"}})(typed)
    assert made.job_id == "typed"
    said: list[Any] = [{"value": date(2030, 1, 2)}, {"value": 1, 2: 3}, {"value": {1: 2}}, {"value": 1, "more": (1, 2)}]
    for bad in said:
        with pytest.raises(InvalidInput, match="JSON would change"):
            App("a").job(payload=bad)(bare)


R = Named("R")
S = Named("S")
Sku = TypeAliasType("Sku", str)
Skus = TypeAliasType("Skus", list[Sku])
Both = TypeAliasType("Both", tuple[S, S], type_params=(S,))
Same = TypeAliasType("Same", S, type_params=(S,))
Lots = TypeAliasType("Lots", dict[str, S], type_params=(R, S))
Turned = TypeAliasType("Turned", dict[S, R], type_params=(R, S))


def stock(
    sku: Sku, pairs: list[Both[int]], rest: Annotated[Skus, "of old"] | None = None, n: Same[Path] = Path()
) -> Sku:
    """A function whose types have names."""
    return sku


def test_types_that_have_names_are_read_as_what_they_name() -> None:
    """`type Sku = str` and `type Both[T] = tuple[T, T]`, also within others; what can't fit is refused as ever."""
    arguments = Arguments(stock)
    payload = arguments.encode(["a"], {"pairs": [(1, 2)], "rest": ["b"], "n": Path("/tmp")})
    assert payload == '{"sku":"a","pairs":[[1,2]],"rest":["b"],"n":"/tmp"}'
    assert arguments.decode(payload) == {"sku": "a", "pairs": [(1, 2)], "rest": ["b"], "n": Path("/tmp")}
    with pytest.raises(InvalidInput, match=r"\$.pairs\[0\]\[1\]`: \"2\""):
        arguments.encode(["a"], {"pairs": [(1, "2")]})
    with pytest.raises(InvalidInput, match="sku is b'x', which JSON would change"):
        arguments.encode([b"x"], {"pairs": []})
    assert arguments.result_of('"a"') == "a"


def test_a_generic_name_gives_its_types_to_the_places_that_it_names() -> None:
    """In the order of its own parameters, also of those that it does not use or that are not given."""
    assert unfolded(Turned[int, str]) == dict[str, int]
    assert unfolded(Lots[int, bytes]) == dict[str, bytes]
    assert unfolded(Both[int]) == tuple[int, int]
    assert unfolded(Turned) == GenericAlias(dict, (S, R))


def test_a_name_within_what_it_names_is_any_value() -> None:
    """`type Tree = dict[str, Tree]`, of Python 3.12: msgspec knows no such type, and would find no end."""
    tree = type("TypeAliasType", (), {"__type_params__": ()})()
    tree.__value__ = GenericAlias(dict, (str, tree))
    assert unfolded(GenericAlias(list, (tree,))) == list[dict[str, Any]]
