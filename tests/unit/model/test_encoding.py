"""Definitions as texts."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.errors import InvalidInput
from tokimori.model.checks import check_definition
from tokimori.model.encoding import decode_definition, encode_definition, stored_definition
from tokimori.model.job import Definition
from tokimori.model.job_fields import LONGEST
from tokimori.model.policies import Misfire, OnLostLease, Overlap, Retry
from tokimori.model.target import Command, Noop, Unreadable
from tokimori.schedules.schedule import Fold, Gap

WORDS = st.text("abcXYZ019._-", min_size=1, max_size=12)


LABELS = st.dictionaries(WORDS, WORDS, max_size=4)


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
