"""What a program holds, without a store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.errors import InvalidInput, PermitLost, Refused
from tokimori.locks.holdings import POLL, Held, Holdings, Wanted, pauses
from tokimori.model.ids import NodeId, PermitId


def held(name: str = "table", weight: int = 1, **more: object) -> Held:
    """Units in somebody's hands."""
    wanted = Wanted(name=name, weight=weight)
    return Held(wanted, 7, node=NodeId("node"), permit=PermitId("permit"), **more)  # type: ignore[arg-type]


def test_an_owner_takes_again_what_it_holds() -> None:
    """The same units, as often as it likes; they are given back with the last of them."""
    holdings = Holdings()
    assert holdings.enter("ada", Wanted(name="table")) is None
    holdings.add("ada", first := held())
    assert holdings.enter("ada", Wanted(name="table")) is first
    assert holdings.leave("ada", "table").depth == 1
    assert holdings.leave("ada", "table").depth == 0
    assert holdings.enter("ada", Wanted(name="table")) is None


def test_what_one_owner_holds_is_nothing_to_another() -> None:
    """Neither another thread nor another semaphore is entered by it."""
    holdings = Holdings()
    holdings.add("ada", held())
    assert holdings.enter("bob", Wanted(name="table")) is None
    assert holdings.enter("ada", Wanted(name="chair")) is None
    with pytest.raises(Refused, match="holds nothing of 'table'"):
        holdings.leave("bob", "table")


def test_nobody_waits_for_itself() -> None:
    """More units than are held can't be had on top of them: it would never end."""
    holdings = Holdings()
    holdings.add("ada", held(weight=2))
    assert holdings.enter("ada", Wanted(name="table", weight=2)) is not None
    with pytest.raises(Refused) as refusal:
        holdings.enter("ada", Wanted(name="table", weight=3))
    assert (refusal.value.field, refusal.value.value, refusal.value.allowed) == ("weight", 3, "at most 2")


def test_lost_is_lost_for_good() -> None:
    """Whoever was told once that others may hold it is not told otherwise later, and does not enter it again."""
    doubt = [True]
    found = held(doubtful=lambda: doubt[0])
    assert found.lost
    doubt[0] = False
    assert found.lost
    holdings = Holdings()
    holdings.add("ada", found)
    with pytest.raises(PermitLost, match="token 7"):
        holdings.enter("ada", Wanted(name="table"))


def test_doubt_that_nobody_saw_is_not_loss() -> None:
    """A lease that was renewed before anybody looked has lost nothing."""
    assert not held(doubtful=lambda: False).lost


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (Wanted(name=""), "semaphore"),
        (Wanted(name="a b"), "semaphore"),
        (Wanted(name="a", weight=0), "weight"),
        (Wanted(name="a", limit=0), "limit"),
        (Wanted(name="a", limit=1_000_001), "limit"),
        (Wanted(name="a", wait=-1), "wait"),
        (Wanted(name="a", wait=float("nan")), "wait"),
    ],
)
def test_what_can_never_be_had_is_refused(wanted: Wanted, field: str) -> None:
    """Bad input is named, with what is allowed."""
    with pytest.raises(InvalidInput) as refusal:
        wanted.check()
    assert refusal.value.field == field
    assert refusal.value.allowed


@given(st.integers(0, 10_000))
def test_who_stands_further_behind_asks_less_often(ahead: int) -> None:
    """The next in line asks at once when something changes; nobody waits longer than the poll, however far behind."""
    least, most = pauses(ahead)
    assert 0 <= least <= most == POLL
    assert pauses(0)[0] == 0
    assert least <= pauses(ahead + 1)[0]
