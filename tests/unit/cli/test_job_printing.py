"""Fields of a job, as words."""

from tokimori.cli.job_printing import shown_value


def test_lists_within_a_field_are_words() -> None:
    """Nobody is shown how Python writes a tuple."""
    assert shown_value({"failure": ("ops", "mail"), "recovery": ("ops",)}) == "failure=ops mail, recovery=ops"
    assert shown_value({"attempts": 6, "delay": 10.0}) == "attempts=6, delay=10.0"
