"""`tokimori task …`. What only work needs is imported when it is used, so that help need not wait for it."""

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tokimori.cli.command import Command, CommandWithArguments, Group, arguments_given, options
from tokimori.cli.job_printing import next_cell
from tokimori.cli.output import local, print_answer, print_fields, print_json, print_lines, print_notice
from tokimori.cli.session import Absent, in_service, load
from tokimori.cli.table import At, State, listing, print_found, print_list
from tokimori.errors import InvalidInput, NotFound, Refused

if TYPE_CHECKING:
    from tokimori.model.run import Run
    from tokimori.service.service import Service
    from tokimori.service.tasks.tasks import TaskDetails, TaskState

_T = TypeVar("_T")
_SHOWN = 10
SHORT = 12
"""Characters of a digest that are shown."""

task = Group(
    "task",
    help="Tasks as code: each is a folder in the workspace, is frozen by `build`, and is the job of its name.",
    nouns={
        "build": ("tokimori.cli.task:build", "Freeze tasks, and let nodes run them so from now on."),
        "run": ("tokimori.cli.task:run", "Run the source of a task here and now, as a build would be."),
        "logs": ("tokimori.cli.task_logs:logs", "Print the log of a task, or follow it."),
    },
)


def tasks_dir() -> Path:
    """Return the folder of tasks of the workspace. Raises `Refused` if there is none."""
    found = load(may_ask_elsewhere=True).settings.tasks_dir
    if found is None:
        message = "There is no workspace here. Run `tokimori init` to make one, or name another's tokimori.toml by -c."
        raise Refused(message, field="tasks_dir", allowed="a folder")
    if not found.is_dir():
        shown = found.relative_to(Path.cwd()) if found.is_relative_to(Path.cwd()) else found
        message = f"{shown}/ is missing: create it, or set `tasks_dir` to another folder."
        raise Refused(message, field="tasks_dir", value=str(found), allowed="a folder")
    return found


@task.command()
@click.argument("name")
@click.option("--desc", "--description", "description", metavar="TEXT", default="", help="What it is for.")
@click.option("--force", is_flag=True, help="In place of a task of this name, whose source is lost.")
def create(name: str, description: str, force: bool) -> None:
    """Write the source of a new task: tasks/NAME/ with function.py, schedule.py and .env."""
    from tokimori.workspace.scaffold import create as create_source

    made = create_source(tasks_dir(), name, description, force=force)
    print_answer(
        {"name": name, "folder": made},
        f"created {name}: write {made / 'function.py'}, then `tokimori task build {name}`",
    )


_COLUMNS = ("NAME", "STATE", "SCHEDULE", "NEXT", "BUILD", "DESCRIPTION")


@task.command("list")
@click.option("--state", metavar="STATE", help="Only those in this state, such as enabled, paused, parked or deleted.")
@listing(_COLUMNS)
def list_tasks(state: str | None) -> None:
    """List tasks by name."""
    from tokimori.service.views.tasks import TaskDetails as TaskView

    listed = [(each, [_row(each)]) for each in in_service(_all_tasks) if state in {None, _state(each)}]
    print_list(_COLUMNS, listed, TaskView.made, spare=("BUILD",))


def _state(details: "TaskDetails") -> str:
    return "deleted" if details.job is None else details.job.state.value


def _row(details: "TaskDetails") -> tuple[object, ...]:
    record, job = details.record, details.job
    return (
        record.name,
        State(_state(details)),
        record.build.schedule or "on demand",
        next_cell(job),
        record.build.digest[:SHORT],
        record.build.description,
    )


async def _all_tasks(service: "Service") -> "Sequence[TaskDetails]":
    from tokimori.service.validation import MOST_LISTED

    found = list(await service.tasks.list(limit=MOST_LISTED))
    page = found
    while len(page) == MOST_LISTED:
        page = list(await service.tasks.list(page[-1].record.name, MOST_LISTED))
        found += page
    return found


