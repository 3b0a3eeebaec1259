"""Batches in which no row meets another."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.stores.postgres.batches import columns, parameters, rounds


def test_columns_turn_rows() -> None:
    """Rows become one array for each column, also where there are none; a column of nothing becomes none."""
    types = ("bigint[]", "text[]", "bytea[]", "uuid[]")
    rows = [(1, "a", b"\0a", None), (None, "b", None, None)]
    assert columns(rows, types) == ["{1,NULL}", ("a", "b"), ["\\x0061", None], None]
    assert columns([], types) == ["{}", [], [], "{}"]


def test_columns_tell_once_what_all_rows_share() -> None:
    """Where it is asked for, a column that is the same in all rows has one element; others have all of theirs."""
    types = ("bigint[]", "text[]", "uuid[]", "text[]")
    rows = [(1, "a", None, "b"), (1, "a", None, "c"), (1, "a", None, "b")]
    assert columns(rows, types, once=True) == ["{1}", ("a",), None, ("b", "c", "b")]
    assert columns(rows, types) == ["{1,1,1}", ("a", "a", "a"), None, ("b", "c", "b")]


def test_parameters_cast_what_columns_give() -> None:
    """Every parameter has its number and its type; arrays that the driver does not know come as text."""
    assert parameters(("uuid", "text[]", "uuid[]", "bytea[]"), 2) == (
        "$2::uuid, $3::text[], $4::text::uuid[], $5::text[]::bytea[]"
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers())))
def test_rounds_keep_all_and_their_order(items: list[tuple[int, int]]) -> None:
    """Every item is in one round, no round has a key twice, and those of a key stay in order."""
    batches = list(rounds(items, lambda item: item[0]))
    assert all(len({key for key, _ in batch}) == len(batch) for batch in batches)
    for key in range(4):
        assert [item for batch in batches for item in batch if item[0] == key] == [
            item for item in items if item[0] == key
        ]
