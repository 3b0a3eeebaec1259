"""Which definitions can be kept."""

from typing import Any

import pytest

from tests.unit.examples import a_definition
from tokimori.errors import InvalidInput
from tokimori.model.checks import check_definition
from tokimori.model.job import Definition
from tokimori.model.policies import OnLostLease, Overlap, Retry
from tokimori.model.target import Command, Function, Noop


@pytest.mark.parametrize("retention", ["", "30", "P", "PT", "-P1D", "P1X", "P101Y", "P1D\0"])
def test_a_retention_is_a_duration(retention: str) -> None:
    """What is no ISO 8601 duration, or longer than a hundred years, is refused by the name of its field."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(retention=retention))
    assert (refused.value.field, refused.value.value) == ("retention", retention)
    assert refused.value.allowed


@pytest.mark.parametrize(
    "terms",
    [
        {"max_waiting": -1},
        {"max_waiting": 1_000_001},
        {"max_waiting": 5, "max_running": 0},
        {"max_waiting": 5, "schedule": None},
        {"max_waiting": 5, "on_overlap": Overlap.REPLACE},
    ],
)
def test_a_bound_on_what_waits_needs_a_limit(terms: dict[str, object]) -> None:
    """A negative or huge number is refused, and any where nobody waits for a place, or only the newest does."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(**terms))
    assert refused.value.field == "max_waiting"
    assert refused.value.allowed


@pytest.mark.parametrize("keep_runs", [-1, 100_001])
def test_how_many_runs_stay_is_bounded(keep_runs: int) -> None:
    """A number of runs to keep that is below zero, or that would be long to count, is refused."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(keep_runs=keep_runs))
    assert refused.value.field == "keep_runs"


def shell(text: str, **others: Any) -> Command:
    """A command for the shell."""
    return Command(**{"shell": text, **others})


@pytest.mark.parametrize(
    ("definition", "field", "value"),
    [
        (a_definition(queue="a b"), "queue", "a b"),
        (a_definition(queue=""), "queue", ""),
        (a_definition(queue="a|b"), "queue", "a|b"),
        (a_definition(labels={"a,b": "c"}), "labels", "a,b"),
        (a_definition(labels={"a": "b=c"}), "labels.a", "b=c"),
        (a_definition(target=Command()), "target", None),
        (a_definition(target=shell("a", argv=("a",))), "target", None),
        (a_definition(target=Command(argv=("",))), "target", ""),
        (a_definition(target=shell(" \n")), "target", " \n"),
        (a_definition(target=Command(argv=("a", "b\0c"))), "target", "b\0c"),
        (a_definition(target=shell("a\0")), "target", "a\0"),
        (a_definition(target=shell("a", cwd="b\0")), "target", "b\0"),
        (a_definition(target=shell("a", env={"A": "b\0"})), "target", "b\0"),
        (a_definition(target=shell("a", env={"A=B": "c"})), "env", "A=B"),
        (a_definition(target=shell("a", env={"": "c"})), "env", ""),
        (a_definition(priority=101), "priority", 101),
        (a_definition(max_running=-1), "max_running", -1),
        (a_definition(late_after=float("inf")), "late_after", float("inf")),
        (a_definition(retry=Retry(attempts=0)), "retry.attempts", 0),
        (a_definition(retry=Retry(backoff=float("inf"))), "retry.backoff", float("inf")),
        (a_definition(retry=Retry(lost_attempts=2**63)), "retry.lost_attempts", 2**63),
        (a_definition(own_process=True), "own_process", True),
        (a_definition(target=Function(name="f"), max_memory=9), "max_memory", 9),
        (a_definition(target=Function(name="f"), max_cpu=0.5), "max_cpu", 0.5),
        (a_definition(target=Noop(), max_cpu=1.0), "max_cpu", 1.0),
        (a_definition(target=Noop(), client=True), "client", True),
        (a_definition(retry=Retry(lost_attempts="many")), "retry.lost_attempts", "many"),  # type: ignore[arg-type]
        (a_definition(timeout=float("inf")), "timeout", float("inf")),
        (a_definition(misfire="never"), "misfire", "never"),
        (a_definition(name="\udcff"), "name", "\udcff"),
        (a_definition(target=Command(argv=("a", "\udcff"))), "target", "\udcff"),
        (a_definition(labels={"a": 5}), "labels[...]", None),
    ],
)
def test_what_can_not_be_kept(definition: Definition, field: str, value: object) -> None:
    """A definition that was made in Python is checked as one that came as JSON is: field, value and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        check_definition(definition)
    assert caught.value.field == field
    assert caught.value.allowed
    if value is not None:
        assert caught.value.value == value


@pytest.mark.parametrize(
    "target",
    [
        Noop(),
        Command(argv=("true",)),
        Command(argv=("sh", "", "-c")),
        shell("true", env={"A": "", "_b": "c=d"}, cwd="/", user="nobody", stdin="x"),
    ],
)
def test_what_can_be_kept(target: Command | Noop) -> None:
    """A good definition is returned as it is."""
    definition = a_definition(target=target, labels={"zone": "eu-1"})
    assert check_definition(definition) is definition


def test_what_a_check_passes_over_is_not_text() -> None:
    """Numbers and choices of a definition are not taken for texts."""
    assert check_definition(a_definition(late_after=5, retry=Retry(attempts=3), on_lost_lease=OnLostLease.KILL))
