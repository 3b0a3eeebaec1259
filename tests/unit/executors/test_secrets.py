"""Attempts get the values of the secrets that they name just before they begin, or do not begin."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tests.unit.examples import a_task, seconds
from tokimori.clock import Moment
from tokimori.errors import NotFound, Refused, StoreUnavailable
from tokimori.executors.secrets import PAUSE, SecretExecutor
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.outcome import Failed, Outcome, Released, Succeeded
from tokimori.model.parents import ParentRun
from tokimori.model.target import Command, Http, Noop, Target
from tokimori.model.transitions import RunState
from tokimori.ports.executor import AttemptTask, Ended, Report, StopReason
from tokimori.ports.secrets import OpenSecret
from tokimori.testing.manual import VirtualClock


class Inner:
    """An executor that remembers what it was given."""

    def __init__(self) -> None:
        self.tasks: list[AttemptTask] = []
        self.stopped: list[StopReason] = []
        self.report: Callable[[Report], None] = lambda _: None

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor`."""
        self.report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor`."""
        self.tasks += tasks

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor`."""
        self.stopped.append(reason)

    def renew(self, sent: float) -> None:
        """See `Executor`."""

    def forget(self, before: Moment) -> None:
        """See `Executor`."""

    async def close(self) -> None:
        """See `Executor`."""

    def end(self, outcome: Outcome) -> None:
        """The first attempt ends so."""
        task = self.tasks[0]
        self.report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=seconds(0)))


class Safe:
    """A vault with two secrets, which may be slow, or fail; it remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fault: Exception | None = None
        self.open_now = asyncio.Event()
        self.open_now.set()

    async def open(self, name: str) -> OpenSecret:
        """See `Vault`."""
        self.asked.append(name)
        await self.open_now.wait()
        if self.fault is not None:
            raise self.fault
        if name == "MISSING":
            raise NotFound("no secret 'MISSING': `tokimori secret set MISSING`")
        return OpenSecret(name=name, value=f"value of {name}", jobs=("web-",) if name == "WEB" else ())


class Site:
    """An executor of secrets, with what is behind it and what it tells."""

    def __init__(self) -> None:
        self.inner, self.safe = Inner(), Safe()
        self.told: list[Report] = []
        self.hidden: list[str] = []
        self.clock = VirtualClock(seconds(0))
        self.executor = SecretExecutor(self.inner, self.safe, self.parents, self.clock, self.hidden.extend)

    async def parents(self, ids: Sequence[RunId]) -> list[ParentRun]:
        """See `ReadParents`."""
        if self.safe.fault is not None:
            raise self.safe.fault
        return [ParentRun(id=each, job_id=JobId("p"), state=RunState.SUCCEEDED, result="7") for each in ids]

    def outcomes(self) -> list[Outcome]:
        """How attempts ended."""
        return [each.outcome for each in self.told if isinstance(each, Ended)]

    async def done(self) -> None:
        """All secrets were asked for."""
        while self.executor._opening:
            await asyncio.wait(self.executor._opening)


@pytest.fixture
async def site() -> Site:
    found = Site()
    await found.executor.open(found.told.append)
    return found


def task(target: Target, job: str = "web-1", run: str = "r") -> AttemptTask:
    """An attempt."""
    return a_task(target, run_id=RunId(run), job_id=JobId(job))


def naming(*names: str) -> Command:
    """A command that names these."""
    return Command(argv=("p", *(f"{{{{ secret.{name} }}}}" for name in names)))


async def test_values_come_with_the_task(site: Site) -> None:
    """Those that it names, and no others; its target still names them, and the log is told what to hide."""
    site.executor.start([task(naming("WEB", "ANY"))])
    await site.done()
    (begun,) = site.inner.tasks
    assert begun.secrets == {"ANY": "value of ANY", "WEB": "value of WEB"}
    assert begun.target == naming("WEB", "ANY")
    assert set(begun.hidden) == set(site.hidden) >= {"value of ANY", "value of WEB"}


async def test_what_names_none_begins_at_once(site: Site) -> None:
    """And nobody is asked; of several tasks each secret is asked for once."""
    site.executor.start([task(Noop()), task(naming("ANY"), run="a"), task(naming("ANY"), run="b")])
    assert [each.run_id for each in site.inner.tasks] == ["r"]
    await site.done()
    assert site.safe.asked == ["ANY"]
    assert [each.run_id for each in site.inner.tasks] == ["r", "a", "b"]


