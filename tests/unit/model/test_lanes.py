"""Lanes: who serves them, and in which order."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_definition, seconds
from tokimori.clock import MINUTE
from tokimori.model.ids import Incarnation, Lane
from tokimori.model.job import units_here
from tokimori.model.lanes import APART_LABEL, lane_of, rank_of, serves, units_apart
from tokimori.model.target import Handler, Noop

LIFE = Incarnation(7)

WORDS = st.text("abcXYZ019._-", min_size=1, max_size=12)


LABELS = st.dictionaries(WORDS, WORDS, max_size=4)


@given(WORDS, LABELS, LABELS)
def test_a_node_serves_what_its_labels_allow(queue: str, wanted: dict[str, str], carried: dict[str, str]) -> None:
    """A node serves a lane exactly when it carries every label that the job asks for, with the same value."""
    lane = lane_of(a_definition(queue=queue, labels=wanted))
    assert serves(carried, lane) == (wanted.items() <= carried.items())
    assert serves({**carried, **wanted}, lane)


def test_a_lane_is_the_same_for_the_same_needs() -> None:
    """The order in which labels were typed does not make another lane."""
    one, other = a_definition(labels={"a": "1", "b": "2"}), a_definition(labels={"b": "2", "a": "1"})
    assert lane_of(one) == lane_of(other) == "default||a=1,b=2"


def test_a_lane_names_what_a_node_needs_and_nothing_else() -> None:
    """Whatever else a definition says, its runs wait where those wait that say only the same queue and labels."""
    plain = a_definition(queue="q", labels={"a": "1"})
    rich = a_definition(
        queue="q", labels={"a": "1"}, delay=1, retention="P7D", max_waiting=1, max_running=2, semaphores=("db",)
    )
    assert lane_of(rich) == lane_of(plain) == "q||a=1"


def test_a_lane_says_which_units_its_runs_want_in_another_store() -> None:
    """Nodes that can have them there serve it, whatever they are; where they are with the job the lane says nothing."""
    lane = lane_of(a_definition(semaphores=("table", "api:2"), apart=True))
    assert lane == "default||tokimori:semaphores=api:2+table:1"
    assert units_apart(lane) == (("api", 2), ("table", 1))
    assert serves({APART_LABEL: "yes"}, lane)
    assert not serves({}, lane)
    assert units_apart(lane_of(a_definition(semaphores=("table",), labels={"a": "1"}))) == ()


def test_units_are_in_one_store_only() -> None:
    """The store of the job keeps none that are in another one."""
    here = a_definition(semaphores=("table", "api:2"))
    assert units_here(here, LIFE) == (("api", 2), ("table", 1))
    assert units_here(a_definition(semaphores=("table",), apart=True), LIFE) == ()


def test_a_rate_of_a_job_is_a_semaphore_of_its_own() -> None:
    """It stands by name among the others, also beside ones in another store, and its name tells the rate."""
    rated = a_definition(semaphores=("zoo",), rate_limit="10/1m")
    assert units_here(rated, LIFE) == (("job:7@10/60000000", 1), ("zoo", 1))
    assert units_here(replace(rated, apart=True), LIFE) == (("job:7@10/60000000", 1),)


@pytest.mark.parametrize(
    ("handlers", "serves_it"),
    [
        ((), False),
        (("reports.daily",), True),
        (("reports", "reports.daily.full"), False),
        ((re.compile(r"reports\..*"),), True),
        ((re.compile(r"reports"), re.compile(r"daily")), False),
        (("reports..aily",), False),
        (("mails", re.compile(r"[a-z]+\.daily")), True),
    ],
)
def test_who_has_the_handler_serves_the_lane(handlers: tuple[Handler, ...], *, serves_it: bool) -> None:
    """Names are compared as they are, patterns with whole names; labels count too; anybody runs what needs none."""
    assert serves({}, Lane("default|reports.daily|"), handlers) is serves_it
    assert not serves({}, Lane("default|reports.daily|gpu=yes"), handlers)
    assert serves({"gpu": "yes"}, Lane("default|reports.daily|gpu=yes"), handlers) is serves_it
    assert serves({}, Lane("default||"), handlers)


def test_a_lane_names_the_handler_of_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and no-ops need none; what needs one waits apart from all else in its queue."""
    assert lane_of(a_definition()) == "default||"
    monkeypatch.setattr(Noop, "handler", "reports.daily")
    assert lane_of(a_definition(labels={"a": "1"})) == "default|reports.daily|a=1"


@given(st.integers(-100, 100), st.integers(-100, 100), st.integers(0, 10**6))
def test_priority_can_overtake_for_200_minutes(one: int, other: int, later: int) -> None:
    """A larger priority comes first, by a minute for each point; nothing due over 200 minutes later overtakes."""
    first, second = rank_of(NEW_YEAR, one), rank_of(seconds(later), other)
    assert (second < first) == (later < 60 * (other - one))
    assert rank_of(NEW_YEAR, one) == NEW_YEAR - one * MINUTE
    assert later <= 200 * 60 or first < second
