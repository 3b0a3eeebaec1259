"""User and system crontabs."""

import pwd
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, get_args

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.executors.http.addresses import may_be_asked, networks_of
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Option, Text
from tokimori.formats.importing import at_once, files_in, name_of, of_files, text_of
from tokimori.model.email import Tls, server_of

if TYPE_CHECKING:
    from tokimori.translators.crontab import Crontab
    from tokimori.translators.entries import Entry

SYSTEM_PLACES = (PurePath("/etc/crontab"), PurePath("/etc/cron.d"))
SPOOL = PurePath("/var/spool/cron")
_READ_BY_CRON = re.compile(r"[\w-]+", re.ASCII)
"""Names of the files in a folder that cron reads."""
Dialects = Literal["debian", "cronie", "busybox", "supercronic"]
_TEXT = "text"
"""The name of a text read over HTTP, in messages: it is no file."""


class CrontabRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A crontab. In one of the `system` each line names a user; else the jobs run as `user`, if one is given.

    With `host` only nodes on that host run them. `dialect` is the program that ran it; `prefix` stands before each id.
    """

    text: Text
    dialect: Dialects = "cronie"
    prefix: str = ""
    system: bool = False
    user: str | None = None
    host: str | None = None


def _read(said: CrontabRequest, _now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.crontab import Crontab, CrontabDialect, read_crontab

    crontab = Crontab(
        file=_TEXT,
        zone=said.time_zone,
        owner=said.user or _TEXT,
        system=said.system,
        run_as=said.user,
        host=said.host,
        dialect=CrontabDialect(said.dialect),
        prefix=said.prefix,
    )
    return read_crontab(said.text, crontab)


def _source(given: Given) -> FormatSource:
    from tokimori.translators.crontab import read_crontab
    from tokimori.translators.crontab_mail import with_mail

    _check(given)
    (zone, notes), crontabs, taken = given.zone(), list["Crontab"](), Counter[str]()

    def read(file: str) -> "Iterator[Entry]":
        crontabs.append(_crontab(file, zone, given))
        return read_crontab(text_of(file), crontabs[-1], taken)

    files = files_in(given.sources, _READ_BY_CRON, "crontabs (no dot in a name)")
    found: Sequence[Entry] = of_files(files, read)
    if (smtp := given.options["smtp"]) is not None:
        found = with_mail(found, smtp, given.options["sender"], Tls(given.options["tls"]))
    if smtp is not None:
        notes += tuple(_of_server(smtp, Tls(given.options["tls"]), given.networks()))
    return FormatSource(at_once(lambda: found), (*notes, *_notes(found, crontabs, mails=smtp is not None)))


def _of_server(smtp: str, tls: Tls, allowed: Sequence[str]) -> Iterator[str]:
    """Say if nodes send no e-mail to the server, as its address is not public."""
    host, port = server_of(smtp, tls)
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError as fault:
        yield f"the mail server {host} is not known here ({fault.strerror}): e-mails would fail"
        return
    if private := sorted(each for each in found if not may_be_asked(each, networks_of(allowed))):
        yield (
            f"the mail server {host} is at {', '.join(private)}, which is not public: nodes send there only with "
            f"the setting targets.private_addresses = {private!r}, else each of them fails"
        )


def _check(given: Given) -> None:
    smtp, sender, user = (given.options[name] for name in ("smtp", "sender", "user"))
    if (smtp is None) != (sender is None):
        field = "sender" if sender is None else "smtp"
        raise InvalidInput(f"{field}: it is missing", field=field, allowed="--smtp and --sender together, or neither")
    if given.options["system"] and user is not None:
        allowed = "only without --system: there, each line names its user"
        raise InvalidInput(f"user: {user!r} together with --system", field="user", value=user, allowed=allowed)


def _crontab(file: str, zone: str, given: Given) -> "Crontab":
    """Return the terms that no crontab names. If cron keeps the files of users, a file is named after its user."""
    from tokimori.translators.crontab import Crontab, CrontabDialect

    path, user, system = PurePath(file), given.options["user"], given.options["system"]
    if not system and any(place in (path, *path.parents) for place in SYSTEM_PLACES):
        raise InvalidFile(f"{file}: it is a system crontab, where each line names a user; use --system")
    if user is None and not system and SPOOL in path.parents:
        user = path.name
    return Crontab(
        file=name_of(file),
        zone=zone,
        owner=user or given.user,
        system=system,
        run_as=user,
        host=given.options["host"] or (socket.gethostname() if system and not given.options["anywhere"] else None),
        dialect=CrontabDialect(given.options["dialect"]),
        prefix=given.options["prefix"],
    )


def _notes(found: "Iterable[Entry]", crontabs: "Sequence[Crontab]", *, mails: bool) -> Iterator[str]:
    """Say what is different from cron."""
    from tokimori.service.definitions.definitions import fields_of
    from tokimori.translators.crontab import PASSING_ON
    from tokimori.translators.entries import Moved

    jobs = [each for each in found if isinstance(each, Moved)]
    yield "cron still runs these jobs: remove them from its files, or they run twice"
    if dialects := {each.dialect for each in crontabs}:
        others = ", ".join(get_args(Dialects))
        yield f"the lines are read as {dialects.pop()} reads them; --dialect names another cron ({others})"
    mail = "mails failures to MAILTO" if mails else "sends nothing to MAILTO without --smtp"
    yield f"cron mails what jobs write; Tokimori keeps it (`tokimori run logs`), and {mail}"
    if any(each.dialect in PASSING_ON for each in crontabs):
        yield (
            "there commands run with the environment of the program, and by supercronic in its folder; here with a "
            "small one (`tokimori job update --env`), in the home folder of their user (`--cwd`)"
        )
    if users := {str(user) for each in jobs if (user := fields_of(each.definition).get("user"))}:
        yield "only a node that runs as root can run jobs as other users"
        if unknown := sorted(user for user in users if not _is_known(user)):
            yield f"this machine has no user {', '.join(unknown)}: their jobs fail on it, and cron ignores such lines"
    if hosts := {each.host for each in crontabs if each.host is not None}:
        yield f"only a node on {', '.join(hosts)} runs these jobs (--anywhere: any node)"
    for each in crontabs:
        if each.system and "." in PurePath(each.file).name:
            yield f"cron itself ignores {each.file}, because of the dot in its name"


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


FORMAT = Format(
    what="jobs of a crontab",
    help="""Sources are files, or folders such as /etc/cron.d; - reads standard input. Times are in this machine's zone,
    unless CRON_TZ names another.""",
    request=CrontabRequest,
    example={"text": "0 3 * * * make report\n"},
    read=_read,
    source=_source,
    options=(
        Option("system", "System crontabs: each line names a user. Pins the jobs to this host."),
        Option("anywhere", "With --system: let any node run the jobs."),
        Option("host", "Pin the jobs to this host, where a node has the label host=NAME.", "NAME"),
        Option("user", "The owner of the crontabs; the jobs run as that user.", "NAME"),
        Option(
            "dialect", "The program that ran them; cronie by default.", default="cronie", choices=get_args(Dialects)
        ),
        Option("prefix", "Put this before each id, such as web1-.", "TEXT", ""),
        Option("smtp", "Mail failures to MAILTO by this server: adds notifiers.", "HOST[:PORT]"),
        Option("sender", "With --smtp: from whom these mails are.", "ADDRESS"),
        Option(
            "tls",
            "With --smtp: by default starttls.",
            default=Tls.STARTTLS.value,
            choices=tuple(map(str, Tls)),
        ),
    ),
    metavar="DIR|FILE...",
    takes_many=True,
)
