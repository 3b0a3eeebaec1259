"""Handlers as a node tells of them."""

import re

import pytest

from tokimori.model.handlers import handlers_text, handles, is_told

HANDLERS = ("mails", "a name of words", re.compile(r"reports\..*"), re.compile("a/b"))


@pytest.mark.parametrize(
    "name", ["mails", "a name of words", "reports.nightly", "a/b", "reports", "mail", "mails2", "x"]
)
def test_what_is_told_to_people_says_who_has_a_handler(name: str) -> None:
    """The text of a node's handlers has one for exactly the names that the node serves."""
    assert is_told(name, handlers_text(HANDLERS)) is handles(HANDLERS, name)


def test_a_pattern_that_is_none_here_is_for_nobody() -> None:
    """Another version may have told it."""
    assert not is_told("x", "/(/")
