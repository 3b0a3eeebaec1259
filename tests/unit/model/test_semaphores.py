"""Semaphores and keys as jobs state them: read from text, and refused by the field, value and what is allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import a_definition
from tokimori.errors import InvalidInput
from tokimori.model.checks import check_definition
from tokimori.model.job import kills_on_lost_lease
from tokimori.model.semaphores import line_of, permits_in, permits_text, semaphore_of, wanted


def test_semaphores_are_read_by_name() -> None:
    """A name alone is one unit; they come in the order in which they are locked."""
    assert wanted(("warehouse:2", "api")) == (("api", 1), ("warehouse", 2))
    assert wanted(()) == ()


@pytest.mark.parametrize(
    "semaphores",
    [
        ("",),
        (":2",),
        ("a:",),
        ("a:0",),
        ("a:-1",),
        ("a:x",),
        ("a:1:2",),
        ("a b",),
        ("a\n",),
        ("a", "a:2"),
        ("a:1000001",),
    ],
)
def test_what_is_no_semaphore_is_refused(semaphores: tuple[str, ...]) -> None:
    """No name, no positive weight, a name said twice: field, value and what is allowed are told."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(semaphores=semaphores))
    assert refused.value.field == "semaphores"
    assert str(refused.value.value) in semaphores or refused.value.value == ""
    assert refused.value.allowed


@pytest.mark.parametrize("key", ["", "k" * 256, "a\0"])
def test_what_is_no_key_is_refused(key: str) -> None:
    """A key has 1 to 255 characters that every database can hold."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(concurrency_key=key))
    assert (refused.value.field, refused.value.value) == ("concurrency_key", key)


@pytest.mark.parametrize("limit", [0, -1, 1_000_001])
def test_a_key_runs_at_least_once(limit: int) -> None:
    """A limit of keys below one would let nothing run."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(max_running_per_key=limit))
    assert refused.value.field == "max_running_per_key"


def test_a_line_is_named_after_its_semaphore() -> None:
    """From the name of a line the semaphore is found, from that of any other line none."""
    assert semaphore_of(line_of("api")) == "api"
    assert [semaphore_of(line) for line in (None, "", "key")] == [None, None, None]


@pytest.mark.parametrize(
    "terms", [{"semaphores": ("api",)}, {"concurrency_key": "k"}, {"max_running_per_key": 2}, {"max_running": 1}]
)
def test_who_states_a_limit_is_killed_with_its_lease(terms: dict[str, object]) -> None:
    """Otherwise a node that is cut off would go on while others take its places."""
    assert kills_on_lost_lease(a_definition(**terms))
    assert not kills_on_lost_lease(a_definition())
    assert kills_on_lost_lease(a_definition(), keyed=True)


@given(st.lists(st.tuples(st.from_regex(r"[A-Za-z0-9._-]{1,9}", fullmatch=True), st.integers(1), st.integers(0))))
def test_what_a_run_holds_is_read_as_it_was_written(held: list[tuple[str, int, int]]) -> None:
    """By name; whatever else a variable may say is no permit."""
    assert permits_in(permits_text(held)) == {name: (weight, token) for name, weight, token in held}
    assert permits_in("a a:1 a:1:x :: a:-1:2 b:1:2:3") == {}
