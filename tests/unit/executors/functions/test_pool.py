"""How long a node waits before it starts another worker process."""

from tokimori.executors.functions.pool import Backoff
from tokimori.model.suspicion import ALIVE_AND_WELL, LONGEST_PAUSE


def test_one_failure_costs_no_pause_and_more_cost_ever_longer_ones() -> None:
    """Up to the longest, and none any more once an app is loaded."""
    backoff, pauses = Backoff(), []
    for at in range(10):
        backoff.failed(at, at + 0.5)
        pauses.append(backoff.pause)
    assert pauses[:4] == [0, 1, 2, 4]
    assert pauses[-1] == LONGEST_PAUSE
    backoff.loaded()
    assert backoff.pause == 0


def test_what_fails_together_counts_once() -> None:
    """Sixteen processes that can't load one app have failed once, and that is told once."""
    backoff = Backoff()
    assert [backoff.failed(0, 1 + n / 10) for n in range(16)] == [True, *[False] * 15]
    assert backoff.pause == 0


def test_who_dies_as_soon_as_it_has_come_is_not_replaced_at_once() -> None:
    """A hello is no work: only an end of a run is, or a long life."""
    for saved_by in (Backoff.worked, lambda backoff: backoff.died_idle(9, 9 + ALIVE_AND_WELL)):
        backoff = Backoff()
        for at in range(3):
            backoff.loaded()
            backoff.died_idle(at, at + 0.5)
        assert backoff.pause == 2
        saved_by(backoff)
        assert backoff.pause == 0
