"""What the command line can do and what the API can do, as two lists."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import click
import pytest
from msgspec import Struct
from msgspec.structs import fields

from tokimori.api.app import operations
from tokimori.api.jobs import JobQuery
from tokimori.api.runs import RunQuery
from tokimori.cli.command import Group
from tokimori.cli.main import program
from tokimori.clock import SystemClock
from tokimori.formats.registry import FORMATS
from tokimori.node.http_door import formats
from tokimori.service.definitions.arguments import JobFilters, RunFilters
from tokimori.service.operation import members_in
from tokimori.service.service import PARTS

SAME: Mapping[str, str] = MappingProxyType(
    {
        **{f"job import {kind}": f"import_{kind}" for kind in FORMATS},
        "verify": "job_verify",
        "job disable": "job_pause",
        "job enable": "job_resume",
        "task disable": "task_pause",
        "task enable": "task_resume",
        "job modify": "job_edit",
        "job logs": "run_logs",
        "alarms": "expectation_alarms",
        "expect": "expectation_set",
        "ping": "expectation_ping",
        "lock list": "semaphore_list",
        "lock set": "semaphore_set",
        "lock delete": "semaphore_delete",
        "events": "event_read",
        "publish": "channel_publish",
        "subscribe": "channel_read",
        "unsubscribe": "channel_unsubscribe",
        "apply": "set_apply",
        "doctor": "db_doctor",
        "logs": "run_logs",
    }
)
"""A command, and the operation that does the same, if they are not called the same."""
ONLY_HERE: Mapping[str, str] = MappingProxyType(
    {
        "serve": "it starts a node",
        "worker": "it starts a node",
        **{f"run report {end}": "it writes a file for its node" for end in ("succeeded", "failed", "retry", "hold")},
        "node address": "it reads the secret, without which nobody asks a door",
        "secret key": "the keys of this machine are files of this machine",
        "db migrate": "who changes tables opens the store",
        "db retire": "nobody works on that store any more",
        "db sql": "who changes tables opens the store",
        "db check": "who changes tables opens the store",
        "db copy": "no node may work while it copies",
        **{f"context {what}": "contexts are a file of this user" for what in ("add", "use", "list")},
        "app check": "the code of an app is in a folder of this user",
        "app version": "nodes declare the jobs of an app, and do so at the store",
        "init": "a workspace is a folder of this user",
        "task create": "the source of a task is in a folder of this user",
        "task run": "it runs here, and no node takes part",
        "backup": "a backup is a file of this machine",
        "restore": "no node may work while it restores",
        **{
            f"system {what}": "it starts, stops or shows a process of this machine"
            for what in ("start", "stop", "restart", "status", "logs", "install", "uninstall", "update")
        },
        "completion": "it is for the shell of this user",
        "top": "it shows on a terminal what run_list, node_list and job_next tell",
        "man": "it writes what the program says of itself",
        "config show": "the settings of this machine are files of this machine",
        "config check": "the settings of this machine are files of this machine",
        "config import": "the settings of this machine are files of this machine",
    }
)
"""Commands that no door can offer, and why."""
OTHERS_WORD, ALL, FORMAT = "a word of the systems that people come from", "for all things", "the name of a format"
NAMED_OTHERWISE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("job disable", "job enable", "job modify", "task disable", "task enable"), OTHERS_WORD),
        **{f"lock {what}": "a semaphore that a command holds is a lock" for what in ("list", "set", "delete")},
        **{f"job import {kind}": FORMAT for kind in FORMATS},
        "expect": "it sets an expectation",
        "events": "it reads on without end",
        "subscribe": "it reads on without end",
        "job logs": "of the newest run",
    }
)
"""Commands that are not called as their operation, and why."""
ONLY_OVER_HTTP: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("everything_pause", "everything_resume", "graph", "nodes_drain", "nodes_resume", "nodes_stop"), ALL
        ),
        **{f"notifier_{what}": "a notifier is a job" for what in ("add", "list", "show", "delete", "test")},
        **{f"export_{kind}": FORMAT for kind in ("crontab", "toml", "json")},
        **{f"import_{kind}": FORMAT for kind in FORMATS},
        "run_add": "a run is made by a trigger of its job",
        "run_attempt": "a part of what `runs.get` returns",
        "run_attempts": "a part of what `runs.get` returns",
        "run_logs": "`runs.output`, line by line",
        "set_show": "one of what `sets.list` returns",
        "stats": "a few counts of runs and nodes",
    }
)
"""Operations of HTTP that are none of Python, and why."""


FILTERS: Mapping[str, type[Struct]] = MappingProxyType({"job list": JobQuery, "run list": RunQuery})
"""Commands that list, and the query of their operation."""
ON_A_TERMINAL = {"watch"}
"""Options that say how a terminal shows it."""
SAID_OTHERWISE: Mapping[str, str] = MappingProxyType({"job": "job_id", "n": "limit", "contains": "text"})
"""Options that are shorter than their parameter."""
ONLY_IN_PAGES = {"job list": {"after", "limit"}, "run list": set[str]()}
"""Parameters that a list of everything does not need."""
OF_THE_ANSWER = {"last_runs", "fields"}
"""Parameters that choose what is shown, not what is found."""


def commands(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command below the group, as it is typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, Group):
            yield from commands(found, (*names, name))
        else:
            yield " ".join((*names, name))


def offered() -> set[str]:
    """The operations over HTTP."""
    return {each.id for each in operations(lambda _: None, None, formats(SystemClock()))}  # type: ignore[arg-type, return-value]


def test_the_api_can_do_what_the_command_line_can() -> None:
    """Each command has an operation that does the same, or a reason why none can; what is missing is named."""
    typed, names = set(commands(program)), {same(name) for name in offered()}
    missing = {command for command in typed - ONLY_HERE.keys() if same(SAME.get(command, command)) not in names}
    assert sorted(missing) == []
    assert sorted((SAME.keys() | ONLY_HERE.keys()) - typed) == []


def same(name: str) -> str:
    """A name as Python says it: what a terminal shows is got there."""
    return re.sub("[ _](show|get)$", "_get", name).replace(" ", "_")


def test_an_operation_has_one_name_at_all_doors() -> None:
    """A command, its path and its method are called the same (get is shown in a terminal), or a reason is given."""
    python = {f"{word}_{name}" for kind in PARTS for name in members_in(kind) for word in (kind.word, kind.noun[:-1])}
    python |= {f"{kind.noun}_{name}" for kind in PARTS for name in members_in(kind)}
    assert sorted(name for name in offered() - ONLY_OVER_HTTP.keys() if same(name) not in python) == []
    assert sorted(ONLY_OVER_HTTP.keys() - offered()) == []
    otherwise = {command for command, name in SAME.items() if " " in command or not name.endswith(f"_{command}")}
    assert sorted(otherwise ^ NAMED_OTHERWISE.keys()) == []


def options_of(line: str) -> set[str]:
    """The options of a command, without dashes."""
    found: click.Command = program
    for word in line.split():
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), word)
        assert command is not None
        found = command
    return {name.lstrip("-").replace("-", "_") for each in found.params for name in each.opts}


@pytest.mark.parametrize("line", FILTERS)
def test_lists_have_the_same_filters_everywhere(line: str) -> None:
    """An option of the command is a parameter of the operation and a field of what the Python client takes."""
    options = {SAID_OTHERWISE.get(name, name) for name in options_of(line) - options_of("queue list") - ON_A_TERMINAL}
    asked = {field.name for field in fields(FILTERS[line])}
    kind = JobFilters if line == "job list" else RunFilters
    assert options == asked - ONLY_IN_PAGES[line] - OF_THE_ANSWER
    assert kind.__annotations__.keys() - {"longest"} == asked - OF_THE_ANSWER
