"""Lengths of time as people write them."""

import pytest

from tokimori.schedules.stamp import iso_text, seconds_in


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("-3", -3),
        ("7d", 604_800),
        ("1h30m", 5_400),
        ("1H30M", 5_400),
        ("90s", 90),
        ("1.5s", 1.5),
        ("1.5h", 5_400),
        ("0.5d", 43_200),
        ("PT1.5H", 5_400),
        ("2w1d", 1_296_000),
        ("PT1H30M", 5_400),
        ("P1D", 86_400),
        ("P1DT1S", 86_401),
    ],
)
def test_lengths_are_read(text: str, seconds: float) -> None:
    """Numbers are seconds; units go from the largest to the smallest; ISO 8601 is understood, too."""
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1y", "1 month", "m", "30m1h", "1h 30m", "٣d", "1e3", "nan", "inf"])
def test_other_texts_are_none(text: str) -> None:
    """A month and a year have no length in seconds."""
    assert seconds_in(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "PT0S"), (1.5, "PT1.5S"), (3600, "PT3600S"), (2_592_000, "P30D"), (86_401, "PT86401S")]
)
def test_lengths_are_written(seconds: float, text: str) -> None:
    """Whole days are days, anything else is seconds; a length that is read again is the same."""
    assert iso_text(seconds) == text
    assert seconds_in(text) == seconds
