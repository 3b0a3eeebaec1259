"""Families of single runs: requested at once, each run gets the results of those before it."""

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import tokimori
from tests.integration.apps.conftest import until
from tests.servers import mariadb, postgres, redis
from tokimori.apps.app import App

SERVERS: dict[str, Any] = {"postgres": postgres.loans, "mariadb": mariadb.loans, "redis": redis.loans}


class Trial:
    """An app, and its functions."""

    def __init__(self, url: str) -> None:
        self.app = app = App("family", url=url)

        @app.job(max_running=0)
        def add(number: int) -> int:
            if number < 0:
                raise ValueError(f"{number} is negative")
            return number + 1

        @app.job
        async def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.job
        def note() -> str:
            return str([each.state for each in tokimori.current_task().parents()])

        self.add, self.total, self.note = add, total, note


@pytest.fixture(params=["sqlite", *SERVERS], scope="module")
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One at work within this program."""
    folder, loans = tmp_path_factory.mktemp("families"), SERVERS.get(request.param)
    trial = Trial(f"sqlite://{folder}/t.db" if loans is None else loans.url_of(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKIMORI_STATE_DIR", str(folder / "state"))
        with trial.app.running():
            yield trial
    trial.app.client.close()
    if loans is not None:
        loans.give_back(folder)


def test_a_chain_hands_its_results_on(trial: Trial) -> None:
    """Each run gets the result of the one before it; there is a handle for each, also before it is made."""
    handles = trial.add.request(1).then(trial.add.request()).then(trial.add.request()).enqueue()
    assert handles.result(timeout=60) == 4
    assert [each.result(timeout=20) for each in handles] == [2, 3, 4]
    assert {each.job_id for each in handles} == {"add"} and {each.state for each in handles} == {"succeeded"}


async def test_a_join_gets_all_results_in_order(trial: Trial) -> None:
    """The run behind many is made once, when all have succeeded, and gets the list; what follows it goes on."""
    many = tokimori.all([trial.add.request(n) for n in range(9)])
    handles = await many.then(trial.total.request()).then(trial.add.request()).aenqueue()
    assert await handles.aresult(timeout=60) == 46
    assert (await handles[-2].arefresh()).run.state == "succeeded" and len(handles) == 11
    mixed = tokimori.all([trial.add.request(1).then(trial.add.request()), trial.total.request([4, 5])])
    assert await (await mixed.aenqueue()).aresult(timeout=60) == [3, 9]
    assert await (await mixed.then(trial.total.request()).aenqueue()).aresult(timeout=60) == 12


def test_a_join_that_is_repeated_gets_the_same_list(trial: Trial) -> None:
    """By hand, and once more: also a run that failed, as its results are read anew."""
    handles = tokimori.all([trial.add.request(n) for n in range(3)]).then(trial.total.request()).enqueue()
    assert handles.result(timeout=60) == 6
    again = trial.app.client.runs.retry(handles[-1].id)
    assert trial.app.handle(again.id).result(timeout=60) == 6
    once_more = trial.app.client.runs.retry(again.id)
    assert trial.app.handle(once_more.id).result(timeout=60) == 6


def test_a_failure_has_its_run_and_the_others_are_left_out(trial: Trial) -> None:
    """The run for a failure is made once, however many fail; what would have followed is skipped, and says why."""
    bad = tokimori.all([trial.add.request(n) for n in (-1, 1, -2)]).then(trial.total.request())
    handles = bad.on_failure(trial.note.request()).enqueue()
    assert handles[-1].result(timeout=60) == "['failed']"
    with pytest.raises(tokimori.RunFailed, match="is negative"):
        handles.result(timeout=60)
    assert handles[3].state == "skipped"
    good = trial.add.request(1).on_failure(trial.note.request()).enqueue()
    assert good.result(timeout=60) == 2
    with pytest.raises(tokimori.RunFailed):
        good[1].result(timeout=60)
    assert good[1].state == "skipped"


def test_what_follows_a_failed_run_follows_its_retry(trial: Trial) -> None:
    """By hand: and a run that has succeeded and is repeated has a new generation of followers."""
    client, handles = trial.app.client, trial.add.request(-1).then(trial.note.request()).enqueue()
    with pytest.raises(tokimori.RunFailed):
        handles.result(timeout=60)
    again = client.runs.retry(handles[0].id)
    assert [step.id for step in again.then] == [handles[1].id]
    good = trial.add.request(1).then(trial.add.request()).enqueue()
    assert good.result(timeout=60) == 3
    (step,) = client.runs.retry(good[0].id).then
    assert step.id != good[1].id
    until(lambda: any(run.id == step.id for run in client.runs.list(job_id="add").runs))
    assert trial.app.handle(step.id).result(timeout=60) == 3


def test_a_family_that_cannot_be_is_refused(trial: Trial) -> None:
    """Arguments that do not fit, terms that a follower can't have, and none at all."""
    with pytest.raises(tokimori.InvalidInput, match="missing required"):
        trial.add.request().then(trial.add.request()).enqueue()
    with pytest.raises(tokimori.InvalidInput, match="the terms of its job"):
        trial.add.request(1).then(trial.add.asked(priority=3).request(1)).enqueue()
    with pytest.raises(tokimori.InvalidInput, match="can't share a key"):
        trial.add.asked(key="k").request(1).then(trial.add.request()).enqueue()
    with pytest.raises(tokimori.InvalidInput):
        tokimori.all([])


def test_a_family_is_cancelled_together(trial: Trial) -> None:
    """Those of its runs that are made end, and what would have followed them is left out."""
    first = trial.total.after("1h")
    handles = tokimori.all([first.request([1]), first.request([2])]).then(trial.total.request()).enqueue()
    assert [each.state for each in handles] == ["waiting"] * 3
    handles.cancel("enough")
    assert [each.refresh().state for each in handles[:2]] == ["cancelled"] * 2
    assert handles[2].state == "skipped"


def test_a_run_that_is_not_made_yet_can_be_refreshed(trial: Trial) -> None:
    """Its handle says that it is waiting, or skipped: it is not unknown."""
    handles = trial.total.after("1h").request([1]).then(trial.total.request()).enqueue()
    later = handles[1]
    assert later.refresh().state == "waiting"
    with pytest.raises(tokimori.NotFound, match="is not made: it is waiting"):
        later.run  # noqa: B018
    assert (later.job_id, later.attempt, later.started, later.ended, later.error) == ("total", 0, None, None, None)
    assert asyncio.run(read(later)) == "waiting"
    handles[0].cancel()
    assert asyncio.run(read(later)) == "skipped"
    assert later.fresh_state == "skipped"


async def read(handle: tokimori.Handle[int]) -> str:
    """Read a run on an event loop, which a blocking call would warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return (await handle.arefresh()).state


def test_what_is_no_request_is_refused_in_words(trial: Trial) -> None:
    """A function, a run that was asked for already, a number."""
    wrong: list[Any] = [trial.add, trial.add.enqueue(1), 1]
    for each in wrong:
        for make in (trial.add.request(1).then, trial.add.request(1).on_failure, lambda it: tokimori.all([it])):
            with pytest.raises(tokimori.InvalidInput, match="is no request"):
                make(each)
