"""Lengths of time as people write them."""

import pytest

from tokimori.schedules.stamp import seconds_in


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
