"""What a job's definition means, and which definitions can be kept."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR, a_definition, seconds
from tokimori.clock import MINUTE
from tokimori.errors import InvalidInput, InvalidSchedule
from tokimori.model.handlers import Handler
from tokimori.model.ids import Lane
from tokimori.model.job import (
    APART_LABEL,
    Definition,
    check_definition,
    decode_definition,
    encode_definition,
    kills_on_lost_lease,
    lane_of,
    limit_of,
    most_active,
    rank_of,
    schedule_of,
    serves,
    stored_definition,
    units_apart,
    units_here,
)
from tokimori.model.policies import LONGEST, Misfire, OnLostLease, Overlap, Retry
from tokimori.model.target import Command, Noop, Unreadable
from tokimori.schedules.schedule import Fold, Gap, OnDemand

WORDS = st.text("abcXYZ019._-", min_size=1, max_size=12)
LABELS = st.dictionaries(WORDS, WORDS, max_size=4)


@pytest.mark.parametrize(
    ("schedule", "max_running", "limit"),
    [("* * * * *", None, 1), (None, None, 0), ("* * * * *", 0, 0), (None, 3, 3), ("* * * * *", 3, 3)],
)
def test_how_many_may_run(schedule: str | None, max_running: int | None, limit: int) -> None:
    """By default a scheduled job runs one at a time and any other as often as it is asked; 0 says unlimited."""
    assert limit_of(a_definition(schedule=schedule, max_running=max_running)) == limit


@pytest.mark.parametrize(
    ("max_running", "policy", "kills"),
    [
        (None, None, False),
        (0, None, False),
        (1, None, True),
        (1, OnLostLease.CONTINUE, False),
        (None, OnLostLease.KILL, True),
        (0, OnLostLease.KILL, True),
    ],
)
def test_what_a_lost_lease_ends(max_running: int | None, policy: OnLostLease | None, kills: bool) -> None:
    """Processes are ended where a limit is stated, or where the job says so (DESIGN §3)."""
    assert kills_on_lost_lease(a_definition(max_running=max_running, on_lost_lease=policy)) is kills


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
    assert units_here(here) == (("api", 2), ("table", 1))
    assert units_here(a_definition(semaphores=("table",), apart=True)) == ()


@pytest.mark.parametrize("retention", ["", "30", "P", "P0D", "PT0S", "-P1D", "P1X", "P101Y", "P1D\0"])
def test_a_retention_is_a_duration(retention: str) -> None:
    """What is no ISO 8601 duration above zero, or longer than a hundred years, is refused by the name of its field."""
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


@pytest.mark.parametrize(
    ("terms", "most"),
    [({}, None), ({"max_waiting": 0}, 1), ({"max_running": 5, "max_waiting": 5}, 10), ({"max_running": 5}, None)],
)
def test_how_many_may_be_active(terms: dict[str, int], most: int | None) -> None:
    """Those that may run and those that may wait beside them; any number where nobody says how many may wait."""
    assert check_definition(a_definition(**terms))
    assert most_active(a_definition(**terms)) == most


@pytest.mark.parametrize("keep_runs", [-1, 100_001])
def test_how_many_runs_stay_is_bounded(keep_runs: int) -> None:
    """A number of runs to keep that is below zero, or that would be long to count, is refused."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(keep_runs=keep_runs))
    assert refused.value.field == "keep_runs"


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


def test_no_schedule_is_on_demand() -> None:
    """A definition without a schedule names no moments."""
    assert schedule_of(a_definition(schedule=None), NEW_YEAR) == OnDemand()


COMMANDS = st.one_of(
    st.builds(Command, argv=st.lists(st.text(min_size=1), min_size=1, max_size=3).map(tuple)),
    st.builds(Command, shell=st.text(min_size=1), env=st.dictionaries(WORDS, st.text(), max_size=2), cwd=st.text()),
)
SECONDS = st.floats(0, LONGEST)
DEFINITIONS = st.builds(
    Definition,
    target=st.one_of(st.just(Noop()), COMMANDS),
    schedule=st.none() | st.text(),
    time_zone=st.text(),
    gap=st.sampled_from(Gap),
    fold=st.sampled_from(Fold),
    description=st.none() | st.text(),
    misfire=st.sampled_from(Misfire),
    late_after=SECONDS,
    grace=st.none() | SECONDS,
    max_running=st.none() | st.integers(0, 1_000_000),
    on_overlap=st.sampled_from(Overlap),
    retry=st.builds(Retry, attempts=st.integers(1, 10**6), delay=SECONDS, cap=st.none() | SECONDS),
    priority=st.integers(-100, 100),
    labels=LABELS,
    timeout=st.none() | st.floats(0, LONGEST, exclude_min=True),
    on_lost_lease=st.none() | st.sampled_from(OnLostLease),
)


