"""Who gets keepers killed."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.model.ids import JobId, RunId
from tokimori.model.suspicion import (
    CLEARED_AFTER,
    COMMON,
    LONGEST_PAUSE,
    MOST_CELLS,
    MOST_KNOWN,
    SUSPECT_FROM,
    Judgement,
    Suspicion,
    after_death,
    after_end,
    pause_after,
)

BAD = JobId("bad")
NEW = Suspicion()


def run_of(job: str) -> RunId:
    """The run of a job that has but one."""
    return RunId(f"run of {job}")


def died(known: Suspicion, names: Iterable[str]) -> Judgement:
    """A keeper died that had a run of each of these jobs."""
    return after_death(known, {run_of(name): JobId(name) for name in names})


def after_deaths(count: int, *names: str) -> Suspicion:
    """What is known when so many keepers died with the same jobs."""
    known = NEW
    for _ in range(count):
        known = died(known, names).suspicion
    return known


def cells(known: Suspicion, *names: str) -> list[int]:
    """Where these jobs run."""
    return [known.cell_of(JobId(name)) for name in names]


def test_a_death_that_several_share_counts_against_none() -> None:
    """Nobody knows yet who it was: all run on in the common keeper."""
    judged = died(NEW, ["bad", "good"])
    assert (judged.counts, judged.suspects, judged.culprit) == ({run_of("bad"): 0, run_of("good"): 0}, (), None)
    assert cells(judged.suspicion, "bad", "good", "other") == [COMMON, COMMON, COMMON]


def test_what_ran_at_three_deaths_runs_alone() -> None:
    """Each of the suspects gets a cell of its own; who came later stays where it is."""
    judged = died(after_deaths(2, "a", "b"), ["a", "b", "late"])
    assert judged.suspects == ("a", "b")
    assert cells(judged.suspicion, "a", "b", "late") == [1, 2, COMMON]


def test_the_culprit_answers_for_all_that_it_shared() -> None:
    """Alone in its cell it used up what it shared before, so that its budget of lost attempts is exact."""
    judged = died(after_deaths(3, "bad", "good"), ["bad"])
    assert (judged.culprit, judged.counts) == (BAD, {run_of("bad"): 4})
    assert died(judged.suspicion, ["bad"]).counts == {run_of("bad"): 1}


def test_the_innocent_are_cleared_when_the_culprit_is_found() -> None:
    """They run with all others again, and have lost nothing of their budget; the culprit stays apart."""
    known = died(after_deaths(3, "bad", "good"), ["bad"]).suspicion
    assert known.cell_of(BAD) != COMMON
    assert cells(known, "good") == [COMMON]
    assert died(known, ["good"]).counts == {run_of("good"): 1}


def test_two_culprits_are_found_one_after_the_other() -> None:
    """One that was proved stays so when another is: nobody meets it again."""
    known = died(after_deaths(3, "bad", "good"), ["bad"]).suspicion
    for _ in range(3):
        known = died(known, ["good", "worse"]).suspicion
    known = died(known, ["worse"]).suspicion
    assert COMMON not in cells(known, "bad", "worse")
    assert cells(known, "good") == [COMMON]


def test_who_runs_alone_answers_at_once() -> None:
    """In the common keeper, too, a death with one job counts; but it clears nobody, as it may have been chance."""
    known = after_deaths(2, "good", "other")
    judged = died(known, ["bad"])
    assert (judged.culprit, judged.counts, judged.suspects) == (BAD, {run_of("bad"): 1}, ())
    assert died(judged.suspicion, ["good", "other"]).suspects == ("good", "other")


def test_many_suspects_are_spread_over_few_cells() -> None:
    """There are never many keepers for one death; a cell that dies again is spread again, until one job is left."""
    names = [f"job-{number:02}" for number in range(50)]
    judged = died(after_deaths(2, *names), names)
    found = cells(judged.suspicion, *names)
    assert set(found) == set(range(1, MOST_CELLS + 1))
    together = [name for name, cell in zip(names, found, strict=True) if cell == 1]
    judged = died(judged.suspicion, together)
    assert judged.culprit is None
    alone = cells(judged.suspicion, *together)
    assert len(set(alone)) == len(together)
    assert not set(alone) & set(found), "cells are not given out twice"


def test_runs_of_one_job_share_a_cell() -> None:
    """It is jobs that get keepers killed: two runs of one, alone in a keeper, answer for it both."""
    present = {RunId("1"): BAD, RunId("2"): BAD}
    assert after_death(NEW, present).counts == {RunId("1"): 1, RunId("2"): 1}
    assert after_death(after_deaths(2, "bad"), present).suspicion.cell_of(BAD) == 1


def test_a_suspect_that_ends_well_is_cleared() -> None:
    """After three ends in a row it runs with all others again; a death between begins the count again."""
    known = after_deaths(SUSPECT_FROM, "a", "b")
    known = died(after_end(after_end(known, JobId("a"), RunId("1")), JobId("a"), RunId("2")), ["a"]).suspicion
    for number in range(CLEARED_AFTER):
        assert known.cell_of(JobId("a")) != COMMON
        known = after_end(known, JobId("a"), RunId(str(number)))
    assert known.cell_of(JobId("a")) == COMMON
    assert died(known, ["a", "c"]).suspects == ()


def test_a_run_that_ends_owes_nothing() -> None:
    """What a run shared is forgotten with its end, whatever its job does next."""
    known = after_end(after_deaths(2, "a", "b"), JobId("a"), run_of("a"))
    assert died(known, ["a"]).counts == {run_of("a"): 1}
    assert died(known, ["b"]).counts == {run_of("b"): 3}


def test_one_that_is_not_suspect_is_not_cleared_by_its_ends() -> None:
    """A job that gets its keeper killed now and then is found all the same."""
    known = NEW
    for _ in range(SUSPECT_FROM):
        for number in range(10):
            known = after_end(known, BAD, RunId(str(number)))
        known = died(known, ["bad", f"other-{known.jobs.keys()}"]).suspicion
    assert known.cell_of(BAD) != COMMON


def test_an_end_of_somebody_unknown_costs_nothing() -> None:
    """Nearly all ends are such: nothing is made anew."""
    assert after_end(NEW, BAD, run_of("bad")) is NEW


def test_the_memory_has_an_end() -> None:
    """Of more jobs and runs than a bound the oldest are forgotten."""
    known = died(NEW, [f"old-{number}" for number in range(MOST_KNOWN)]).suspicion
    known = died(known, ["new", "newer"]).suspicion
    assert len(known.jobs) == len(known.shared) == MOST_KNOWN
    assert {"new", "newer"} <= set(known.jobs)


@pytest.mark.parametrize(("deaths", "pause"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (6, 16), (7, 30), (10**6, 30)])
def test_the_pause_grows_to_a_bound(deaths: int, pause: float) -> None:
    """One death costs nobody time; where they go on, keepers start ever more seldom."""
    assert pause_after(deaths) == pause <= LONGEST_PAUSE


def test_a_cell_starts_after_a_pause() -> None:
    """The keeper of a suspect waits the longer the more died; not where the suspect has ended by itself since."""
    known = after_deaths(SUSPECT_FROM, "a", "b")
    assert (known.pause_of(JobId("a")), known.pause_of(JobId("c"))) == (pause_after(SUSPECT_FROM), 0)
    assert after_end(known, JobId("a"), RunId("1")).pause_of(JobId("a")) == 0


@given(st.integers(1, 200), st.data())
def test_the_culprit_is_always_found(size: int, data: st.DataObject) -> None:
    """Among any number of neighbours one that kills every keeper is alone after a few deaths; no other is to blame."""
    names = [f"job-{number}" for number in range(size)]
    bad = data.draw(st.sampled_from(names))
    judged, deaths = Judgement(suspicion=NEW, counts={}, suspects=(), culprit=None), 0
    while judged.culprit is None:
        assert not any(judged.counts.values())
        known = judged.suspicion
        beside = [name for name in names if known.cell_of(JobId(name)) == known.cell_of(JobId(bad))]
        judged, deaths = died(known, beside), deaths + 1
    assert (judged.culprit, judged.counts) == (bad, {run_of(bad): deaths})
    assert deaths <= SUSPECT_FROM + 4
