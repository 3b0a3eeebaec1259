"""Moments as people write them."""

import pytest

from tests.unit.examples import NEW_YEAR
from tokimori.cli.moment import moment_ago
from tokimori.clock import parse_moment
from tokimori.errors import InvalidInput
from tokimori.schedules.stamp import future_moment_text, past_moment_text


@pytest.mark.parametrize(
    ("text", "ago", "ahead"),
    [
        ("1h30m", "2029-12-31T22:30:00Z", "2030-01-01T01:30:00Z"),
        ("7d", "2029-12-25T00:00:00Z", "2030-01-08T00:00:00Z"),
        ("PT90S", "2029-12-31T23:58:30Z", "2030-01-01T00:01:30Z"),
        ("2031-02-03", "2031-02-03T00:00:00", "2031-02-03T00:00:00"),
        ("2031-02-03 09:30", "2031-02-03 09:30:00", "2031-02-03 09:30:00"),
        ("2031-02-03T09:30+02:00", "2031-02-03T09:30:00+02:00", "2031-02-03T09:30:00+02:00"),
        ("2031-02-03T09:30:15.5Z", "2031-02-03T09:30:15.5Z", "2031-02-03T09:30:15.5Z"),
    ],
)
def test_moments_are_read(text: str, ago: str, ahead: str) -> None:
    """A length counts from now, back or ahead; a day begins at its midnight; what has no offset gets none here."""
    assert (past_moment_text("at", text, NEW_YEAR), future_moment_text("at", text, NEW_YEAR)) == (ago, ahead)


def test_a_day_begins_in_the_zone() -> None:
    """Where its midnight is another moment than that of UTC."""
    assert moment_ago("at", "2030-07-01", "Europe/Paris", NEW_YEAR) == parse_moment("2030-06-30T22:00:00Z")


@pytest.mark.parametrize(
    "text",
    [
        *("", "90", "1y", "tomorrow", "2031-13-03", "2031-02-03T25:00", "7 d", "31.12.2030"),
        *("2031y", "120000w", "999999999w"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    """The error quotes what was typed, and says all that is allowed."""
    with pytest.raises(InvalidInput) as caught:
        past_moment_text("since", text, NEW_YEAR)
    assert (caught.value.field, caught.value.value) == ("since", text)
    assert "2030-01-01T00:00:00Z" in str(caught.value.allowed)
    assert "how long ago" in str(caught.value.allowed)
