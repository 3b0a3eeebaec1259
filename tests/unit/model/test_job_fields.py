"""The table of the fields of a job says what is true of each, and every door shows it."""

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, get_args, get_type_hints

import click
import msgspec
import pytest

import tokimori
from docs.made import job_fields
from tests.unit.api.test_docs import ALL
from tokimori.api.document import document
from tokimori.cli.job_edit import add
from tokimori.client.client import Client
from tokimori.client.client import open as open_client
from tokimori.errors import InvalidInput
from tokimori.executors import email as mail
from tokimori.executors.http import executor as http
from tokimori.model.job_fields import FIELDS, LONGEST, SPELLINGS, JobField
from tokimori.model.notifier import DEFAULT_SUBJECT, Notifier, NotifyOn
from tokimori.model.policies import Retry
from tokimori.model.target import METHODS
from tokimori.service.definitions.arguments import RetryArguments
from tokimori.service.definitions.definitions import JobFields

KINDS: Mapping[str, Any] = {"": JobFields, "retry.": Retry, "notifier.": Notifier}
BOUNDED = {path: each for path, each in FIELDS.items() if each.most is not None}
BESIDE: Mapping[str, Mapping[str, object]] = {
    "approve_within": {"approval": True},
    **{name: {"url": "http://h/"} for name in ("headers", "body", "expect", "callback_within")},
    **{name: {"email": ["a@b.org"], "smtp": "h", "sender": "a@b.org"} for name in ("mail_subject", "mail_text")},
    **{name: {"command": "true"} for name in ("env", "cwd", "user", "stdin", "shell_path")},
    "url": {},
    "command": {},
    "max_cpu": {"command": "true"},
    "max_memory": {"command": "true"},
    "runs_remaining": {"noop": True, "schedule": "@daily"},
    "max_waiting": {"noop": True, "max_running": 1},
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """One on a store of its own."""
    with open_client("memory:") as opened:
        yield opened


def struct_of(path: str) -> tuple[Any, str]:
    """The struct that holds the field, and its name there."""
    within, dot, name = path.rpartition(".")
    return KINDS[within + dot], name


def test_every_field_stands_in_the_table() -> None:
    """Each has a meaning that is a sentence, and a default; a number or a length has its unit and its bound, too."""
    known = {f"{within}{name}" for within, kind in KINDS.items() for name in kind.__struct_fields__}
    assert FIELDS.keys() == known - {"retry", "notifier"}
    for path, each in FIELDS.items():
        assert re.fullmatch(r"[A-Z].{10,110}\.", each.meaning), path
        assert each.default_text, path
        kind, name = struct_of(path)
        kinds = set(_kinds(get_type_hints(kind)[name]))
        if kinds & {int, float}:
            assert each.bound, path
            assert each.unit or path == "priority", path
        for words in kinds:
            if issubclass(words, StrEnum) and path != "notify":
                assert each.choices == tuple(words), path
    assert FIELDS["method"].choices == METHODS


def _kinds(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _kinds(part)


@pytest.mark.parametrize("path", FIELDS)
def test_the_default_is_the_one_that_holds(path: str) -> None:
    """As the struct has it; words stand where that holds none."""
    kind, name = struct_of(path)
    default = msgspec.to_builtins(getattr(kind(), name))
    if default in (None, [], (), {}):
        assert isinstance(FIELDS[path].default, str)
    else:
        assert FIELDS[path].default == default


def test_the_defaults_in_words_are_those_of_the_code() -> None:
    """What a node does if a field says nothing."""
    assert f"{http.TIMEOUT:g}s of a request" in FIELDS["timeout"].default_text
    assert f"{mail.TIMEOUT:g}s of an e-mail" in FIELDS["timeout"].default_text
    assert FIELDS["notifier.subject"].default == DEFAULT_SUBJECT


def said(path: str, each: JobField, much: float) -> dict[str, Any]:
    """The fields of a job in which this one is as much."""
    value: object = much
    if path in ("env", "headers", "labels"):
        value = {"A": "1" * (int(much) - 1)}
    elif path == "expect":
        value = [int(much)]
    elif path == "url":
        value = "http://h/".ljust(int(much), "a")
    elif path == "payload":
        value = '""'.rjust(int(much))
    elif each.unit in ("bytes", "characters"):
        value = "a" * int(much)
    within, dot, name = path.rpartition(".")
    return {**BESIDE.get(path, {"noop": True}), **({within: {name: value}} if dot else {name: value})}


@pytest.mark.parametrize("path", BOUNDED)
def test_a_bound_is_the_one_that_is_enforced(client: Client, path: str) -> None:
    """What is at the bound is taken; what is beyond it is refused with the name of the field."""
    each = BOUNDED[path]
    assert each.most is not None
    job_id = "notifier:" * path.startswith("notifier.") + path.replace("_", "-")
    beyond: list[float] = [each.most + 1]
    if each.is_number:
        beyond.append(0 if each.least is None else each.least - 1)
    for much in beyond:
        with pytest.raises(InvalidInput) as refused:
            client.jobs.add(job_id, **said(path, each, much))
        assert refused.value.field in (path, f"{path}.A"), refused.value
    lengths = [each.most, *([] if each.least is None else [each.least])]
    for much in lengths if path not in ("labels", "headers") else ():  # a value of theirs has a bound of its own
        client.jobs.add(job_id, **said(path, each, much))
        client.jobs.delete(job_id)


@pytest.mark.parametrize(
    ("path", "most", "beyond"),
    [
        ("email", "1 to 50", {"email": ["a@b.org"] * 51, "smtp": "h", "sender": "a@b.org"}),
        ("schedule", "at most 4,096", {"schedule": "@daily".ljust(4097), "noop": True}),
        ("schedule", "64 members", {"schedule": "; ".join(["@daily"] * 65), "noop": True}),
        ("function", "1 to 255", {"function": "f" * 256}),
        ("queue", "1 to 128", {"queue": "q" * 129, "noop": True}),
        ("semaphores", "1 to 1,000,000", {"semaphores": ["a:1000001"], "noop": True}),
        ("notify", "1 to 10", {"notify": {"failure": ["a"] * 11}, "noop": True}),
        ("retention", "to 100 years", {"retention": "P101Y", "noop": True}),
        ("notifier.quiet", "at most 20", {"notifier": {"quiet": ["22:00-07:00"] * 21}, "noop": True}),
        ("parents", "no schedule", {"parents": [{"job": "a"}], "schedule": "@daily", "noop": True}),
        ("time_zone", "a name", {"time_zone": "Paris", "noop": True}),
    ],
)
def test_a_bound_in_words_is_enforced(client: Client, path: str, most: str, beyond: dict[str, Any]) -> None:
    """As those in numbers."""
    assert most in FIELDS[path].bound
    with pytest.raises(InvalidInput) as refused:
        client.jobs.add("notifier:" * path.startswith("notifier.") + "words", **beyond)
    assert (refused.value.field or "").split(".failure")[0] in (path, "schedule")


@pytest.mark.parametrize("path", [path for path, each in FIELDS.items() if each.unit == "seconds"])
def test_a_length_is_taken_as_a_text(client: Client, path: str) -> None:
    """As every door says it."""
    assert FIELDS[path].most in (LONGEST, 86_400)
    within, dot, name = path.rpartition(".")
    fields: dict[str, Any] = {within: {name: "5m"}} if dot else {name: "5m"}
    job_id = "notifier:" * (within == "notifier") + "texts"
    client.jobs.add(job_id, **{**BESIDE.get(path, {"noop": True}), **fields})
    client.jobs.delete(job_id)


def test_help_lists_every_field() -> None:
    """Those of `retry` and of notifiers by themselves, too."""
    for kind, within in (
        (tokimori.JobArguments, ""),
        (RetryArguments, "retry."),
        (tokimori.NotifierArguments, "notifier."),
    ):
        text = inspect.getdoc(kind) or ""
        for path, each in FIELDS.items():
            if path.startswith(within):
                entry = f"{path.removeprefix(within)}\n    {each.meaning}\n    {each.terms}"
                assert entry in text, path
        assert max(map(len, text.splitlines())) < 130


def test_the_terminal_shows_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its meaning, default and bound, in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    text = add.get_help(click.Context(add, info_name="add"))
    own = text.partition("Examples:")[0]
    assert max(map(len, own.splitlines())) <= 80
    flat = re.sub(r"\s+", " ", own).replace("- ", "-")
    for path, each in FIELDS.items():
        assert SPELLINGS[path] in flat, path
        assert f"[default: {each.default_text}".replace("- ", "-") in flat, path
        assert "`" in each.meaning or each.meaning.replace("- ", "-") in flat, path
        if each.most is not None:
            assert f"; {each.bound}]" in flat, path


def test_the_api_shows_every_field() -> None:
    """With its description, its default and its bounds, in what adds a job, changes one and shows one."""
    kinds = document(ALL, "1")["components"]["schemas"]
    for path, each in FIELDS.items():
        within, dot, name = path.rpartition(".")
        for kind in {"retry": ["Retry"], "notifier": ["Notifier"]}.get(within, ["NewJob", "WholeJob", "Job"]):
            schema = kinds[kind]["properties"][name]
            assert schema["description"] == f"{each.meaning} ({each.terms})", path
            assert "default" in schema, path
            if each.is_number and path != "expect":
                number = next(
                    part for part in schema.get("anyOf", [schema]) if part.get("type") in ("integer", "number")
                )
                assert (number.get("minimum"), number["maximum"]) == (each.least, each.most), path
        if not dot:
            assert kinds["JobChanges"]["properties"][name]["description"], path
            assert kinds["JobChanges"]["properties"][name].get("default") is None, path


def test_the_page_is_what_the_table_says() -> None:
    """Of every field, written by `make docs`."""
    assert job_fields.PAGE.read_text() == job_fields.page(), "run: make docs"


def test_the_meaning_of_notify_names_every_event() -> None:
    """A new event is found where people look for a field's values."""
    assert all(f" {event}" in FIELDS["notify"].meaning for event in NotifyOn)
