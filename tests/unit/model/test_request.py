"""Requests that share a key with others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_definition, a_job, seconds
from tokimori.model.ids import Lane, RunId
from tokimori.model.lanes import lane_of
from tokimori.model.request import PLAIN, Manner, answers, never_started, put_off, shared_origin, shared_prefix
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState

KEYS = st.text("ab 1:ä-", min_size=1, max_size=6)
ONE, OTHER = (RunId(f"019b0000-0000-7000-8000-00000000000{n}") for n in (1, 2))
WAITS = {RunState.WAITING, RunState.READY, RunState.BLOCKED}


def a_run(key: str = "key", run_id: RunId = ONE, **changes: object) -> Run:
    """A run that shares its key."""
    job = a_job(a_definition())
    values = {
        "id": run_id,
        "job_id": job.id,
        "incarnation": job.incarnation,
        "origin": shared_origin(key, run_id),
        "nominal": NEW_YEAR,
        "due": NEW_YEAR,
        "state": RunState.READY,
        "priority": 0,
        "rank": 0,
        "lane": lane_of(job.definition),
        "created": NEW_YEAR,
    }
    return Run(**{**values, **changes})  # type: ignore[arg-type]


@given(KEYS, KEYS)
def test_origins_of_a_key_have_a_prefix_of_their_own(key: str, other: str) -> None:
    """All runs of a key, and only those, are found by how their origins begin; among them ids are in order."""
    one, second, foreign = a_run(key), a_run(key, OTHER), a_run(other, OTHER)
    assert one.origin < second.origin < f"{shared_prefix(one)}g"
    assert foreign.origin.startswith(shared_prefix(one)) == (key == other)


def test_the_longest_key_fits() -> None:
    """An origin has at most the 300 characters that a store gives it."""
    assert len(shared_origin("k" * 255, ONE)) <= 300


@pytest.mark.parametrize(("since", "answered"), [(None, False), (-1, True), (0, False), (1, False)])
def test_what_was_asked_for_lately_answers(since: int | None, answered: bool) -> None:
    """A throttle is answered by a run made after its moment, and nothing else is."""
    manner = Manner(since=None if since is None else seconds(since))
    assert answers(a_run(), a_run(created=seconds(5)), manner) is answered
    assert not answers(a_run(created=seconds(99)), a_run(), manner)
    assert manner.shares_key is (since is not None)
    assert Manner(replaces=True).shares_key
    assert not PLAIN.shares_key


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("attempt", [0, 1])
def test_what_has_never_started(state: RunState, attempt: int) -> None:
    """No attempt was begun, it has not ended, and nobody holds it."""
    assert never_started(a_run(state=state, attempt=attempt)) is (state in WAITS and not attempt)
    assert not (WAITS & ENDS)


@pytest.mark.parametrize("state", sorted(WAITS))
def test_a_run_that_is_put_off_stays_the_same_run(state: RunState) -> None:
    """It waits with moment, payload, priority and rank of the later request, and keeps all else."""
    asked = a_run(run_id=OTHER, due=seconds(5), nominal=seconds(5), payload="p", priority=3, rank=7, created=seconds(1))
    after = put_off(a_run(state=state), asked, Lane("q||"))
    assert (after.state, after.due, after.nominal, after.payload) == (RunState.WAITING, seconds(5), seconds(5), "p")
    assert (after.priority, after.rank, after.lane) == (3, 7, "q||")
    assert (after.id, after.origin, after.created) == (ONE, a_run().origin, NEW_YEAR)
