"""The flat form of a job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tokimori.errors import InvalidInput
from tokimori.model.job import Definition
from tokimori.model.policies import Misfire, OnLostLease, Overlap, Retry
from tokimori.model.target import Command, Function, Http, Noop, Target
from tokimori.schedules.schedule import Fold, Gap
from tokimori.service.definitions.definitions import JobFields, definition_from, fields_of, patched

WORDS = st.text("abcXYZ019._-", min_size=1, max_size=8)
LABELS = WORDS.filter(lambda word: word not in {".", ".."})
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
SECONDS = st.floats(0, 1_000_000)
REQUEST = Http(
    url="https://a.example/", method="PUT", headers={"A": "1"}, body="x", expect=(200, 404), callback_within=5
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Any definition that can be kept."""
    program = st.lists(WORDS, min_size=1, max_size=3).map(lambda argv: Command(argv=tuple(argv)))
    shell = WORDS.map(lambda text: Command(shell=text, shell_path="/bin/bash"))
    command: Target = replace(
        draw(program | shell),
        env=draw(st.dictionaries(WORDS, TEXTS, max_size=2)),
        cwd=draw(st.none() | TEXTS),
        user=draw(st.none() | WORDS),
        stdin=draw(st.none() | TEXTS),
    )
    return Definition(
        target=draw(st.sampled_from([command, REQUEST, Noop()])),
        schedule=draw(st.none() | TEXTS),
        time_zone=draw(st.sampled_from(["UTC", "Europe/Paris"])),
        gap=draw(st.sampled_from(Gap)),
        fold=draw(st.sampled_from(Fold)),
        description=draw(st.none() | TEXTS),
        misfire=draw(st.sampled_from(Misfire)),
        late_after=draw(SECONDS),
        grace=draw(st.none() | SECONDS),
        max_running=draw(st.none() | st.integers(0, 9)),
        on_overlap=draw(st.sampled_from(Overlap)),
        retry=Retry(attempts=draw(st.integers(1, 9)), delay=draw(SECONDS), cap=draw(st.none() | SECONDS)),
        priority=draw(st.integers(-100, 100)),
        labels=draw(st.dictionaries(LABELS, LABELS, max_size=2)),
        on_lost_lease=draw(st.none() | st.sampled_from(OnLostLease)),
    )


@given(definitions())
def test_fields_say_a_definition(definition: Definition) -> None:
    """What `fields_of` writes, `definition_from` reads back, whatever the default zone is."""
    assert definition_from(fields_of(definition), time_zone="Asia/Tokyo") == definition


@given(definitions(), definitions())
def test_a_patch_of_all_fields_replaces_all(old: Definition, new: Definition) -> None:
    """A patch that names every field leaves nothing of the old definition."""
    everything = {**dict.fromkeys(JobFields.__struct_fields__), **fields_of(new)}
    cleared = patched(old, dict.fromkeys(("env", "labels", "retry")))
    assert patched(cleared, everything) == new


@given(definitions())
def test_an_empty_patch_changes_nothing(definition: Definition) -> None:
    """Nothing said, nothing changed."""
    assert patched(definition, {}) == definition


def test_a_text_is_for_the_shell_and_a_list_is_a_program() -> None:
    """`command` says both kinds."""
    assert definition_from({"command": "make report"}).target == Command(shell="make report")  # noqa: S604 - says it, does not run it
    assert definition_from({"command": ["make", "report"]}).target == Command(argv=("make", "report"))


def test_a_null_is_the_default() -> None:
    """In a new job as in a patch."""
    assert definition_from({"noop": True, "priority": None}).priority == 0
    assert patched(definition_from({"noop": True, "priority": 7}), {"priority": None}).priority == 0


def test_the_zone_is_the_given_default_unless_named() -> None:
    """A job without a zone gets that of the settings, also when a patch takes its own away."""
    assert definition_from({"noop": True}, time_zone="Asia/Tokyo").time_zone == "Asia/Tokyo"
    abroad = definition_from({"noop": True, "time_zone": "UTC"}, time_zone="Asia/Tokyo")
    assert abroad.time_zone == "UTC"
    assert patched(abroad, {"time_zone": None}, time_zone="Asia/Tokyo").time_zone == "Asia/Tokyo"


def test_a_patch_goes_into_tables() -> None:
    """One variable changes, the others stay; a null takes one away."""
    old = definition_from({"command": "x", "env": {"A": "1", "B": "2"}})
    assert patched(old, {"env": {"A": None, "C": "3"}}).target == Command(shell="x", env={"B": "2", "C": "3"})  # noqa: S604 - says it, does not run it


def test_a_function_is_a_target_of_its_own() -> None:
    """It is named alone, read back alike, and takes the place of a command with all that the command had."""
    function = definition_from({"function": "reports.nightly"})
    assert function.target == Function(name="reports.nightly")
    assert fields_of(function) == {"time_zone": "UTC", "function": "reports.nightly"}
    assert patched(definition_from({"command": "x", "cwd": "/tmp"}), {"function": "f"}).target == Function(name="f")
    assert patched(function, {"command": "y"}).target == Command(shell="y")  # noqa: S604 - says it, does not run it
    assert patched(function, {"noop": True}).target == Noop()


