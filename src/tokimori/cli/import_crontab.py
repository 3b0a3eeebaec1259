"""`tokimori job import crontab`"""

import getpass
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import click
from msgspec.structs import replace

from tokimori.cli.command import Command, options
from tokimori.cli.machine_zone import machine_zone
from tokimori.cli.output import local, print_json, print_lines, print_notice, print_table
from tokimori.cli.session import in_service
from tokimori.clock import Moment, SystemClock, format_moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.job import Definition, schedule_of
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions import fields_of
from tokimori.service.service import Service
from tokimori.translators.crontab import Crontab, read_crontab

STDIN = "-"
SYSTEM_PLACES = (PurePath("/etc/crontab"), PurePath("/etc/cron.d"))
SPOOL = PurePath("/var/spool/cron")

Jobs = Sequence[tuple[str, Definition]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What became of the jobs. `differing`: those of `unchanged` that are not as the files say, with the fields."""

    added: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    differing: dict[str, tuple[str, ...]]

    def word(self, job_id: str) -> str:
        """What became of one job."""
        if job_id in self.differing:
            return "kept"
        return "added" if job_id in self.added else "unchanged" if job_id in self.unchanged else "not imported"


@click.command(cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--system", is_flag=True, help="System crontabs: each line names a user. Pins the jobs to this host.")
@click.option("--anywhere", is_flag=True, help="With --system: let any node run the jobs.")
@click.option("--user", metavar="NAME", help="Whose crontabs they are; the jobs run as that user.")
@click.option("--timezone", "time_zone", metavar="ZONE", help="Instead of this machine's; CRON_TZ comes first.")
@click.option("--dry-run", is_flag=True, help="Read and show, import nothing.")
def crontab(
    *, files: tuple[str, ...], system: bool, anywhere: bool, user: str | None, time_zone: str | None, dry_run: bool
) -> None:
    """Import crontabs; - reads standard input. All lines of all files are checked before anything is imported.

    Jobs that were imported before stay as they are.
    """
    if system and user is not None:
        allowed = "only without --system: there, each line names its user"
        raise InvalidInput(f"user: {user!r} beside --system", field="user", value=user, allowed=allowed)
    zone = machine_zone(os.environ) if time_zone is None else check_zone(time_zone)
    host = socket.gethostname() if system and not anywhere else None
    crontabs = [_crontab(file, zone=zone, host=host, system=system, user=user) for file in files]
    jobs = _read_all(files, crontabs)
    done = Import(differing={}) if dry_run else in_service(lambda service: _import(service, jobs))
    if options().as_json:
        print_json(_as_json(jobs, done))
    else:
        _print(jobs, done)
        for note in _notes(jobs, crontabs):
            print_notice(f"note: {note}")


# Reading


def _crontab(file: str, *, zone: str, host: str | None, system: bool, user: str | None) -> Crontab:
    """What the text does not say: a file where cron keeps those of users belongs to the user after whom it is named."""
    path = PurePath(file)
    if user is None and not system and SPOOL in path.parents:
        user = path.name
    name = "stdin" if file == STDIN else file
    return Crontab(file=name, zone=zone, owner=user or getpass.getuser(), system=system, run_as=user, host=host)


def _read_all(files: Sequence[str], crontabs: Sequence[Crontab]) -> Jobs:
    """The jobs of all files. Raises `InvalidFile` with every bad line of every file."""
    jobs: list[tuple[str, Definition]] = []
    faults: list[str] = []
    for file, crontab in zip(files, crontabs, strict=True):
        try:
            jobs += read_crontab(_text_of(file, crontab), crontab)
        except InvalidFile as fault:
            faults.append(fault.message)
    faults += _clashes(jobs)
    if faults:
        raise InvalidFile("\n".join([*faults, "nothing was imported"]), field="file")
    return jobs


def _text_of(file: str, crontab: Crontab) -> str:
    path = PurePath(file)
    if not crontab.system and any(place in (path, *path.parents) for place in SYSTEM_PLACES):
        raise InvalidFile(f"{file}: it is a system crontab, each line of which names a user; say --system")
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as fault:
        raise InvalidFile(f"{file}: it can't be read: {fault.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def _clashes(jobs: Jobs) -> Iterator[str]:
    """Ids are counted within a file: only two files of one name can have the same."""
    places: dict[str, str | None] = {}
    for job_id, definition in jobs:
        if job_id in places:
            yield f"{definition.description}: its id would be {job_id}, as that of {places[job_id]}; rename a file"
        places.setdefault(job_id, definition.description)


# Importing


async def _import(service: Service, jobs: Jobs) -> Import:
    imported = await service.import_all(jobs)
    differing = {}
    for job_id, definition in jobs:
        if job_id in imported.unchanged:
            stored = (await service.get(job_id)).definition
            if fields := _differences(stored, definition):
                differing[job_id] = fields
    return Import(added=imported.added, unchanged=imported.unchanged, differing=differing)


def _differences(stored: Definition, read: Definition) -> tuple[str, ...]:
    """The fields in which they differ. The description says in which line a job stood, which may move."""
    old, new = (fields_of(replace(definition, description=None)) for definition in (stored, read))
    return tuple(name for name in {**old, **new} if old.get(name) != new.get(name))


# Printing


def _next_moment(definition: Definition) -> Moment | None:
    now = SystemClock().now()
    return schedule_of(definition, now).next_after(now)


def _as_json(jobs: Jobs, done: Import) -> dict[str, object]:
    return {
        "added": done.added,
        "unchanged": done.unchanged,
        "differing": done.differing,
        "jobs": [
            {"id": job_id, "next_time": _time(definition), **fields_of(definition)} for job_id, definition in jobs
        ],
    }


def _time(definition: Definition) -> str | None:
    moment = _next_moment(definition)
    return None if moment is None else format_moment(moment)


def _print(jobs: Jobs, done: Import) -> None:
    rows = []
    for job_id, definition in jobs:
        fields = fields_of(definition)
        upcoming = local(_next_moment(definition), definition.time_zone)
        user = fields.get("user") or definition.owner
        rows.append((job_id, done.word(job_id), definition.schedule, upcoming, user, fields["command"]))
    if rows:
        print_table(("ID", "RESULT", "SCHEDULE", "NEXT", "USER", "COMMAND"), rows)
    print_lines(f"{len(jobs)} jobs read, {len(done.added)} added, {len(done.unchanged)} unchanged")
    for job_id, names in done.differing.items():
        print_notice(f"warning: {job_id} exists with another {', '.join(names)}; it was left as it is")


def _notes(jobs: Jobs, crontabs: Sequence[Crontab]) -> Iterator[str]:
    """What is not as it was under cron."""
    if not jobs:
        return
    fields = [fields_of(definition) for _, definition in jobs]
    yield "cron still runs these jobs: take them out of its files, or both will"
    yield "cron mails what jobs write; Tokimori keeps it (`tokimori run logs`), and MAILTO for later"
    if any(each.get("user") for each in fields):
        yield "only a node that runs as root can run jobs as other users"
    if hosts := {each.host for each in crontabs if each.host is not None}:
        yield f"only a node on {', '.join(hosts)} runs these jobs (--anywhere: any node)"
    for each in crontabs:
        if each.system and "." in PurePath(each.file).name:
            yield f"cron itself ignores {each.file}, because of the dot in its name"
