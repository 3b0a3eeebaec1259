"""Spawn: a function that returns it waits for its runs without a place, and has their results as its own."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tokimori
from tests.integration.apps.conftest import until
from tests.integration.apps.test_families import SERVERS
from tokimori.apps.app import App
from tokimori.errors import RunFailed


class Trial:
    """An app, and its functions. Counts wait for the file `go`, if they are asked to."""

    def __init__(self, url: str, go: Path) -> None:
        self.app, self.go = App("spawn", url=url), go

        @self.app.job(max_running=0)
        def count(number: int, waits: bool = False) -> int:
            if number < 0:
                raise ValueError(f"{number} is negative")
            while waits and not go.exists():
                time.sleep(0.02)
            return number + 1

        @self.app.job(max_running=1, attempts=3)
        def fan(numbers: list[int], waits: bool = False) -> list[int]:
            return tokimori.spawn([count.request(each, waits) for each in numbers])

        @self.app.job(max_running=0)
        async def tree(depth: int) -> list[Any]:
            return tokimori.spawn([tree.request(depth - 1) for _ in range(2)]) if depth else []

        @self.app.job
        def wrapped() -> list[Any]:
            return [tokimori.spawn([count.request(1)])]

        @self.app.job
        def measure(text: str) -> int:
            return len(text)

        @self.app.job
        def measure_all(times: int, size: int) -> list[int]:
            return tokimori.spawn([measure.request("x" * size) for _ in range(times)])

        @self.app.job
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        self.measure_all = measure_all
        self.count, self.fan, self.tree, self.total, self.wrapped = count, fan, tree, total, wrapped
        self.astray = self._astray(url)

    def _astray(self, url: str) -> dict[str, Any]:
        """Return functions that spawn a run of another app's job."""

        @App("other", url=url).job(id="count")
        def another(number: int) -> int:
            return number

        def astray() -> list[int]:
            return tokimori.spawn([another.request(1)])

        async def astray_async() -> list[int]:
            return astray()

        def astray_at_once() -> None:
            tokimori.current_task().finish(astray())

        return {each.__name__: self.app.job(attempts=3)(each) for each in (astray, astray_async, astray_at_once)}


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.prove) for name in SERVERS)], scope="module")
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """One at work within this program."""
    folder, loans = tmp_path_factory.mktemp("spawn"), SERVERS.get(request.param)
    trial = Trial(f"sqlite://{folder}/t.db" if loans is None else loans.url_of(folder), folder / "go")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKIMORI_STATE_DIR", str(folder / "state"))
        with trial.app.running():
            yield trial
    trial.app.client.close()
    if loans is not None:
        loans.give_back(folder)


def test_the_results_are_one_list(trial: Trial) -> None:
    """In the order of the requests, for the waiter and for what follows; without requests it is empty."""
    handle = trial.fan.enqueue([3, 1, 2])
    assert handle.result(timeout=60) == [4, 2, 3]
    assert (handle.attempt, handle.run.spawned, handle.run.due) == (1, 3, handle.run.nominal)
    assert trial.fan.enqueue([]).result(timeout=60) == []
    assert trial.fan.request([1, 2]).then(trial.total.request()).enqueue().result(timeout=60) == 5
    assert trial.tree.enqueue(3).result(timeout=60) == [[[[], []], [[], []]], [[[], []], [[], []]]]


def test_it_waits_without_a_place(trial: Trial) -> None:
    """Its job runs one at a time: the next one runs while it waits, and `why` says for how many runs it does."""
    trial.go.unlink(missing_ok=True)
    client, handle = trial.app.client, trial.fan.enqueue([1, 2, 3], waits=True)
    until(lambda: handle.refresh().state == "waiting" and handle.run.spawned is not None)
    assert trial.fan.enqueue([1]).result(timeout=60) == [2]
    (reason,) = client.runs.why(handle.id).reasons
    assert reason.text == "it waits for 3 of the 3 runs that it has spawned" and len(reason.holders) == 3
    trial.go.touch()
    assert handle.result(timeout=60) == [2, 3, 4]


