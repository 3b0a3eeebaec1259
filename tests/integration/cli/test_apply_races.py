"""Several `tokimori apply --prune` of one set at the same time, and one that is killed."""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

import tokimori
from tests.integration.cli.conftest import Program, lent
from tests.programs.forked import Started
from tokimori.clock import SECOND
from tokimori.service.sets.turns import TURN_LASTS

JOBS = 150


@pytest.fixture(
    params=["sqlite", *(pytest.param(name, marks=pytest.mark.prove) for name in ("postgres", "mariadb", "redis"))]
)
def apart(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Program]:
    """The program on that store, with a file for each of two people."""
    program = Program(tmp_path)
    for who in "ab":
        jobs = [{"id": each, "schedule": "@daily", "noop": True} for each in ids(who)]
        (tmp_path / f"{who}.json").write_text(json.dumps({"set": "prod", "jobs": jobs}))
    with lent(program, request.param):
        yield program


def ids(who: str) -> list[str]:
    return [*(f"{who}-{number:03}" for number in range(JOBS)), "shared"]


def jobs_in(program: Program) -> Sequence[str]:
    with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
        return [job.id for job in client.jobs.list()]


def test_of_two_that_apply_a_set_one_is_refused_or_last(apart: Program, request: pytest.FixtureRequest) -> None:
    """What is there in the end is what one of them declares, whole, and he was told that he did it."""
    rounds = 2 if "sqlite" in request.node.name else 8
    for _ in range(rounds):
        with (apart.home / "told").open("w") as told:

            def start(who: str, told: IO[str] = told) -> Started:
                arguments, nobody = ["apply", f"{who}.json", "--prune"], subprocess.DEVNULL
                return Started(arguments, cwd=apart.home, env=apart.environment, stdout=nobody, stderr=told)

            codes = {who: each.wait(60) for who, each in {who: start(who) for who in "ab"}.items()}
        left = [who for who in "ab" if jobs_in(apart) == ids(who)]
        assert [codes[who] for who in left] == [0], codes
        said = (apart.home / "told").read_text()
        assert [said.count("another apply")] == [list(codes.values()).count(4)], said
        assert set(codes.values()) <= {0, 4}, codes
        assert apart.json("set", "show", "prod")[0]["state"] == "whole"


@pytest.mark.prove
def test_what_was_killed_is_taken_over(apart: Program) -> None:
    """Until its lease has ended others are refused; then the set is half applied, and applied again it is whole."""
    apart("apply", "a.json")
    killed = apart.start("apply", "b.json", "--prune")
    with tokimori.open(apart.environment["TOKIMORI_STORE"]) as client:
        while client.jobs.list(after="b")[0].id == "shared":
            time.sleep(0.005)
    killed.kill()
    killed.wait()
    assert jobs_in(apart) not in (ids("a"), ids("b"))
    assert "another apply is at work" in apart.error("apply", "a.json", "--prune", code=4)["message"]
    time.sleep(TURN_LASTS / SECOND)
    (found,) = apart.json("set", "show", "prod")
    assert (found["state"], found["version"]) == ("half_applied", 2)
    assert f"half applied by {found['by']}" in apart("set", "list")
    apart("apply", "a.json", "--prune")
    assert jobs_in(apart) == ids("a")
    (found,) = apart.json("set", "show", "prod")
    assert (found["state"], found["version"]) == ("whole", 3)
