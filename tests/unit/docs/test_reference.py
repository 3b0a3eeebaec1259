"""The reference names everything that there is: its pages against the code, read another way than they are made."""

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import tokimori
from docs.made.errors import ADVICE, OF_HTTP
from docs.made.markdown import REFERENCE
from docs.made.pages import PAGES
from docs.made.settings import OF_A_RUN, OTHERS
from tests.integration.manual.reading import MANUAL
from tests.programs.forked import ROOT
from tests.unit.api.test_docs import ALL
from tokimori.api.document import path_of
from tokimori.apps import names
from tokimori.cli.main import program
from tokimori.client.client import Client
from tokimori.config.file import _NOT_SETTINGS
from tokimori.config.settings import Settings
from tokimori.metrics import Metrics, StoreFigures
from tokimori.model.audit import BECAME, PARTS_OF_SETS
from tokimori.model.job_fields import FIELDS
from tokimori.model.transitions import ENDS
from tokimori.schedules.parse import parse_schedule
from tokimori.service import nodes


def said(page: str) -> str:
    return (REFERENCE / f"{page}.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_what_is_made_from_the_code(page: Path) -> None:
    """Nobody has written in it, and it is not older than the code."""
    assert page.read_text() == PAGES[page](), "run: make docs"


def settings_below(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    for each in msgspec.structs.fields(kind):
        if isinstance(each.type, type) and issubclass(each.type, msgspec.Struct):
            yield from settings_below(each.type, f"{prefix}{each.name}.")
        else:
            yield f"{prefix}{each.name}"


def test_every_setting_is_told() -> None:
    """Each stands in a row, with its variable."""
    found = set(settings_below(Settings))
    rows = dict(re.findall(r"^\| `([a-z_.0-9]+)` \|.*`(TOKIMORI_\w+)`", said("settings"), re.MULTILINE))
    assert rows == {each: f"TOKIMORI_{each.upper().replace('.', '_')}" for each in found}


def test_every_variable_is_told() -> None:
    """Those that are no settings stand below them: what the program reads beside, and what a command gets."""
    assert {*OTHERS, *OF_A_RUN} == _NOT_SETTINGS
    assert [each for each in _NOT_SETTINGS if f"| `{each}` |" not in said("settings")] == []


def test_every_field_of_a_job_is_told() -> None:
    """Each stands in a row."""
    assert set(re.findall(r"^\| `([\w.]+)` \|", said("job-fields"), re.MULTILINE)) == FIELDS.keys()


def words_below(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield words
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        if not below.hidden:
            yield from words_below(below, (*words, name))


def test_every_command_and_option_is_told() -> None:
    """Each command has a heading, and below it a row for each option of its own."""
    sections = dict(re.findall(r"^### (tokimori .+)\n((?:(?!##).*\n)*)", said("commands"), re.MULTILINE))
    commands = [" ".join(words) for words in words_below(program, ("tokimori",))]
    assert len(commands) > 100
    assert [each for each in commands if each not in sections] == []
    everywhere = said("commands").partition("## Exit codes")[0]
    for words, section in sections.items():
        command: click.Command = program
        for name in words.split()[1:]:
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), name)
            assert found is not None
            command = found
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        for option in options:
            name = max(option.opts, key=len)
            assert name in section or name in everywhere or name in ("--help", "--version"), (words, name)


TYPED = re.compile(
    r"(?:^|[|&;] *|\$ |`)(?:\w+=\S+ )*tokimori ((?:--(?:store|server|context) \S+ )*)([^`|&;<>\n#]*)", re.MULTILINE
)


def typed_in(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command of ours that stands on a page, without the options that are said everywhere."""
    for found in TYPED.finditer(page.read_text().replace("\\\n", " ")):
        try:
            yield shlex.split(re.sub(r"[\[\],…]", "", found[2]))
        except ValueError:  # a quotation mark of the text around it
            yield found[2].split()


@pytest.mark.parametrize(
    "page",
    sorted({*MANUAL.rglob("*.md"), ROOT / "README.md"} - {*MANUAL.glob("decisions/*"), REFERENCE / "commands.md"}),
    ids=lambda page: page.stem,
)
def test_every_command_of_the_manual_is_there(page: Path) -> None:
    """Whatever a page says to type is a command with these options."""
    for words in typed_in(page):
        command: click.Command = program
        context, rest = click.Context(program), words
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-") and not rest[0].isupper():
            if command.name == "lock" and rest[0] not in command.list_commands(context):
                break
            try:
                _, found, rest = command.resolve_command(context, rest)
            except click.UsageError as error:
                raise AssertionError(f"{page}: tokimori {' '.join(words)}: {error.message}") from error
            assert found is not None
            command, context = found, click.Context(found, parent=context)
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {
            "--help",
            "--version",
        }
        said = [word.partition("=")[0] for word in itertools.takewhile(lambda word: word != "--", rest)]
        lacks = [word for word in said if re.fullmatch(r"--[a-z][a-z-]+", word) and word not in known]
        assert lacks == [] or isinstance(command, click.Group), (page, words, lacks)


def test_every_public_name_of_python_is_told() -> None:
    """Each name of `tokimori` stands on the page, and each operation of a client below its part."""
    page = said("python")
    told = set(re.findall(r"^### ([\w.]+)", page, re.MULTILINE)) | set(
        re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    )
    assert [name for name in names.__all__ if name not in told] == []
    with tokimori.open("memory:") as client:
        parts = [name for name in dir(Client) if not name.startswith("_")] + list(vars(client))
        for noun in (name for name in parts if not name.startswith("_")):
            part = getattr(client, noun)
            members = [name for name in dir(part) if not name.startswith("_")] if f"### client.{noun}" in page else []
            assert [name for name in members if not re.search(rf"[`>]{noun}\.{name}\b", page)] in ([], ["noun", "word"])
    assert "### client.jobs" in page


def test_every_path_of_http_is_told() -> None:
    """Each operation of the document stands in a row."""
    page = said("http")
    assert [each.id for each in ALL if f"`{each.method} {path_of(each)}`" not in page] == []


def test_every_error_is_told() -> None:
    """Each code, and each that a node answers by itself, stands there with what to do; there are no others."""
    codes = {code for name in names.__all__ if isinstance(code := getattr(getattr(tokimori, name), "code", None), str)}
    here = set()
    for path in (ROOT / "src/tokimori/api").rglob("*.py"):
        here |= set(re.findall(r"refusal\(\s*\d+,\s*\"(\w+)\"|code=\"(\w+)\"", path.read_text()))
    alone = {one or other for one, other in here}
    assert alone - codes == OF_HTTP.keys()
    assert codes | alone == ADVICE.keys()
    assert [each for each in ADVICE if f"| `{each}` |" not in said("errors")] == []


def test_every_metric_is_told() -> None:
    """Each family that a node tells stands on the page."""
    text = Metrics().text(StoreFigures(runs={"ready": 1}, ready={"a": 1}), 5.0, {"fired": 0}, ["run"])
    families = [each.name for each in text_string_to_metric_families(text.decode()) if each.type != "unknown"]
    assert len(families) > 12
    assert [each for each in families if f"`{each}" not in said("metrics")] == []


def events_in_code() -> set[str]:
    """Return the types that the code names: at operations, for parts of sets, and where nobody asked for the change."""
    found = {f"node.{each}" for each in nodes._BECAME.values()}
    found |= {f"{kind}.{each}" for kind in ("job", *PARTS_OF_SETS.values()) for each in BECAME.values()}
    texts = (path.read_text() for path in (ROOT / "src/tokimori").rglob("*.py"))
    for text in (text for text in texts if 'event="' in text):
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                said = {each.arg: each.value.value for each in call.keywords if isinstance(each.value, ast.Constant)}
                event = said.get("event")
                if call.func.id == "operation" and event in ("made", None):
                    continue
                if isinstance(event, str) and event:
                    found.add(event)
    return found


def test_every_type_of_event_is_told() -> None:
    """Each end of a run, each event that an operation declares, and those of the engine stand there; no other does."""
    page = said("event-types")
    told = set(re.findall(r"^\| `([\w.*]+)` \|", page, re.MULTILINE))
    assert {each for each in told if each.startswith("run.")} == {f"run.{each}" for each in ENDS}
    named = events_in_code()
    assert len(named) > 25
    whole = {each for each in named if "." in each}
    assert {"job.parked", "changes.left_out", "node.drained", "queue.deleted"} <= whole <= told
    endings = named - whole
    assert [each for each in endings if not any(one.endswith(f".{each}") for one in told)] == []
    rest = told - whole - {"audit.*", "gap"}
    assert [each for each in rest if each.partition(".")[2] not in endings | {"added", "changed"} | {*ENDS}] == []


def test_every_schedule_of_the_page_is_one() -> None:
    """Each text in the table is read by the parser, and each notation that the parser allows stands there."""
    page = said("schedules")
    texts = re.findall(r"^\| `([^`]+)` \| [A-Z]", page, re.MULTILINE)
    assert len(texts) > 50
    for text in texts:
        parse_schedule(text.replace("\\|", "|"), zone="UTC", anchor=tokimori.Moment(0))
    begins = (
        "@hourly",
        "@yearly",
        "@reboot",
        "@every",
        "R5/",
        "every ",
        "on friday at",
        "at 2030",
        "2030/*",
        "on demand",
    )
    assert [each for each in begins if not any(text.startswith(each) for text in texts)] == []
