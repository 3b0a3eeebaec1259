import pytest

from tokimori.clock import format_moment
from tokimori.errors import InvalidSchedule
from tokimori.foreign.kala.shapes import epsilon_seconds, read_duration, read_schedule

START = "2030-06-04T19:25:16"


@pytest.mark.parametrize(
    ("repeats", "runs"),
    [
        *(("R", None), ("R0", 1), ("R2", 3), ("R231", 232), ("R007", 8), ("R+3", 4), ("R-1", None)),
        *(("xR2", 3), (" R2", 3), ("R2R3", 3), ("R9223372036854775807", None)),
    ],
)
def test_how_often(repeats: str, runs: int | None) -> None:
    """The number is how often it is repeated: one run more; none, a negative and a vast one are for ever."""
    assert read_schedule(f"{repeats}/{START}/PT10S").runs == runs


@pytest.mark.parametrize(
    ("start", "moment"),
    [
        (START, "2030-06-04T19:25:16Z"),
        (f"{START}.828696", "2030-06-04T19:25:16.828696Z"),
        (f"{START}.828696-07:00", "2030-06-05T02:25:16.828696Z"),
        (f"{START}-07:00", "2030-06-05T02:25:16Z"),
        (f"{START}.82869612345678901Z", "2030-06-04T19:25:16.828696Z"),
    ],
)
def test_starts(start: str, moment: str) -> None:
    """A start without an offset is in UTC; a fraction may have any length."""
    assert format_moment(read_schedule(f"R/{start}/PT10S").start) == moment


@pytest.mark.parametrize(
    ("interval", "ours"),
    [
        *(("PT10S", "PT10S"), ("PT2H", "PT2H"), ("P1DT1H", "P1DT1H"), ("P1W", "P1W"), ("P2M", "P2M")),
        *(("P1Y2M10DT2H30M15S", "P1Y2M10DT2H30M15S"), ("P1WT1H", "P1W"), ("PT1S1M", "PT1S")),
        *(("xxP1Dyy", "P1D"), ("-PT1S", "PT1S")),
    ],
)
def test_intervals(interval: str, ours: str) -> None:
    """An interval is found in what stands around it, as Kala of 2023 finds it; weeks go alone."""
    assert str(read_duration("interval", interval)) == ours
    assert read_schedule(f"R/{START}/{interval}").text == f"R/{START}/{ours}"


@pytest.mark.parametrize("interval", ["", "junk", "PT", "PT10S"])
def test_one_moment_has_no_interval(interval: str) -> None:
    """The interval of a schedule that is not repeated is not read."""
    assert read_schedule(f"R0/{START}/{interval}").text == f"R0/{START}/P1D"


@pytest.mark.parametrize(
    "schedule",
    [f"{repeats}/{START}/PT1S" for repeats in ("", "2", "RR2", "R2.5", "Rx", "R99999999999999999999")]
    + [
        f"R/{start}/PT1S"
        for start in ("", "2030-06-04", "20300604T192516Z", "2030-06-04t19:25:16z", "2030-06-04 19:25:16")
    ]
    + ["R/2030-06-04T24:00:00Z/PT1S", "R/2030-06-04T19:25:16+0200/PT1S"]
    + [
        f"R/{START}/{interval}"
        for interval in ("", "P", "PT", "P1DT", "PT1.5S", "P-1D", "PxP1D", "p1d", "T", "DTT", "000D", "P0D", "PT0S")
    ]
    + ["", "R", f"R/{START}", f"R/{START}/PT1S/PT1S"],
)
def test_what_is_no_schedule(schedule: str) -> None:
    """What Kala of 2023 refuses, or dies of, is refused, and an interval of zero."""
    with pytest.raises(InvalidSchedule):
        read_schedule(schedule)


@pytest.mark.parametrize(
    ("epsilon", "seconds"),
    [("", None), ("PT0S", None), ("P0D", None), ("PT5S", 5), ("P1W", 604_800), ("P1M", 2_592_000)],
)
def test_epsilons(epsilon: str, seconds: float | None) -> None:
    """An epsilon is a duration; none, and one of zero, is none."""
    assert epsilon_seconds(epsilon) == seconds


@pytest.mark.parametrize("epsilon", ["asdasd", "5", "PT"])
def test_what_is_no_epsilon(epsilon: str) -> None:
    """What is no duration is refused."""
    with pytest.raises(InvalidSchedule):
        epsilon_seconds(epsilon)