def test_a_request_is_a_target_of_its_own() -> None:
    """An address is enough; the method may be written small; what belongs to a request goes with it."""
    asked = definition_from({"url": "https://a.example/", "method": "post", "headers": {"A": "1"}})
    assert asked.target == Http(url="https://a.example/", method="POST", headers={"A": "1"})
    assert patched(asked, {"url": "https://b.example/"}).target == replace(asked.target, url="https://b.example/")
    assert patched(asked, {"headers": {"A": None, "B": "2"}}).target == replace(asked.target, headers={"B": "2"})
    assert patched(asked, {"noop": True}).target == Noop()
    with pytest.raises(InvalidInput, match="only a request has this field"):
        definition_from({"command": "x", "body": "y"})


def test_naming_another_target_drops_the_old_one() -> None:
    """From a command to nothing and back, without naming what it had."""
    nothing = patched(definition_from({"command": "x", "cwd": "/tmp"}), {"noop": True})
    assert nothing.target == Noop()
    assert patched(nothing, {"command": ["y"]}).target == Command(argv=("y",))


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({}, "command", "one of command, function, url, build, noop"),
        ({"command": "x", "noop": True}, "command", "one of command, function, url, build, noop"),
        ({"noop": True, "cwd": "/"}, "cwd", "no value with noop"),
        ({"function": "f", "cwd": "/"}, "cwd", "no value with function"),
        ({"function": "f", "noop": True}, "command", "one of command, function, url, build, noop"),
        ({"function": "a|b"}, "function", "1 to 255 printable characters without |"),
        ({"function": " "}, "function", "1 to 255 printable characters without |"),
        ({"command": 1}, "command", "a text or a list"),
        ({"command": [1]}, "command", "a text"),
        ({"command": "x", "env": {"A": 1}}, "env", "a text"),
        ({"command": "x", "priority": 101}, "priority", "a whole number <= 100"),
        ({"command": "x", "misfire": "never"}, "misfire", "latest, all, skip"),
        ({"command": "x", "on_lost_lease": "never"}, "on_lost_lease", "kill, continue"),
        ({"command": "x", "retry": {"attempts": 0}}, "retry.attempts", "a whole number >= 1"),
        ({"command": "x", "retry": {"tries": 1}}, "retry.tries", "one of attempts, delay"),
        ({"command": "x", "prioritty": 1}, "prioritty", "one of anchored_on, approval, approve_within"),
        ({"command": "x", "prioritty": None}, "prioritty", "one of anchored_on, approval, approve_within"),
        ({"command": "x", "labels": {"a b": "1"}}, "labels", "1 to 128 of"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, object], field: str, allowed: str) -> None:
    """The error says which field, and what may stand there."""
    with pytest.raises(InvalidInput) as caught:
        definition_from(fields)
    assert caught.value.field == field
    assert str(caught.value.allowed).startswith(allowed)


def test_a_patch_of_an_unknown_field_is_refused() -> None:
    """Also where it would only bring a default back."""
    with pytest.raises(InvalidInput) as caught:
        patched(definition_from({"noop": True}), {"prioritty": None})
    assert caught.value.field == "prioritty"


@pytest.mark.parametrize(
    ("fields", "field", "value", "allowed"),
    [
        ({"parents": [{"job": "x", "on": "sometimes"}]}, "parents.on", "sometimes", "success, failure, always"),
        ({"parents": [{"job": "x"}, {"job": "y", "on": 5}]}, "parents.on", 5, "success, failure, always"),
        ({"on_overlap": "nope"}, "on_overlap", "nope", "skip, queue, replace"),
        ({"retry": {"lost_attempts": "many"}}, "retry.lost_attempts", "many", "a whole number, or 'unlimited'"),
        ({"retry": {"attempts": "x"}}, "retry.attempts", "x", "a whole number"),
        ({"semaphores": [5]}, "semaphores", 5, "a text"),
        ({"labels": {"a": 5}}, "labels", 5, "a text"),
        ({"misfire": 5}, "misfire", 5, "latest, all, skip"),
        ({"grace": [5]}, "grace", [5], "a number"),
    ],
)
def test_a_bad_value_within_a_field_is_named(
    fields: dict[str, object], field: str, value: object, allowed: str
) -> None:
    """With the path to it, itself, and what may stand there."""
    with pytest.raises(InvalidInput) as caught:
        definition_from({"noop": True, **fields}, time_zone="UTC")
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (field, value, allowed)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"priority": "\ud800"}, "priority"),
        ({"misfire": "\ud800"}, "misfire"),
        ({"retry": {"\ud800": 1}}, "retry"),
        ({"parents": [{"job": "a", "on": "\ud800"}]}, "parents"),
    ],
)
def test_half_a_surrogate_pair_in_place_of_a_word_or_number_is_refused(fields: dict[str, object], field: str) -> None:
    """The field is named at every depth: no `UnicodeEncodeError` of msgspec reaches the caller."""
    with pytest.raises(InvalidInput) as refused:
        definition_from({"command": "true", **fields})
    assert str(refused.value.field).startswith(field)
