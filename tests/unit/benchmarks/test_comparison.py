"""The arithmetic of comparing: what is printed as better is better."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.__main__ import WORKLOADS
from benchmarks.comparison import TOKIMORI, AtLeast, AtMost, Quantity, Result, Round, Target, Trial
from benchmarks.programs import ROOT, Program, absent
from benchmarks.report import json_lines, round_json, round_line, table
from benchmarks.rounds import one_round

RATE = Quantity("rate", "runs/s", more=True)
DELAY = Quantity("delay", "ms")
ROUNDS: list[Round] = [
    {TOKIMORI: {"rate": 400.0, "delay": 10.0}, "peer": {"rate": 100.0, "delay": 40.0}},
    {TOKIMORI: {"rate": 100.0, "delay": 40.0}, "peer": {"rate": 50.0, "delay": 80.0}},
    {TOKIMORI: {"rate": 300.0, "delay": 20.0}, "peer": {"rate": 100.0, "delay": 60.0}},
]


def result(*targets: Target, absent: Mapping[str, str] | None = None) -> Result:
    trial = Trial(
        title="example",
        quantities=[RATE, DELAY],
        targets=targets,
        measure=lambda number: ROUNDS[number],
        absent=absent or {},
    )
    return Result(trial, ROUNDS)


@pytest.mark.parametrize(("quantity", "ratios"), [(RATE, (3, 2, 4)), (DELAY, (3, 2, 4))])
def test_ratios_are_paired_within_a_round(quantity: Quantity, ratios: tuple[float, float, float]) -> None:
    """A ratio compares one round with itself, and above 1 means that Tokimori was better, whatever is measured."""
    assert tuple(result().ratio("peer", quantity)) == ratios


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (AtLeast("rate", "peer", 3), True),
        (AtLeast("rate", "peer", 3.1), False),
        (AtLeast("delay", "peer", 3), True),
        (AtMost("delay", 20), True),
        (AtMost("delay", 19.9), False),
    ],
)
def test_a_target_is_about_the_median(target: Target, met: bool) -> None:
    """A target is met by the median of the rounds, up to its bound."""
    assert result().met(target) is met


def test_the_table_says_which_target_is_missed() -> None:
    """Who reads the table sees every target with its verdict."""
    text = table(WORKLOADS[0], result(AtMost("delay", 20), AtMost("delay", 19)))
    assert "delay: at most 20: met (20)" in text
    assert "delay: at most 19: NOT MET (20)" in text


def test_who_is_not_here_is_named() -> None:
    """Who reads the figures sees which contender this machine has not, and why."""
    without = result(absent={"other": "no npm"})
    assert "other: not measured: no npm" in table(WORKLOADS[0], without)
    lines = [json.loads(line) for line in json_lines(WORKLOADS[0], without)]
    assert [line["contender"] for line in lines if line.get("not_measured") == "no npm"] == ["other"]


def test_a_round_is_told_at_once() -> None:
    """What one round measured can be read by people and by programs before the next one begins."""
    trial = result().trial
    line = round_line(WORKLOADS[0], trial, 1, ROUNDS[1])
    assert "round 2: rate Tokimori 100, peer 50; delay Tokimori 40, peer 80" in line
    told = json.loads(round_json(WORKLOADS[0], trial, 1, ROUNDS[1]))
    assert (told["round"], told["measured"]) == (2, ROUNDS[1])


def test_a_peer_that_is_not_installed_is_absent() -> None:
    """A peer whose program is not there is not measured, and the one that is there is."""
    here, missing = Program(Path(__file__), ()), Program(ROOT / "nothing" / "there", ())
    assert set(absent({"here": here, "missing": missing})) == {"missing"}


@pytest.mark.parametrize(("number", "order"), [(0, "abc"), (1, "bca"), (2, "cab"), (3, "abc")])
def test_another_one_begins_each_round(number: int, order: str) -> None:
    """Everybody is measured once a round, and another one first in each."""
    measured: list[str] = []

    def measure(name: str) -> dict[str, float]:
        measured.append(name)
        return {"rate": 1.0}

    assert list(one_round("abc", measure, number)) == ["a", "b", "c"]
    assert measured == list(order)
