"""Statements with their values written into them."""

import pytest

from tokimori.model.job import JobState
from tokimori.stores.mysql.statements import Large, delete, insert, sql


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (7, "7"),
        (True, "1"),
        (JobState.PAUSED, "'paused'"),
        ("it's", r"'it\'s'"),
        ("a\\' OR 1 -- ", r"'a\\\' OR 1 -- '"),
        ("100 %s", "'100 %s'"),
        ('{"a":\n"\0"}', '\'{"a":\n"\0"}\''),
        (b"\x00'\xff", "x'0027ff'"),
        ((1, "a"), "(1, 'a')"),
        ([1, 2], "1, 2"),
        ([(1, "a"), (2, None)], "(1, 'a'), (2, NULL)"),
        ([], "NULL"),
    ],
)
def test_a_value_is_written_so_that_it_stays_one(value: object, text: str) -> None:
    """No value ends its own quotes, and an empty list is a list of nothing."""
    assert sql("= %s;", value) == f"= {text};"


def test_other_values_are_a_bug() -> None:
    """What has no literal is refused rather than guessed."""
    with pytest.raises(TypeError):
        sql("%s", 1.5)


def test_many_rows_are_several_statements() -> None:
    """Rows are inserted some hundreds at a time, in order; none are no statement."""
    statements = list(insert("INSERT", "t", "a", [(n,) for n in range(1001)]))
    assert [statement.count("(") for statement in statements] == [501, 501, 2]
    assert list(insert("INSERT", "t", "a", [])) == []
    assert list(delete("t", [])) == []


def test_long_rows_are_several_statements() -> None:
    """Rows are cut by their length, too, in order; a row that is long alone says which value makes it so."""
    rows = [(n, "ä" * size) for n, size in enumerate([60_000, 60_000, 60_000, 400_000, 5])]
    statements = list(insert("INSERT", "t", 'n, "by"', rows, "IGNORE"))
    assert [statement.count("), (") + 1 for statement in statements] == [2, 1, 1, 1]
    assert statements[-1] == "INSERT INTO t (n, \"by\") VALUES (4, 'äääää') IGNORE"
    large = [(each.field, each.size) for each in statements if isinstance(each, Large)]
    assert large == [("by", 800_000)]
