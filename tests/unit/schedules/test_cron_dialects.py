"""Expressions of other systems."""

import pytest

from tokimori.errors import InvalidSchedule
from tokimori.schedules.cron import Dialect, rewrite
from tokimori.schedules.parse import parse_schedule

SAME = [
    (Dialect.VIXIE, "5/15 * */2 * 1", "5/15 * */2 * 1"),
    (Dialect.CHRONO, "5/15 * * * *", "5 * * * *"),
    (Dialect.CHRONO, "5-10/2,7/3 */6 * * *", "5-10/2,7 */6 * * *"),
    (Dialect.CHRONO, "0 0 */2 * 1", "0 0 1-31/2 * 1"),
    (Dialect.CHRONO, "0 0 13 * */2", "0 0 13 * 0-6/2"),
    (Dialect.CHRONO, "@daily", "@daily"),
    (Dialect.QUARTZ, "0 0 12 ? * 2-6", "0 0 12 ? * 1-5"),
    (Dialect.QUARTZ, "0 0 12 ? * 6#3", "0 0 12 ? * 5#3"),
    (Dialect.QUARTZ, "0 0 12 ? * 6L", "0 0 12 ? * 5L"),
    (Dialect.QUARTZ, "0 0 12 ? * L", "0 0 12 ? * 6"),
    (Dialect.QUARTZ, "0 0 12 ? * 1/2", "0 0 12 ? * 0/2"),
    (Dialect.QUARTZ, "0 0 12 ? * MON-FRI 2030", "0 0 12 ? * MON-FRI 2030"),
]


@pytest.mark.parametrize(("dialect", "text", "ours"), SAME)
def test_it_is_rewritten_into_our_rules(dialect: Dialect, text: str, ours: str) -> None:
    """What the other system means, in a text that means it here."""
    assert parse_schedule(rewrite(text, dialect)) == parse_schedule(ours)


@pytest.mark.parametrize("text", ["0 12 ? * 2", "0 0 12 ? * 0", "0 0 12 ? * 8"])
def test_quartz_has_no_weekday_0_and_no_5_fields(text: str) -> None:
    """Where the text can't be Quartz's, guessing would move a job by a day."""
    with pytest.raises(InvalidSchedule):
        rewrite(text, Dialect.QUARTZ)
