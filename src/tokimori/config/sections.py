"""The settings of an app, of the audit log, of channels, of the store, and of a node's log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Meta, Struct, field

from tokimori.errors import InvalidInput
from tokimori.model.policies import Seconds
from tokimori.model.target import pattern_of_stored

Count = Annotated[int, Meta(ge=1)]


class AppSettings(Struct, frozen=True, kw_only=True):
    """The app whose functions a node runs, and its worker processes."""

    load: Annotated[str | None, Meta(description="The app, as MODULE:NAME or FILE.py:NAME; none: no functions.")] = None
    only: Annotated[bool, Meta(description="Run functions of the app alone, and no commands.")] = False
    include: Annotated[tuple[str, ...], Meta(description="Folders where modules of the app are looked for first.")] = ()
    require: Annotated[tuple[str, ...], Meta(description="Modules that are imported before the app.")] = ()
    stored: Annotated[
        tuple[str, ...],
        Meta(
            description="What jobs may name and a node imports though no app declares it, such as reports.tasks:*;"
            " none: nothing."
        ),
    ] = ()
    attached: Annotated[str | None, Meta(description="The socket of a program that runs the functions itself.")] = None
    reload: Annotated[
        bool, Meta(description="Let new worker processes take over when a Python file changes: for development.")
    ] = False
    processes: Annotated[int, Meta(ge=1, le=1000, description="Worker processes; by default one for each core.")]
    concurrency: Annotated[int, Meta(ge=1, le=10_000, description="Runs at a time in each worker process.")] = 16
    drain: Annotated[
        Seconds | None,
        Meta(
            description="Seconds that the runs beside one that does not end get to finish before their worker process"
            " is ended; none: node.stop_grace."
        ),
    ] = None
    max_runs_per_process: Annotated[
        Count | None, Meta(description="After so many runs a worker process is replaced; none: never.")
    ] = None
    max_age: Annotated[
        Seconds | None,
        Meta(description="Seconds after its start a worker process is replaced once another is ready; none: never."),
    ] = None
    most_memory: Annotated[
        Count | None, Meta(description="With more MiB in memory a worker process is replaced; none: never.")
    ] = None


def bad_patterns(app: AppSettings) -> Iterator[str]:
    """Yield the faults of patterns for stored functions."""
    for text in app.stored:
        try:
            pattern_of_stored(text)
        except InvalidInput as fault:
            yield f"{fault.message}; allowed: {fault.allowed}"


class AuditSettings(Struct, frozen=True, kw_only=True):
    """The audit log."""

    keep: Annotated[
        int, Meta(ge=0, le=36_500, description="Days for which it is known who has changed what; 0: for ever.")
    ] = 365


class ChannelsSettings(Struct, frozen=True, kw_only=True):
    """Messages of programs to programs."""

    keep: Annotated[
        int, Meta(ge=0, le=36_500, description="Days for which messages are kept; 0: whatever their age.")
    ] = 7
    most: Annotated[int, Meta(ge=1, le=1_000_000, description="How many messages of one topic are kept.")] = 10_000


Text = Annotated[str, Meta(min_length=1)]
_WITH_ACCOUNTS = "the URL of a server, which has accounts"


class StoreSettings(Struct, frozen=True, kw_only=True):
    """One of the two stores. Missing settings come from `store`; for semaphores, from `datasource.job`."""

    url: Annotated[Text | None, Meta(description="The URL of this store.")] = None
    user: Annotated[Text | None, Meta(description="The account, in place of the one in the URL.")] = None
    password: Annotated[Text | None, Meta(description="The account's password, in place of the one in the URL.")] = None

    @property
    def said(self) -> bool:
        """Return whether anything is set."""
        return self != StoreSettings()


class DatasourceSettings(Struct, frozen=True, kw_only=True):
    """The settings of each store."""

    job: StoreSettings = field(default_factory=StoreSettings)
    semaphore: StoreSettings = field(default_factory=StoreSettings)


def url_for(section: str, said: StoreSettings, otherwise: str) -> str:
    """Return the URL that follows from the settings of `[section]`. Raises `InvalidInput`, which names the setting."""
    url = said.url or otherwise
    for name, value in (("user", said.user), ("password", said.password)):
        if value is not None and not urlsplit(url).hostname:
            kind = f"a {url.partition(':')[0]} store" if "://" in url else "what is no URL of a server"
            message = f"{section}.{name}: {kind} has no accounts"
            raise InvalidInput(message, field=f"{section}.{name}", allowed=_WITH_ACCOUNTS)
    return _with_account(url, said.user, said.password)


def _with_account(url: str, user: str | None, password: str | None) -> str:
    """Return the URL with another account; None leaves that part as it is."""
    if user is None and password is None:
        return url
    parts = urlsplit(url)
    account, _, host = parts.netloc.rpartition("@")
    old_user, colon, old_password = account.partition(":")
    new_user = old_user if user is None else quote(user, safe="")
    new_password = colon + old_password if password is None else ":" + quote(password, safe="")
    return urlunsplit(parts._replace(netloc=f"{new_user}{new_password}@{host}"))


class LogSettings(Struct, frozen=True, kw_only=True):
    """Log of a node: its file, and the rotation of old ones."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The lowest level of messages that are written.")
    ] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="Lines for people, or JSON for programs.")] = "text"
    file: Annotated[Path | None, Meta(description="A file to which messages are written too.")] = None
    stderr: Annotated[bool, Meta(description="Write messages to standard error.")] = True
    stdout: Annotated[bool, Meta(description="Write them to standard output instead, and nothing else.")] = False
    rotate: Annotated[bool, Meta(description="Begin a new file when log.file is full or old (Keiji: ROTATE_LOGS).")] = (
        False
    )
    max_size: Annotated[
        int,
        Meta(ge=1024, description="Bytes that a log file may have before a new one is begun (Keiji: LOG_MAX_SIZE)."),
    ] = 10 * 2**20
    max_age: Annotated[
        Seconds,
        Meta(
            description="A new file is begun at each whole multiple of so many seconds since 1970 (86400: at midnight"
            " UTC); 0: never for its age."
        ),
    ] = 0
    keep: Annotated[int, Meta(ge=0, le=10_000, description="Old log files that are kept; 0: all of them.")] = 10
    compress: Annotated[bool, Meta(description="Compress old log files with gzip.")] = True


def log_faults(log: LogSettings) -> Iterator[str]:
    """Yield contradictions of the settings of the log."""
    if not log.stderr and log.file is None:
        yield "log.stderr: false, but there is no log.file: messages would go nowhere; allowed: true, or name a file"
