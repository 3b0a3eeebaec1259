"""Time spans of systemd."""

import pytest

from tokimori.translators.time_span import microseconds_of

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90", 90 * SECOND),
        ("1h 30min", 5400 * SECOND),
        ("2h", 7200 * SECOND),
        ("2hours", 7200 * SECOND),
        ("48hr", 172_800 * SECOND),
        ("1y 12month", (31_557_600 + 12 * 2_629_800) * SECOND),
        ("55s500ms", 55_500_000),
        ("300ms20s 5day", 432_020_300_000),
        ("1.5s", 1_500_000),
        ("5 µs", 5),
        ("2 weeks", 1_209_600 * SECOND),
        ("1M", 2_629_800 * SECOND),
        ("1m", 60 * SECOND),
        ("0", 0),
        ("", None),
        ("soon", None),
        ("5 parsecs", None),
        ("-5s", None),
        ("5s,", None),
        ("infinity", None),
    ],
)
def test_a_span_is_so_long(text: str, length: int | None) -> None:
    """The units of systemd.time(7), those of a month and a year too; anything else is none."""
    assert microseconds_of(text) == length
