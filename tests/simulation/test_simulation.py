"""Seeded simulations: whatever happens to a cluster, its promises hold."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import pytest

from tests.simulation.checker import faults_of
from tests.simulation.cluster import JOBS, KINDS, SECONDS, Cluster
from tests.simulation.virtual_time import Stuck, run_virtually
from tests.unit.examples import a_definition
from tokimori.model import decide, lease
from tokimori.model.job import Definition
from tokimori.model.policies import Misfire

Jobs = Mapping[str, Definition]
pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def quiet() -> Iterator[None]:
    """A cluster in trouble has much to say."""
    logger = logging.getLogger("tokimori")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def faults(seed: int, kinds: Sequence[str] = KINDS, *, jobs: Jobs = JOBS, seconds: float = SECONDS) -> list[str]:
    """What is wrong after this seed with these kinds of trouble."""

    async def live() -> list[str]:
        cluster = Cluster(seed, jobs, seconds)
        rested = await cluster.live(kinds)
        found = await faults_of(cluster)
        return found if rested else ["it finds no rest", *found]

    try:
        return run_virtually(live())
    except Stuck as stuck:
        return [str(stuck)]


def shrunk(seed: int) -> tuple[str, ...]:
    """The fewest kinds of trouble with which the seed still fails, found by leaving out one after the other."""
    kinds = list(KINDS)
    for kind in KINDS:
        fewer = [other for other in kinds if other != kind]
        if faults(seed, fewer):
            kinds = fewer
    return tuple(kinds)


def check(seed: int) -> None:
    """Fail with the seed, the fewest kinds of trouble that do it, and what is wrong."""
    if faults(seed):
        kinds = shrunk(seed)
        pytest.fail(f"seed {seed}, {kinds}:\n" + "\n".join(faults(seed, kinds)))


@pytest.mark.prove
def test_a_failing_seed_is_told_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nodes are believed dead too soon, the seed is named with the only kinds of trouble that matter."""
    monkeypatch.setattr(lease, "DEAD_AFTER", 4.0)
    failing = next(seed for seed in range(20) if faults(seed))
    with pytest.raises(pytest.fail.Exception, match=f"seed {failing}, ") as failed:
        check(failing)
    told, _, wrong = str(failed.value).partition(":\n")
    assert "a node was declared dead after" in wrong
    kinds = [kind for kind in KINDS if f"'{kind}'" in told]
    assert 0 < len(kinds) < len(KINDS) / 2
    assert faults(failing, kinds)


def test_a_broken_policy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where overlapping occurrences are run, a job whose policy is to skip them is named with what it should say."""
    monkeypatch.setattr(decide, "limit_of", lambda _definition: 0)
    alone = {"skips": JOBS["skips"]}
    assert any(fault.startswith("skips: at ") and "by its policies" in fault for fault in faults(0, (), jobs=alone))


def test_a_loop_that_never_waits_is_a_fault() -> None:
    """A simulation in which time stands still ends, and says when it was."""

    async def spin() -> None:
        for _ in count():
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="second 0"):
        run_virtually(spin())


def test_without_trouble() -> None:
    """In fair weather everything is run, once, in time."""
    assert faults(0, ()) == []


@pytest.mark.parametrize("hours", [1, pytest.param(24, marks=pytest.mark.prove)])
def test_a_day(hours: int) -> None:
    """A job that is due every minute runs every minute on three nodes, be it for a whole day."""
    minutely = a_definition(schedule=f"R{60 * hours - 1}/2030-01-01T00:01:00Z/PT1M", misfire=Misfire.ALL, max_running=0)
    assert faults(0, (), jobs={"minutely": minutely}, seconds=3600.0 * hours) == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_alone(kind: str, seed: int) -> None:
    """Each kind of trouble alone breaks no promise."""
    assert faults(seed, (kind,)) == []


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(4, 200))])
def test_all_together(seed: int) -> None:
    """All kinds of trouble together break no promise."""
    check(seed)


@pytest.mark.prove
@pytest.mark.parametrize("first", range(1000, 6000, 50))
@pytest.mark.timeout(600)
def test_thousands(first: int) -> None:
    """Nor do they with five thousand other seeds."""
    for seed in range(first, first + 50):
        check(seed)