@task.command()
@click.argument("name")
@click.option("--format", "form", type=click.Choice(["ours", "keiji"]), default="ours", help="Ours, or Keiji's lines.")
def get(name: str, form: str) -> None:
    """Show a task: its schedule, its state, its build."""
    from tokimori.cli.task_logs import keiji_lines
    from tokimori.service.views.tasks import TaskState as TaskStateView

    state = in_service(lambda service: service.tasks.state(name))
    if form == "keiji":
        print_lines(*keiji_lines(state, load(may_ask_elsewhere=True).settings.state_dir))
    elif options().as_json:
        print_json(TaskStateView.made(state))
    else:
        _print_state(state)


def _print_state(state: "TaskState") -> None:
    record, job = state.details.record, state.details.job
    zone = "UTC" if job is None else job.definition.time_zone
    print_fields(
        [
            ("name", record.name),
            ("id", record.id),
            ("description", record.build.description),
            ("state", "deleted" if job is None else job.state.value),
            ("schedule", record.build.schedule or "on demand"),
            ("time zone", zone),
            ("next", next_cell(job)),
            ("last", local(None if state.ended is None else state.ended.started, zone)),
            ("last ended", None if state.ended is None else state.ended.state.value),
            ("error", None if state.ended is None else state.ended.error),
            ("runs now", "yes" if state.running else "no"),
            ("waits", "yes" if state.waiting else "no"),
            ("build", record.build.digest),
            ("built", f"{local(record.build.at, zone)} by {record.build.by or '-'}"),
            ("depends on", ", ".join(record.build.dependencies) or "nothing"),
        ]
    )


@task.command()
@click.argument("name")
def builds(name: str) -> None:
    """List the builds of a task that are kept, the newest first."""
    from tokimori.service.views.tasks import TaskBuild

    found = in_service(lambda service: service.tasks.get(name))
    zone = "UTC" if found.job is None else found.job.definition.time_zone
    rows = [
        (
            each.digest[:SHORT],
            "runs" if each.digest == found.record.current else "",
            At(each.at, zone),
            each.by,
            each.size,
            each.schedule or "on demand",
        )
        for each in found.record.builds
    ]
    print_found(
        [TaskBuild.made(each) for each in found.record.builds],
        ("ID", "NOW", "BUILT", "BY", "BYTES", "SCHEDULE"),
        rows,
        spare=("BY", "BYTES"),
    )


@task.command()
@click.argument("name")
@click.argument("digest", required=False)
def rollback(name: str, digest: str | None) -> None:
    """Let a task run an earlier build again: the one before, or the one whose digest begins so."""
    _do_and_print("rolled back", lambda service: service.tasks.rollback(name, digest))


@task.command()
@click.argument("name")
def disable(name: str) -> None:
    """Pause a task: none of its runs starts, and running ones go on."""
    _do_and_print("disabled", lambda service: service.tasks.pause(name))


@task.command()
@click.argument("name")
def enable(name: str) -> None:
    """Let a task run again."""
    _do_and_print("enabled", lambda service: service.tasks.resume(name))


@task.command()
@click.argument("name")
def resolve(name: str) -> None:
    """Let a task run again that a failure has stopped."""
    _do_and_print("resolved", lambda service: service.tasks.resolve(name))


@task.command()
@click.argument("name")
def restart(name: str) -> None:
    """End the running runs of a task, and start it anew. If none runs, its next run is that of its schedule."""
    _do_and_print("restarted", lambda service: service.tasks.restart(name))


@task.command()
@click.argument("name")
@click.option("--now", is_flag=True, help="Also cancel its running runs, instead of letting them finish.")
def delete(name: str, *, now: bool) -> None:
    """Delete a task with its job and its builds. Its source stays."""

    async def act(service: "Service") -> "Sequence[Run]":
        await service.tasks.delete(name, now=now)
        return await outlived(service, name)

    left = in_service(act)
    print_answer({"name": name, "deleted": True}, f"deleted {name}; its source stays")
    if not now:
        print_outlived(name, left)


