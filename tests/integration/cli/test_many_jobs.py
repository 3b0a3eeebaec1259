"""A store with more jobs than anybody reads at once, asked by the program."""

import pytest

import tokimori
from tests.integration.cli.conftest import Program, lent

JOBS, STEP = 1600, 800


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def test_the_doctor_looks_at_all_and_says_at_how_many(program: Program, store: str) -> None:
    """Also at those behind the first thousand; that no node is at work is the one fault."""
    with lent(program, store):
        with tokimori.open(program.environment["TOKIMORI_STORE"]) as client:
            for first in range(0, JOBS, STEP):
                client.sets.apply(f"s{first}", {f"job-{n:04}": {"noop": True} for n in range(first, first + STEP)})
        findings = program.json("doctor", code=1)["findings"]
        (jobs,) = [each["text"] for each in findings if each["check"] == "jobs"]
        assert jobs.endswith(f"({JOBS:,} jobs looked at)")
