"""Names of installations that share a database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import SystemClock
from tokimori.errors import InvalidInput
from tokimori.stores.mysql.statements import sql
from tokimori.stores.open import open_store
from tokimori.stores.urls import Namespace, is_allowed

names = st.from_regex(r"[a-z0-9_]{0,20}", fullmatch=True).filter(lambda name: not name or is_allowed(name))
ours = st.from_regex(r"[a-z0-9]+(_[a-z0-9]+)*", fullmatch=True)


@given(names, names, ours, ours)
def test_no_name_belongs_to_two(one: str, other: str, table: str, index: str) -> None:
    """What one installation calls a table or an index is the name of nothing in another installation."""
    if one != other:
        assert Namespace(one).prefix + table != Namespace(other).prefix + index


@given(st.text())
def test_values_stay_as_they_are(value: str) -> None:
    """Where values stand as literals in a statement, only what is outside of them gets the name."""
    plain = sql("SELECT %s FROM tokimori_jobs WHERE tokimori_jobs.id = %s", f"tokimori_{value}", "tokimori_x")
    named = sql("SELECT %s FROM tokimori_a__jobs WHERE tokimori_a__jobs.id = %s", f"tokimori_{value}", "tokimori_x")
    assert Namespace("a").rendered_around_literals(plain) == named
    assert Namespace().rendered_around_literals(plain) == plain


@pytest.mark.parametrize("scheme", ["sqlite:///t.db", "postgresql://ann:tiger@h/d", "mariadb://ann:tiger@h/d"])
@pytest.mark.parametrize("name", ["A", "a-b", "_a", "a_", "a__b", "a" * 21, "ä"])
def test_other_names_are_refused(scheme: str, name: str) -> None:
    """A name is told with what is allowed, and no password with it."""
    with pytest.raises(InvalidInput, match="a namespace is 1 to 20 of a-z 0-9 _") as refused:
        open_store(f"{scheme}?namespace={name}", SystemClock())
    assert "tiger" not in refused.value.message
