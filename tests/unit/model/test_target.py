"""Handlers as a node tells of them."""

import re

import pytest

from tokimori.model.target import handlers_text, handles, is_handled, text_of_pattern

HANDLERS = ("mails", "a name of words", re.compile(r"reports\..*"), re.compile("a/b"))


@pytest.mark.parametrize(
    "name", ["mails", "a name of words", "reports.nightly", "a/b", "reports", "mail", "mails2", "x"]
)
def test_what_is_told_to_people_says_who_has_a_handler(name: str) -> None:
    """The text of a node's handlers has one for exactly the names that the node serves."""
    assert is_handled(name, handlers_text(HANDLERS)) is handles(HANDLERS, name)


def test_a_pattern_that_is_none_here_is_for_nobody() -> None:
    """Another version may have told it."""
    assert not is_handled("x", "/(/")


@pytest.mark.parametrize(
    "pattern",
    [
        re.compile("mails?"),
        re.compile("MAILS?", re.IGNORECASE),
        re.compile("(?i)MAILS?"),
        re.compile(" mail   s? # one or many", re.VERBOSE),
        re.compile(" (?x) M A I L s? ", re.VERBOSE | re.IGNORECASE),
        re.compile(r"\w+", re.ASCII),
        re.compile("mail.s", re.DOTALL),
    ],
)
def test_a_pattern_is_told_with_its_flags(pattern: re.Pattern[str]) -> None:
    """A node knows the patterns of its app by their texts: it claims exactly what the app has a handler for."""
    told = re.compile(text_of_pattern(pattern))
    for name in ("mail", "mails", "MAILS", "maıls", "mail\ns", "mäil"):
        assert handles([told], name) is handles([pattern], name)
        assert is_handled(name, handlers_text([pattern])) is handles([pattern], name)
