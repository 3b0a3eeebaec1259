"""The digest of what was copied."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import Moment
from tokimori.model.ids import Incarnation, JobId
from tokimori.model.run import Skip, SkipReason
from tokimori.ports.copying import Arrival, DeletedSkip, JobSkip, PrunedCount
from tokimori.service.copying import CopyTally, Row

moments = st.integers(0, 2**52).map(Moment)
skips = st.builds(Skip, first=moments, last=moments, count=st.integers(1, 9), reason=st.sampled_from(SkipReason))
incarnations = st.integers(1, 2**62).map(Incarnation)
rows: st.SearchStrategy[list[Row]] = st.lists(
    st.builds(JobSkip, job_id=st.text().map(JobId), incarnation=incarnations, skip=skips)
    | st.builds(DeletedSkip, incarnation=incarnations, skip=skips)
    | st.builds(
        PrunedCount,
        job_id=st.text().map(JobId),
        incarnation=incarnations,
        day=moments,
        outcome=st.text(),
        count=st.integers(1, 9),
    )
    | st.builds(Arrival, incarnation=incarnations, root=st.text(), parents=st.lists(st.text()).map(tuple))
)


def tally_of(*pages: list[Row]) -> tuple[int, str]:
    """How many rows, and their digest."""
    tally = CopyTally()
    for page in pages:
        tally.add(page)
    return tally.rows, tally.digest


@given(rows, st.integers(0, 20))
def test_pages_leave_no_trace(all_rows: list[Row], cut: int) -> None:
    """The digest does not depend on how the rows are cut into pages."""
    assert tally_of(all_rows[:cut], all_rows[cut:]) == tally_of(all_rows)


@given(rows, rows)
def test_a_digest_tells_rows_apart(ours: list[Row], theirs: list[Row]) -> None:
    """Two digests are the same if and only if all rows are, in their order."""
    assert (tally_of(ours) == tally_of(theirs)) is (ours == theirs)


@given(rows, st.data())
def test_a_lost_row_is_noticed(all_rows: list[Row], data: st.DataObject) -> None:
    """Without one of its rows, or with one twice, a store has another digest."""
    if all_rows:
        place = data.draw(st.integers(0, len(all_rows) - 1))
        assert tally_of(all_rows[:place], all_rows[place + 1 :]) != tally_of(all_rows)
        assert tally_of(all_rows[: place + 1], all_rows[place:]) != tally_of(all_rows)
