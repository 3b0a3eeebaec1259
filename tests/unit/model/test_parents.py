"""Results of parents: what a run is given of them, as texts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import a_run
from tokimori.model.ids import JobId, RunId
from tokimori.model.parents import MOST_RESULTS, ParentRun, facts_of_parents, parents_in, text_of
from tokimori.model.transitions import RunState


def parent(job: str, result: str | None, run: str = "r") -> ParentRun:
    """A parent that has ended."""
    return ParentRun(id=RunId(run), job_id=JobId(job), state=RunState.SUCCEEDED, result=result)


def test_the_result_of_the_only_parent_is_a_text_as_it_is() -> None:
    """A text of a command that is no JSON stays so; without a result there is none."""
    assert text_of([parent("a", "no json")], joined="") == "no json"
    assert text_of([parent("a", None)], joined="") is None
    assert text_of([], joined="") is None


def test_a_join_gets_an_object_by_job() -> None:
    """What is no JSON becomes a string, no result null, and of two runs of a job the newest counts."""
    parents = [parent("a", "1"), parent("a", "2"), parent("b", "NaN"), parent("c", None)]
    assert json.loads(text_of(parents, joined="jobs") or "") == {"a": 2, "b": "NaN", "c": None}


def test_results_beyond_the_bound_are_named() -> None:
    """The first results up to 1 MiB are given; of a further one its run, and the command that shows it."""
    large = json.dumps("x" * 65_000)
    runs = [a_run(id=RunId(f"{n}"), job_id=JobId(f"j{n}"), result=large) for n in range(20)]
    found = parents_in(runs)
    assert [each.result == large for each in found] == [n < MOST_RESULTS // len(large) for n in range(20)]
    last = json.loads(text_of(found, joined="jobs") or "")["j19"]
    assert last == {"run": "19", "read": "tokimori run show 19"}


@pytest.mark.parametrize(
    ("result", "plain", "as_json"),
    [('"say \\"hi\\""', 'say "hi"', '"say \\"hi\\""'), ("7", "7", "7"), (None, "", "null"), ("a b", "a b", '"a b"')],
)
def test_templates_get_a_plain_text_and_json(result: str | None, plain: str, as_json: str) -> None:
    """A string is written without its quotes where no JSON is asked for."""
    facts = facts_of_parents([parent("a.b", result)], joined="")
    assert {facts["parent.result"], facts["parent.a.b.result"]} == {plain}
    assert {facts["parent_json.result"], facts["parent_json.a.b.result"]} == {as_json}


@given(st.text() | st.none())
def test_any_result_becomes_json(result: str | None) -> None:
    """Whatever a command has reported."""
    json.loads(text_of([parent("a", result)], joined="jobs") or "")
    json.loads(facts_of_parents([parent("a", result)], joined="")["parent_json.result"])


def test_runs_that_were_requested_together_give_a_list() -> None:
    """In the order of their ids, whatever their jobs; what gave no result is null."""
    parents = [parent("a", "1"), parent("a", None), parent("b", "x")]
    assert json.loads(text_of(parents, joined="runs") or "") == [1, None, "x"]