@given(DEFINITIONS)
def test_what_is_stored_is_read_back(definition: Definition) -> None:
    """Every definition survives storing, without loss."""
    assert decode_definition(encode_definition(definition)) == definition
    assert decode_definition(encode_definition(definition).decode()) == definition


def test_defaults_are_not_stored() -> None:
    """What is stored is what was typed: a later default applies to jobs that did not say otherwise."""
    assert msgspec.json.decode(encode_definition(Definition(target=Noop()))) == {"target": {"type": "noop"}}


def shell(text: str, **others: Any) -> Command:
    """A command for the shell."""
    return Command(**{"shell": text, **others})


NOOP = '"target": {"type": "noop"}'


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{" + NOOP + ', "priority": 101}', "priority"),
        ("{" + NOOP + ', "priority": "high"}', "priority"),
        ("{" + NOOP + ', "late_after": -1}', "late_after"),
        ("{" + NOOP + ', "late_after": 1e300}', "late_after"),
        ("{" + NOOP + ', "timeout": 0}', "timeout"),
        ("{" + NOOP + ', "retry": {"attempts": 0}}', "retry.attempts"),
        ("{" + NOOP + ', "retry": {"times": 3}}', "retry.times"),
        ("{" + NOOP + ', "misfire": "never"}', "misfire"),
        ("{" + NOOP + ', "shedule": "* * * * *"}', "shedule"),
        ("{" + NOOP + ', "labels": {"a": 1}}', "labels[...]"),
        ('{"schedule": "* * * * *"}', "target"),
        ('{"target": {"type": "cobol"}}', "target.type"),
        ('{"target": {"type": "command", "argv": ["a", 1]}}', "target.argv[1]"),
        ("[]", None),
        ("", None),
        ("{", None),
    ],
)
def test_what_can_not_be_read(text: str, field: str | None) -> None:
    """A definition that is wrong somewhere is refused, naming the field, and saying what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        decode_definition(text)
    assert caught.value.field == field
    assert caught.value.allowed
    assert field is None or field in caught.value.message


def test_what_is_no_text_can_not_be_read() -> None:
    """Bytes that are no UTF-8 are bad input, too."""
    with pytest.raises(InvalidInput):
        decode_definition(b'{"target": {"type": "noop"}, "name": "\xff"}')


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


def test_the_id_spreads_jobs() -> None:
    """`H` stands for another moment in each job, and always for the same one in the same job."""
    definition = a_definition(schedule="H H * * *")
    first, again, other = (schedule_of(definition, NEW_YEAR, name).next_after(NEW_YEAR) for name in ("a", "a", "b"))
    assert first == again != other


def test_an_empty_text_is_no_schedule() -> None:
    """Only a missing schedule means on demand; an empty one is somebody's mistake."""
    with pytest.raises(InvalidSchedule):
        schedule_of(a_definition(schedule=""), NEW_YEAR)


@pytest.mark.parametrize("text", ["{broken", "", '{"target":{"type":"rocket"}}', '{"target":{"type":"noop"},"moon":1}'])
def test_what_is_stored_and_can_not_be_read_is_kept(text: str) -> None:
    """Read as stored it is there with the reason, is written back as it was, and is no definition to add."""
    found = stored_definition(text)
    assert isinstance(found.target, Unreadable)
    assert encode_definition(found).decode() == text
    with pytest.raises(InvalidInput) as caught:
        decode_definition(text)
    assert found.target.why == caught.value.message
    with pytest.raises(InvalidInput, match="target"):
        check_definition(found)


def test_nobody_can_say_that_a_definition_is_unreadable() -> None:
    """The word is ours: text that names it is itself one that can't be read."""
    said = '{"target":{"type":"unreadable","text":"{}","why":"so"}}'
    with pytest.raises(InvalidInput, match="target"):
        decode_definition(said)
    assert encode_definition(stored_definition(said)).decode() == said
