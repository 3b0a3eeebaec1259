"""Names of things."""

import string
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import DAY, HOUR, MILLISECOND, Moment
from tokimori.errors import InvalidInput
from tokimori.model.ids import (
    RunId,
    check_job_id,
    check_uuid,
    child_base,
    child_id,
    new_incarnation,
    uuid7,
)
from tokimori.model.run import short_id
from tokimori.model.words import DOTS

NOON = Moment(20_000 * DAY + 12 * HOUR)
ALPHABET = string.ascii_letters + string.digits + "._:@+-"
MOMENTS = st.integers(0, 253_402_300_799_999_999).map(Moment)
"""From 1970 to the end of the year 9999."""
EIGHT_BYTES = st.binary(min_size=8, max_size=8)


@given(MOMENTS, EIGHT_BYTES)
def test_a_uuid_7_as_the_rfc_has_it(now: Moment, entropy: bytes) -> None:
    """RFC 9562: 48 bits of Unix milliseconds, version 7, 12 bits of the fraction, variant 10, the rest random."""
    value = UUID(uuid7(now, lambda n: entropy[:n]))
    assert value.version == 7
    assert value.variant == "specified in RFC 4122"
    assert value.int >> 80 == now // MILLISECOND
    assert (value.int >> 64 & 0xFFF) / 4096 == pytest.approx(now % MILLISECOND / MILLISECOND, abs=1 / 4096)
    assert value.int & (1 << 62) - 1 == int.from_bytes(entropy) >> 2


@given(MOMENTS, st.integers(1, 2 * MILLISECOND), EIGHT_BYTES, EIGHT_BYTES)
def test_ids_are_ordered_by_time(now: Moment, later: int, first: bytes, second: bytes) -> None:
    """As text, an id comes before one made a microsecond later."""
    assert uuid7(now, lambda _: first) < uuid7(Moment(now + later), lambda _: second)


@given(st.text(ALPHABET, min_size=1, max_size=255).filter(lambda text: not text.startswith("-") and text not in DOTS))
def test_what_may_be_a_job_id(text: str) -> None:
    """Letters, digits and `._:@+-`, up to 255 of them, are an id, unchanged."""
    assert check_job_id(text) == text


@pytest.mark.parametrize("text", ["", "-a", "a" * 256, "a b", "a/b", "a\n", "ä", "٣", "a,b", "a\0", "a\n", ".", ".."])
def test_what_may_not(text: str) -> None:
    """Anything else is refused, naming field, value and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        check_job_id(text)
    assert (caught.value.field, caught.value.value) == ("id", text)
    assert "not starting with -, neither . nor .." in str(caught.value.allowed)


@given(st.binary(min_size=8, max_size=8))
def test_incarnations_fit_a_signed_integer(entropy: bytes) -> None:
    """An incarnation is below 2^63, so that every database has a type for it."""
    assert 0 <= new_incarnation(lambda n: entropy[:n]) < 1 << 63


def test_a_uuid_is_read_in_any_case() -> None:
    """A UUID is returned in its canonical form."""
    text = "0190F5FE-7C1C-7D6A-8B5E-3B8E6C9F0A1B"
    assert check_uuid(text, field="run") == text.lower()


@pytest.mark.parametrize("text", ["", "run", "0190f5fe", "0190f5fe-7c1c-7d6a-8b5e-3b8e6c9f0a1z"])
def test_no_uuid(text: str) -> None:
    """What is no UUID is refused, naming the field."""
    with pytest.raises(InvalidInput) as caught:
        check_uuid(text, field="run")
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("run", text, "a UUID")


@given(
    st.lists(
        st.tuples(st.uuids(), st.integers(0, (1 << 24) - 1)),
        unique_by=lambda birth: (child_base(RunId(str(birth[0]))), birth[1]),
        min_size=2,
        max_size=20,
    ),
    MOMENTS,
)
def test_children_of_one_moment_have_ids_of_their_own(births: list[tuple[UUID, int]], due: Moment) -> None:
    """Parent and place make the id: it is a UUID of the child's moment, the same each time, and no other child's."""
    ids = [child_id(due, child_base(RunId(str(parent))), place) for parent, place in births]
    assert ids == [child_id(due, child_base(RunId(str(parent))), place) for parent, place in births]
    assert len({*ids}) == len(ids)
    for each in ids:
        assert check_uuid(each, field="run") == each
        assert UUID(each).int >> 80 == due // 1000
        assert (UUID(each).version, each[19]) == (7, "8")


def test_ways_down_a_family_lead_to_different_runs() -> None:
    """Runs of one moment have ids of their own, by whichever places their parents were born, three births deep."""
    root, places, moments = RunId(uuid7(NOON, partial(int.to_bytes, 7))), range(8), (NOON, Moment(NOON + MILLISECOND))
    births = [(due, place) for due in moments for place in places]
    runs = [child_id(due, child_base(root), place) for due, place in births]
    for _ in range(2):
        runs = [child_id(due, child_base(run), place) for run in runs for due, place in births]
    assert len({*runs}) == len(runs) == len(births) ** 3


def test_a_child_is_named_by_its_last_digits() -> None:
    """Of a job that follows another one day after day, as of jobs that follow one together, no two runs end alike."""
    parents = [RunId(uuid7(Moment(day * DAY), partial(int.to_bytes, day))) for day in range(1_000)]
    assert len({short_id(child_id(Moment(0), child_base(parent), 0)) for parent in parents}) == 1_000
    assert len({short_id(child_id(Moment(0), child_base(parents[0]), place)) for place in range(1_000)}) == 1_000


@given(st.uuids(), MOMENTS, st.integers(0, (1 << 24) - 2))
def test_children_of_one_parent_are_in_the_order_of_their_places(parent: UUID, due: Moment, place: int) -> None:
    """Of two children that are due in one millisecond, the one that was added first has the smaller id."""
    births = child_base(RunId(str(parent)))
    assert child_id(due, births, place) < child_id(due, births, place + 1)
