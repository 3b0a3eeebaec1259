"""Comparing tables with what they should be."""

from tokimori.stores.migrations import differences

EXPECTED = {("table", "t"): "there", ("column", "t.a"): "integer", ("index", "t.t_a"): "ON t (a)"}


def test_equal_tables_have_no_differences() -> None:
    """What others have added is theirs."""
    assert differences(EXPECTED, {**EXPECTED, ("index", "t.of_ours"): "ON t (b)", ("table", "u"): "there"}) == []


def test_what_is_missing_or_other_is_named() -> None:
    """With what it is and what it should be."""
    found = {("table", "t"): "there", ("column", "t.a"): "text"}
    assert differences(EXPECTED, found) == ["the column t.a is text, not integer", "the index t.t_a is missing"]


def test_of_a_missing_table_only_the_table_is_named() -> None:
    """Its columns and indexes are missing with it."""
    assert differences(EXPECTED, {}) == ["the table t is missing"]
