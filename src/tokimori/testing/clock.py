"""A clock for tests."""

from tokimori.clock import SECOND, Moment, parse_moment

NEW_YEAR = parse_moment("2030-01-01T00:00:00Z")


class VirtualClock:
    """A clock that goes on only when it is told to."""

    def __init__(self, moment: Moment = NEW_YEAR) -> None:
        self.moment = moment
        self.seconds = 1000.0

    def now(self) -> Moment:
        """Return the wall clock."""
        return self.moment

    def monotonic(self) -> float:
        """Return the monotonic clock."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        self.moment = Moment(self.moment + round(seconds * SECOND))

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self.moment = Moment(self.moment + round(seconds * SECOND))