@pytest.mark.parametrize(
    ("name", "job", "why"), [("MISSING", "web-1", "no secret"), ("WEB", "mail-1", "for jobs web-")]
)
async def test_without_its_secrets_nothing_begins(site: Site, name: str, job: str, why: str) -> None:
    """One that is missing, or for other jobs: the attempt has failed, and its error names the command that mends it."""
    site.executor.start([task(naming("ANY", name), job)])
    await site.done()
    (outcome,) = site.outcomes()
    assert isinstance(outcome, Failed)
    assert why in outcome.error
    assert f"`tokimori secret set {name}" in outcome.error
    assert site.inner.tasks == []


async def test_without_a_key_nothing_begins(site: Site) -> None:
    """The error is what the vault says."""
    site.safe.fault = Refused("no key")
    site.executor.start([task(naming("ANY"))])
    await site.done()
    assert site.outcomes() == [Failed("no key")]


async def test_a_store_that_is_away_counts_for_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes back unpenalised, and not at once: this node would claim it again and again."""
    paused: list[float] = []

    async def rest(delay: float) -> None:
        paused.append(delay)

    monkeypatch.setattr(asyncio, "sleep", rest)
    site.safe.fault = StoreUnavailable("nobody answers")
    site.executor.start([task(naming("ANY"))])
    await site.done()
    (outcome,) = site.outcomes()
    assert isinstance(outcome, Released)
    assert paused == [PAUSE]


@pytest.mark.parametrize(("fault", "kind"), [(RuntimeError("can't start new thread"), Released), (KeyError(), Failed)])
async def test_whatever_the_vault_raises_the_run_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch, fault: Exception, kind: type[Outcome]
) -> None:
    """What this machine lacks for a while counts for nothing; a run of which nothing is told would run for ever."""
    monkeypatch.setattr("tokimori.executors.secrets.PAUSE", 0)
    site.safe.fault = fault
    site.executor.start([task(naming("WEB"))])
    await site.done()
    assert [type(each) for each in site.outcomes()] == [kind]
    assert type(fault).__name__ in str(site.outcomes())


@pytest.mark.parametrize("ends", [True, False])
async def test_what_waits_for_its_secrets_can_be_stopped(site: Site, ends: bool) -> None:
    """It is told as ended once, and does not begin; so too where the node closes."""
    site.safe.open_now.clear()
    site.executor.start([task(naming("ANY"))])
    await asyncio.sleep(0)
    if ends:
        site.executor.stop(RunId("r"), Token(1), StopReason.CANCEL)
        assert [type(each).__name__ for each in site.outcomes()] == ["Cancelled"]
    else:
        await site.executor.close()
        assert [type(each).__name__ for each in site.outcomes()] == ["Released"]
        await asyncio.wait_for(site.done(), 30)  # nothing is asked of a store that is to be closed
    site.safe.open_now.set()
    await site.done()
    assert (site.inner.tasks, site.inner.stopped, len(site.told)) == ([], [], 1)


async def test_what_is_told_of_it_shows_no_value(site: Site) -> None:
    """A result would be handed on to other jobs; what comes later of another attempt is as it is."""
    site.executor.start([task(naming("ANY"))])
    await site.done()
    site.inner.end(Succeeded(0, 'it is "value of ANY"'))
    site.inner.end(Succeeded(0, "value of ANY"))
    assert site.outcomes() == [Succeeded(0, 'it is "***"'), Succeeded(0, "value of ANY")]


async def test_orders_reach_what_has_begun(site: Site) -> None:
    """Once it has its secrets it is the executor's."""
    site.executor.start([task(naming("ANY"))])
    await site.done()
    site.executor.stop(RunId("r"), Token(1), StopReason.RELEASE)
    assert site.inner.stopped == [StopReason.RELEASE]


async def test_a_command_gets_the_results_of_its_parents(site: Site) -> None:
    """They are read before it starts; a request that names none, and a run without parents, are not held up."""
    command, request = Command(argv=("p",)), Http(url="http://a.example/{{ job_id }}")
    named = Http(url="http://a.example/", body="{{ parent.result }}")
    targets: list[Target] = [command, request, named]
    of_child = [replace(task(each, run=f"c{n}"), parents=(RunId("p"),)) for n, each in enumerate(targets)]
    site.executor.start([task(command), *of_child])
    assert [each.run_id for each in site.inner.tasks] == ["r", "c1"]
    await site.done()
    begun = {each.run_id: [parent.result for parent in each.parent_runs] for each in site.inner.tasks}
    assert begun == {"r": [], "c0": ["7"], "c1": [], "c2": ["7"]}


async def test_a_command_whose_parents_cannot_be_read_goes_back(site: Site) -> None:
    """The store is away: it may run later, or elsewhere."""
    site.safe.fault = StoreUnavailable("away")
    site.executor.start([replace(task(Command(argv=("p",))), parents=(RunId("p"),))])
    await site.done()
    (outcome,) = site.outcomes()
    assert isinstance(outcome, Released) and "away" in outcome.reason and site.inner.tasks == []
