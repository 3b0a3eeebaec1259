"""Batches in which no row meets another."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.stores.postgres.batches import columns, rounds


def test_columns_turn_rows() -> None:
    """Rows become one array for each column, also where there are none."""
    assert columns([(1, "a"), (2, "b")], 2) == [(1, 2), ("a", "b")]
    assert columns([], 2) == [[], []]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers())))
def test_rounds_keep_all_and_their_order(items: list[tuple[int, int]]) -> None:
    """Every item is in one round, no round has a key twice, and those of a key stay in order."""
    batches = list(rounds(items, lambda item: item[0]))
    assert all(len({key for key, _ in batch}) == len(batch) for batch in batches)
    for key in range(4):
        assert [item for batch in batches for item in batch if item[0] == key] == [
            item for item in items if item[0] == key
        ]
