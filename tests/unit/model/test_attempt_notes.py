"""What is noted of an attempt while it runs, and what of that stays with its run."""

import pytest
from msgspec.structs import replace

from tests.unit.examples import a_definition, a_run
from tokimori.model.attempt_notes import NUMBER, Notes, details_after, is_inherited, notes_in, notes_row, shown_of
from tokimori.model.ids import RunId
from tokimori.model.run import Details, Output
from tokimori.model.transitions import ENDS, RunState

TOLD = Notes(attempt=1, progress=0.5, text="half", checkpoint="[1]")
PLAIN = a_definition()


def test_notes_are_an_output_that_no_attempt_has() -> None:
    """They come back as they were; of two the one of the later attempt is larger."""
    row = notes_row(RunId("run"), TOLD)
    assert (row.attempt, row.size) == (NUMBER, 1)
    assert notes_in(row, a_run()) == TOLD
    assert notes_row(RunId("run"), replace(TOLD, attempt=2)).size > row.size


@pytest.mark.parametrize(
    "row",
    [
        None,
        notes_row(RunId("run"), replace(TOLD, attempt=2)),
        Output(run_id=RunId("run"), attempt=0, size=1, head=b"x"),
    ],
    ids=["none", "another attempt's", "unreadable"],
)
def test_what_are_no_notes_of_the_attempt_is_none(row: Output | None) -> None:
    """Whatever lies there, the run is shown and goes on."""
    assert notes_in(row, a_run()) is None


def test_a_checkpoint_goes_to_the_next_attempt() -> None:
    """And stays until another one takes its place; a progress is that of the newest attempt alone."""
    kept = details_after(a_run(), PLAIN, TOLD, RunState.WAITING)
    assert kept == Details(progress=0.5, progress_text="half", checkpoint="[1]")
    silent = details_after(a_run(details=kept, attempt=2), PLAIN, None, RunState.READY)
    assert silent == Details(checkpoint="[1]")
    later = Notes(attempt=3, checkpoint="[2]")
    assert details_after(a_run(details=silent, attempt=3), PLAIN, later, RunState.READY) == Details(checkpoint="[2]")


@pytest.mark.parametrize("state", sorted(ENDS))
def test_a_checkpoint_ends_with_its_run(state: RunState) -> None:
    """Nobody needs it any more; how far the run was stays known."""
    assert details_after(a_run(), PLAIN, TOLD, state) == Details(progress=0.5, progress_text="half")
    assert details_after(a_run(details=Details(checkpoint="1")), PLAIN, None, state) == Details(progress_text="")


def test_nothing_is_written_where_nothing_changes() -> None:
    """Most runs tell nothing; and facts that another version wrote stay as they are."""
    assert details_after(a_run(), PLAIN, None, RunState.SUCCEEDED) is None
    assert details_after(a_run(details=Details(as_stored='{"new":1}')), PLAIN, TOLD, RunState.WAITING) is None


def test_what_the_attempt_got_counts_and_not_what_its_job_says_now() -> None:
    """Of a dead node's run the notes say it: the job may have been edited since."""
    edited = a_definition(payload="2")
    noted = Notes(attempt=1, payload="1")
    assert details_after(a_run(), edited, noted, RunState.READY) == Details(payload="1")
    assert shown_of(a_run(), noted).payload == "1"


def test_of_a_run_that_runs_its_own_attempt_is_shown() -> None:
    """Not how far an earlier one was, but what that has kept; of any other run what was noted last."""
    details = Details(progress=0.9, checkpoint="1")
    assert shown_of(a_run(details=details), None) == Details(checkpoint="1")
    assert shown_of(a_run(details=details), Notes(attempt=1, progress=0.1)) == Details(progress=0.1, checkpoint="1")
    assert shown_of(a_run(details=details, state=RunState.WAITING), None) == details


def test_what_a_parent_did_not_return_is_its_result_too() -> None:
    """The function behind it gets `None`, where a run that somebody else requested gets no argument."""
    assert is_inherited(a_run(origin="c:parent", payload=None))
    assert is_inherited(a_run(origin="m:again", details=Details(inherited=True)))
    assert not is_inherited(a_run(origin="m:one", payload="1"))
