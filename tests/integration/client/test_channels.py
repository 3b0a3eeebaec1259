"""Programs that publish and subscribe are killed with KILL at any moment: nothing acknowledged is lost."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tokimori
from tests.servers import mariadb, postgres, redis

PROGRAM = Path(__file__).parents[2] / "programs" / "talkers.py"
PUBLISHERS = ("p1", "p2")
SUBSCRIBERS = ("s1", "s2")
KILLS = 6
PATIENCE = 60.0

URLS: dict[str, tuple[Callable[[Path], str], Callable[[Path], object]]] = {
    "sqlite": (lambda folder: f"sqlite:///{folder}/t.db", lambda _: None),
    "postgres": (postgres.loans.url_of, postgres.loans.give_back),
    "mariadb": (mariadb.loans.url_of, mariadb.loans.give_back),
    "redis": (redis.loans.url_of, redis.loans.give_back),
}


def started(url: str, name: str, folder: Path) -> "subprocess.Popen[bytes]":
    """A program that publishes (`p…`) or listens, and notes what it did."""
    role = "publish" if name in PUBLISHERS else "listen"
    return subprocess.Popen([sys.executable, str(PROGRAM), url, role, name, str(folder / name)])


def until_it_grows(file: Path) -> None:
    """Wait until a program notes something more."""
    before, ends = len(lines(file)), time.monotonic() + PATIENCE
    while len(lines(file)) <= before:
        assert time.monotonic() < ends, file
        time.sleep(0.05)


def lines(file: Path) -> list[str]:
    """The whole lines of a file: the last one may have been cut off."""
    return file.read_text().split("\n")[:-1] if file.exists() else []


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", URLS)
def test_nothing_acknowledged_is_lost_whoever_is_killed(store: str, tmp_path: Path) -> None:
    """Each named subscriber sees each acknowledged message at least once, and those of a publisher in its order."""
    url_of, give_back = URLS[store]
    url, chance = url_of(tmp_path), random.Random(7)
    with tokimori.open(url) as client:
        client.db.migrate()
    programs = {name: started(url, name, tmp_path) for name in (*PUBLISHERS, *SUBSCRIBERS)}
    try:
        for name in programs:
            until_it_grows(tmp_path / name)
        for _ in range(KILLS):
            name = chance.choice(list(programs))
            time.sleep(chance.uniform(0.0, 0.5))
            programs[name].kill()
            programs[name].wait()
            programs[name] = started(url, name, tmp_path)
            until_it_grows(tmp_path / name)
        for name in PUBLISHERS:
            programs[name].kill()
            programs[name].wait()
        acknowledged = {(name, n) for name in PUBLISHERS for n in lines(tmp_path / name)}
        assert len(acknowledged) > 10
        for name in SUBSCRIBERS:
            ends = time.monotonic() + PATIENCE
            while missing := acknowledged - heard_by(tmp_path / name):
                assert time.monotonic() < ends, f"{name} lacks {sorted(missing)[:5]} of {len(acknowledged)}"
                time.sleep(0.2)
    finally:
        for program in programs.values():
            program.kill()
            program.wait()
        give_back(tmp_path)
    for name in SUBSCRIBERS:
        for order in orders_in(tmp_path / name).values():
            assert order == sorted(order)


def orders_in(file: Path) -> dict[str, list[int]]:
    """The numbers of each publisher in the order in which they were first heard."""
    last, found = 0, dict[str, list[int]]()
    for number, by, n in (each for each in map(str.split, lines(file)) if len(each) == 3):
        if int(number) > last:
            found.setdefault(by, []).append(int(n))
            last = int(number)
    return found


def heard_by(file: Path) -> set[tuple[str, str]]:
    """Who published which number, of all that a subscriber heard."""
    return {(each[1], each[2]) for each in map(str.split, lines(file)) if len(each) == 3}
