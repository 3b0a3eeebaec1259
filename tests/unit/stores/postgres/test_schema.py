"""The names under which functions are installed."""

import re

from tokimori.stores.postgres.schema import function_set, known_functions
from tokimori.stores.urls import Namespace

TWO = "CREATE OR REPLACE FUNCTION tokimori_one() x; CREATE\n" + "CREATE OR REPLACE FUNCTION tokimori_one_more() y;"
LONGEST_NAME = 63
"""Bytes; the server cuts what is longer."""


def test_calls_get_the_digest() -> None:
    """Functions of the set are called by their installed names; tables and other functions stay as they are."""
    functions = function_set(TWO, 1)
    digest = functions.digest
    assert re.fullmatch("[0-9a-f]{8}", digest)
    assert functions.names == {"one", "one_more"}
    said = functions.rendered("SELECT tokimori_one(tokimori_one_more($1)), max(one) FROM tokimori_jobs, tokimori_two()")
    assert said == (
        f"SELECT tokimori_one_{digest}(tokimori_one_more_{digest}($1)), max(one) FROM tokimori_jobs, tokimori_two()"
    )


def test_another_text_or_schema_is_another_set() -> None:
    """A digest is of all of them together, and of the schema that their program knows."""
    sets = [function_set(TWO, 1), function_set(TWO + " ", 1), function_set(TWO, 2)]
    assert len({each.digest for each in sets}) == 3
    assert function_set(TWO, 1) == sets[0]


def test_installed_names_fit() -> None:
    """In the longest namespace, too."""
    functions = known_functions(1)
    prefix = Namespace("n" * 20).prefix
    assert len(functions.names) > 40
    assert max(len(f"{prefix}{name}_{functions.digest}") for name in functions.names) <= LONGEST_NAME


def test_names_bear_no_number() -> None:
    """Each function has one text: no name tells two apart by a number, as the pattern that finds sets supposes."""
    functions = known_functions(1)
    assert [name for name in functions.names if not re.fullmatch("[a-z]+(_[a-z]+)*", name)] == []
    assert functions.text.count("CREATE OR REPLACE FUNCTION") == len(functions.names)
