"""Four nodes on each store, killed and frozen by chance: no limit is exceeded or leaked, and nobody is passed over."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.fleet import Fleet
from tests.cluster.limits import Interval, Left, broken_limits, most_held, overtaken, suffer, wrong_children
from tests.servers import mariadb, postgres, redis
from tokimori.clock import Moment
from tokimori.model.transitions import ENDS


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, on an empty store."""
    with empty_store(request.param, tmp_path / "tokimori.db") as url:
        fleet = Fleet(tmp_path, url)
        yield fleet
        fleet.stop(5)


@contextmanager
def empty_store(kind: str, file: Path, *, slow: bool = False) -> Iterator[str]:
    """The URL of an empty store, on a server of its own where it needs one. `slow`: a commit takes 5 ms."""
    server: postgres.Server | mariadb.Server | redis.Server
    match kind:
        case "sqlite":
            yield f"sqlite://{file}"
            return
        case "postgres":
            server = postgres.Server(
                durable=True, settings={"commit_delay": "5000", "commit_siblings": "0"} if slow else None
            )
            url = server.make("fleet")
        case "mariadb":
            server = mariadb.Server(durable=True)
            url = server.make("fleet")
        case _:
            server = redis.Server()
            url = server.url()
    yield url
    server.remove()


def test_the_sweep_finds_what_is_held_together() -> None:
    """Intervals that meet do not overlap; those that overlap add their units."""
    first, second, third = (Interval(Moment(at), Moment(at + 10), 2) for at in (0, 10, 15))
    assert most_held([first, second]) == 2
    assert most_held([first, second, third]) == 4
    assert most_held([]) == 0


@pytest.fixture(params=["sqlite+sqlite", "postgres+redis", "mariadb+redis", "postgres+mariadb"])
def fleet_apart(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes to be, with jobs in one empty store and semaphores in another."""
    jobs, semaphores = request.param.split("+")
    with (
        empty_store(jobs, tmp_path / "tokimori.db") as url,
        empty_store(semaphores, tmp_path / "semaphores.db") as other,
    ):
        fleet = Fleet(tmp_path, url, other)
        yield fleet
        fleet.stop(5)


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_no_limit_is_exceeded_or_leaked(fleet: Fleet) -> None:
    """Whatever happens to nodes: limits hold at every moment, all comes to an end, in order, and with its children."""
    prove(suffer(fleet, seconds=60, seed=7))
    assert fleet.left_over() == []


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_so_it_is_where_semaphores_are_in_another_store(fleet_apart: Fleet) -> None:
    """Nodes are killed with units of the other store in their hands: the same holds."""
    prove(suffer(fleet_apart, seconds=40, seed=7))
    assert fleet_apart.left_over() == []


def prove(left: Left) -> None:
    """Nothing broken, nothing left, nobody passed over."""
    assert broken_limits(left) == []
    assert wrong_children(left) == []
    assert overtaken(left, ["table-a", "table-b"], patience=2) == []
    assert [run.id for runs in left.runs.values() for run in runs if run.state not in ENDS] == []
    assert [(each.name, each.used, each.waiting) for each in left.semaphores] == [
        ("api", 0, 0),
        ("table", 0, 0),
        ("warehouse", 0, 0),
    ]
    assert set(left.codes) == {0}
    print({name: len(runs) for name, runs in left.runs.items()}, f"{len(left.attempts)} begun again")
