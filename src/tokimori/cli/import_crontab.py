"""`tokimori job import crontab`"""

import os
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePath

import click

from tokimori.cli.command import Command
from tokimori.cli.completing import zones
from tokimori.cli.importing import Jobs, finish, name_of, read_all, text_of
from tokimori.cli.machine_zone import machine_zone
from tokimori.cli.session import user_name
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.email import Tls
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions import fields_of
from tokimori.translators.crontab import Crontab, read_crontab
from tokimori.translators.crontab_mail import with_mail

SYSTEM_PLACES = (PurePath("/etc/crontab"), PurePath("/etc/cron.d"))
SPOOL = PurePath("/var/spool/cron")


@click.command(cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--system", is_flag=True, help="System crontabs: each line names a user. Pins the jobs to this host.")
@click.option("--anywhere", is_flag=True, help="With --system: let any node run the jobs.")
@click.option("--user", metavar="NAME", help="The owner of the crontabs; the jobs run as that user.")
@click.option(
    "--timezone",
    "time_zone",
    metavar="ZONE",
    shell_complete=zones,
    help="The zone, instead of this machine's; CRON_TZ comes first.",
)
@click.option("--smtp", metavar="HOST[:PORT]", help="Mail failures to MAILTO by this server: adds notifiers.")
@click.option("--sender", metavar="ADDRESS", help="With --smtp: from whom these mails are.")
@click.option(
    "--tls",
    type=click.Choice([each.value for each in Tls]),
    default=Tls.STARTTLS.value,
    help="With --smtp: by default starttls.",
)
@click.option("--dry-run", is_flag=True, help="Read and show, import nothing.")
def crontab(
    *,
    files: tuple[str, ...],
    system: bool,
    anywhere: bool,
    user: str | None,
    time_zone: str | None,
    smtp: str | None,
    sender: str | None,
    tls: str,
    dry_run: bool,
) -> None:
    """Import crontabs; - reads standard input. All lines of all files are checked before anything is imported.

    Jobs that exist already stay as they are.
    """
    if (smtp is None) != (sender is None):
        field = "sender" if sender is None else "smtp"
        raise InvalidInput(f"{field}: it is missing", field=field, allowed="--smtp and --sender together, or neither")
    if system and user is not None:
        allowed = "only without --system: there, each line names its user"
        raise InvalidInput(f"user: {user!r} together with --system", field="user", value=user, allowed=allowed)
    zone = machine_zone(os.environ) if time_zone is None else check_zone(time_zone)
    host = socket.gethostname() if system and not anywhere else None
    crontabs = [_crontab(file, zone=zone, host=host, system=system, user=user) for file in files]
    jobs = read_all([partial(_read, file, each) for file, each in zip(files, crontabs, strict=True)])
    if smtp is not None and sender is not None:
        jobs = with_mail(jobs, smtp, sender, Tls(tls))
    finish(jobs, list(_notes(jobs, crontabs, mails=smtp is not None)), dry_run=dry_run)


# Reading


def _crontab(file: str, *, zone: str, host: str | None, system: bool, user: str | None) -> Crontab:
    """What the text does not say. Where cron keeps the files of users, a file is named after its user."""
    path = PurePath(file)
    if user is None and not system and SPOOL in path.parents:
        user = path.name
    return Crontab(
        file=name_of(file),
        zone=zone,
        owner=user or user_name() or str(os.geteuid()),
        system=system,
        run_as=user,
        host=host,
    )


def _read(file: str, crontab: Crontab) -> Jobs:
    path = PurePath(file)
    if not crontab.system and any(place in (path, *path.parents) for place in SYSTEM_PLACES):
        raise InvalidFile(f"{file}: it is a system crontab, where each line names a user; use --system")
    return read_crontab(text_of(file), crontab)


def _notes(jobs: Jobs, crontabs: Sequence[Crontab], *, mails: bool) -> Iterator[str]:
    """What is different from cron."""
    if not jobs:
        return
    fields = [fields_of(definition) for _, definition in jobs]
    yield "cron still runs these jobs: remove them from its files, or they run twice"
    told = "mails failures to MAILTO" if mails else "sends nothing to MAILTO without --smtp"
    yield f"cron mails what jobs write; Tokimori keeps it (`tokimori run logs`), and {told}"
    if any(each.get("user") for each in fields):
        yield "only a node that runs as root can run jobs as other users"
    if hosts := {each.host for each in crontabs if each.host is not None}:
        yield f"only a node on {', '.join(hosts)} runs these jobs (--anywhere: any node)"
    for each in crontabs:
        if each.system and "." in PurePath(each.file).name:
            yield f"cron itself ignores {each.file}, because of the dot in its name"
