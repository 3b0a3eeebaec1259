"""Places of a worker process, and runs that wait for others."""

import pytest

from tokimori.apps.clients import Places
from tokimori.errors import Refused


def test_runs_that_wait_leave_one_place() -> None:
    """A run that waits for several others holds one place, and who has waited gives his back."""
    places = Places(3)
    with places.waiting("a", "x"), places.waiting("a", "y"), places.waiting("b", "x"):
        with places.waiting("b", "z"):
            pass
        with pytest.raises(Refused, match=r"the run c can't wait for the run y, .* hold 2 of 3") as refused:  # noqa: SIM117
            with places.waiting("c", "y"):
                pass
        assert "app.concurrency" in str(refused.value.allowed)
    with places.waiting("c", "x"), places.waiting("b", "x"):
        pass


def test_a_process_of_one_place_has_none_to_wait_in() -> None:
    """It would wait for itself."""
    with pytest.raises(Refused), Places(1).waiting("a", "x"):
        pass


def test_a_run_does_not_wait_for_itself() -> None:
    """It would do so for ever, however many places there are: it is refused, and says why."""
    with pytest.raises(Refused, match="the run a can't wait for its own end"), Places(9).waiting("a", "x", "a"):
        pass