async def outlived(service: "Service", name: str) -> "Sequence[Run]":
    """Return the runs of a deleted job that still run, some of them if they are many."""
    from tokimori.model.transitions import RunState

    with suppress(NotFound):
        if (await service.jobs.get(name)).state.value == "deleted":
            return (await service.runs.list(job_id=name, state=RunState.RUNNING, limit=_SHOWN, longest=0)).runs
    return ()


def print_outlived(name: str, runs: "Sequence[Run]", then: str = "") -> None:
    """Print the runs of a deleted job that go on."""
    for run in runs:
        print_notice(f"run {run.id} of the deleted {name} still runs{then}: `tokimori run cancel {run.id}` ends it")


def _do_and_print(done: str, act: "Callable[[Service], Awaitable[TaskDetails]]") -> None:
    print_done(done, in_service(act))


def print_done(done: str, details: "TaskDetails") -> None:
    """Print a change of a task, and its next run."""
    from tokimori.service.views.tasks import TaskDetails as TaskView

    if options().as_json:
        print_json(TaskView.made(details))
        return
    record, job = details.record, details.job
    state = "deleted" if job is None else job.state.value
    upcoming = "" if job is None or job.next_due is None else f", next {next_cell(job)}"
    print_lines(f"{done} {record.name}: {state}, build {record.build.digest[:SHORT]}{upcoming}")


if TYPE_CHECKING:
    from tokimori.service.service import Service
    from tokimori.service.tasks.tasks import TaskDetails
    from tokimori.workspace.freezing import Frozen


@click.command(cls=Command)
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All tasks of the workspace.")
@click.option("--restart", is_flag=True, help="End what runs of it, and start it anew.")
def build(names: Sequence[str], everything: bool, restart: bool) -> None:
    """Freeze tasks: check the source, evaluate the schedule, lock the dependencies, and store the build by digest.

    From now on all nodes run exactly this build, even if the source changes. Each build is stored when it is made; a
    refused one ends the command and leaves nothing.
    """
    import os

    from tokimori.workspace.freezing import freeze
    from tokimori.workspace.source import names_in

    folder = tasks_dir()
    if bool(names) == everything:
        raise InvalidInput("name: which task is to be built?", field="name", allowed="names, or --all")

    async def act(service: "Service") -> None:
        for name in names_in(folder) if everything else names:
            frozen = freeze(folder, name, os.environ)
            left = await outlived(service, name)
            print_done("built", await store_build(service, name, frozen, restart=restart))
            if not restart:
                print_outlived(name, left, "; the new one may run beside it")

    in_service(act, Absent.MADE)


async def store_build(service: "Service", name: str, frozen: "Frozen", *, restart: bool) -> "TaskDetails":
    """Store a build: first its pieces, then its record."""
    from tokimori.model.build import pieces_of

    for number, piece in enumerate(pieces_of(frozen.content)):
        await service.tasks.put_piece(name, frozen.record.digest, number, piece)
    return await service.tasks.build(name, frozen.record, restart=restart)


@click.command(cls=CommandWithArguments)
@click.argument("name")
def run(name: str) -> None:
    """Run the source of a task here and now, frozen as a build would be: its exit code is that of this command.

    Nothing is recorded, and no node takes part. It has the environment of this shell, and the task's .env.
    """
    from tokimori.client.opening import make_state_dir
    from tokimori.executors.builds import BuildCache
    from tokimori.model.build import digest_of
    from tokimori.workspace.freezing import content_of_source
    from tokimori.workspace.source import read_source

    source = read_source(tasks_dir(), name)
    content = content_of_source(source)
    state_dir = load(may_ask_elsewhere=True).settings.state_dir
    make_state_dir(state_dir)
    cache, digest = BuildCache(state_dir), digest_of(content)
    cache.store(digest, content)
    argv = [cache.python_of(digest), "-u", str(cache.file_of(digest)), *(arguments_given() or ())]
    _become(argv, {**os.environ, **source.env})


def _become(argv: list[str], environment: dict[str, str]) -> None:
    """Let the program take the place of this one: its streams, its signals and its exit code are then its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(argv[0], argv, environment)  # noqa: S606 no shell is wanted
