"""What a node has in hand: the notes of the attempts that run."""

from typing import Any

from msgspec.structs import replace

from tests.unit.engine.test_work import ME, claimed, ended, working
from tests.unit.examples import NEW_YEAR, a_definition, seconds
from tokimori.engine.work import Work, task_of
from tokimori.model.attempt_notes import Notes, notes_row
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Released
from tokimori.model.run import Details
from tokimori.ports.executor import Noted, Started


def noted(name: str, **said: Any) -> Noted:
    """The report of what an attempt told of itself."""
    return Noted(run_id=RunId(name), token=Token(1), notes=Notes(attempt=1, **said))


def test_what_is_noted_is_saved_and_goes_with_the_end() -> None:
    """While it runs the store gets the newest; the end brings it even if the store never got it."""
    work = working("a")
    for progress in (0.1, 0.2):
        work.take(noted("a", progress=progress), ME, 0)
    assert work.take_outputs() == [notes_row(RunId("a"), Notes(attempt=1, progress=0.2))]
    assert work.take_outputs() == []
    work.take(noted("a", checkpoint="1"), ME, 0)
    work.take(replace(ended("a"), outcome=Released("stop")), ME, 0)
    assert not work.has_outputs
    (change,) = work.unsettled.batch(0)
    assert change.details == Details(checkpoint="1", begun=change.started)


def test_notes_that_the_store_did_not_take_are_saved_again() -> None:
    """A function that has kept something may tell nothing more."""
    work = working("a")
    work.take(noted("a", checkpoint="1"), ME, 0)
    taken = work.take_outputs()
    work.not_saved()
    assert work.take_outputs() == taken


def test_the_payload_of_its_job_is_noted_of_a_run_that_lasts() -> None:
    """Once the store knows of its process; nothing is written of one that has ended by then, or has its own."""
    work = Work(10)
    with_payload = a_definition(payload="1")
    runs = [claimed("lasts", with_payload), claimed("ends", with_payload), claimed("own", with_payload, payload="2")]
    work.accept(runs, ME, NEW_YEAR)
    assert [task.payload for task in work.next_tasks()] == ["1", "1", "2"]
    for name in ("lasts", "ends", "own"):
        work.take(Started(run_id=RunId(name), token=Token(1), pid=1, at=seconds(1)), ME, 0)
    started = work.started()
    work.take(ended("ends"), ME, 0)
    work.note_reported(started)
    assert work.take_outputs() == [notes_row(RunId("lasts"), Notes(attempt=1, payload="1"))]
    work.take(noted("lasts", progress=0.5), ME, 0)
    assert work.take_outputs() == [notes_row(RunId("lasts"), Notes(attempt=1, payload="1", progress=0.5))]


def test_the_next_attempt_gets_what_was_kept() -> None:
    """Its task has the checkpoint."""
    task = task_of(claimed("a", details=Details(checkpoint="[1]")))
    assert task is not None
    assert task.checkpoint == "[1]"