def test_a_failure_is_named_and_retried_by_hand(trial: Trial) -> None:
    """Once all have ended; it is not tried again by itself, and by hand it spawns a new generation, once."""
    handle = trial.fan.enqueue([1, -1])
    with pytest.raises(tokimori.RunFailed, match=r"1 of the 2 runs .* run .* of count failed: .*-1"):
        handle.result(timeout=60)
    again = trial.app.handle(trial.app.client.runs.retry(handle.id).id)
    with pytest.raises(tokimori.RunFailed, match="-1 is negative"):
        again.result(timeout=60)
    runs = trial.app.client.runs.list(job_id="count").runs
    assert [sum(run.parent_id == each.id for run in runs) for each in (handle, again)] == [2, 2]


def test_children_are_cancelled_if_asked(trial: Trial) -> None:
    """A run that is cancelled leaves what it has spawned alone, or takes it along."""
    trial.go.unlink(missing_ok=True)
    client = trial.app.client
    for family in (False, True):
        handle = trial.fan.enqueue([1, 2], waits=True)
        until(lambda handle=handle: handle.refresh().run.spawned is not None)  # type: ignore[misc]
        assert handle.cancel("enough", family=family).state == "cancelled"
        own = [run.id for run in client.runs.list(job_id="count").runs if run.parent_id == handle.id]
        if not family:
            assert {client.runs.get(each).cancel for each in own} == {None}
            trial.go.touch()
        until(lambda own=own: all(client.runs.get(each).ended for each in own))  # type: ignore[misc]
        trial.go.unlink(missing_ok=True)
        assert {client.runs.get(each).state for each in own} == {"cancelled" if family else "succeeded"}


def test_what_cannot_be_spawned_is_refused(trial: Trial) -> None:
    """Terms of a request, families, too many at once, and one that is only a part of what a function returns."""
    with pytest.raises(tokimori.InvalidInput, match="the terms of its job"):
        tokimori.spawn([trial.count.asked(priority=3).request(1)])
    with pytest.raises(tokimori.InvalidInput, match="can't be spawned"):
        tokimori.spawn([trial.count.request(1).then(trial.count.request())])  # type: ignore[arg-type]
    with pytest.raises(tokimori.RunFailed, match=r"10001 runs .allowed: at least one run, at most 10000"):
        trial.fan.enqueue([1] * 10_001).result(timeout=60)
    with pytest.raises(tokimori.RunFailed, match="type SpawnsOfFunctions can't be written as JSON"):
        trial.wrapped.enqueue().result(timeout=60)


@pytest.mark.prove
@pytest.mark.parametrize("count", [501, 10_000])
def test_many_are_spawned(trial: Trial, count: int) -> None:
    """The result is whole and in order, and why names some of those that have not ended."""
    trial.go.unlink(missing_ok=True)
    handle = trial.fan.enqueue(list(range(count)), waits=True)
    until(lambda: handle.refresh().run.spawned is not None)
    (reason,) = trial.app.client.runs.why(handle.id).reasons
    assert f"of the {count} runs that it has spawned" in reason.text and len(reason.holders) == 3
    trial.go.touch()
    assert handle.result(timeout=500) == list(range(1, count + 1))


def test_large_arguments_are_spawned(trial: Trial) -> None:
    """Three MiB of them: a worker process may say so much at once."""
    handle = trial.measure_all.enqueue(6, 500_000)
    assert handle.result(timeout=60) == [500_000] * 6


@pytest.mark.parametrize("name", ["astray", "astray_async", "astray_at_once"])
def test_a_job_of_another_app_is_not_spawned(trial: Trial, name: str) -> None:
    """Its runs would be carried out by that app's code: the function fails for good, and says whose job it is."""
    trial.count.enqueue(1).result(timeout=60)
    with pytest.raises(RunFailed, match=r"spawn: the job 'count' is that of the app 'spawn', whose code .*another id"):
        trial.astray[name].enqueue().result(timeout=60)
