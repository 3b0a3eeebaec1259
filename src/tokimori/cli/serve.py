"""`tokimori serve`"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.moment import Length
from tokimori.cli.output import STDOUT, announce, print_lines, print_notice
from tokimori.cli.session import Absent, in_service, load
from tokimori.config.value import check_linux


def detach(log: Path, work: Callable[[Callable[[str], None]], int]) -> int:
    """Run the work in a new process and session, with its output in `log`.

    This process prints the other's id when it is ready, which means after its first line. If it ends before that, this
    process shows its output and returns its exit code. Call this before there are threads or loops, which forks lose.
    """
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    begin = log.stat().st_size if log.exists() else 0
    ready_to_read, ready_to_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(ready_to_write)
        return _await_ready(pid, ready_to_read, log, begin)
    os.close(ready_to_read)
    os.setsid()
    _redirect(log)
    return work(_Ready(ready_to_write))


class _Ready:
    """Printer of lines into the log. The first line makes the parent go on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def __call__(self, line: str) -> None:
        announce(line)
        if self._descriptor is not None:
            os.write(self._descriptor, b"!")
            os.close(self._descriptor)
            self._descriptor = None


def _await_ready(pid: int, ready: int, log: Path, begin: int) -> int:
    with os.fdopen(ready, "rb") as pipe:
        if pipe.read(1):
            print_lines(str(pid))
            return 0
    _, status = os.waitpid(pid, 0)
    with log.open("rb") as written:
        written.seek(begin)
        print_notice(written.read().decode(errors="replace").rstrip())
    return os.waitstatus_to_exitcode(status)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)


if TYPE_CHECKING:
    from tokimori.config.settings import Loaded, Settings


@click.command(cls=Command)
@click.option("--no-http", is_flag=True, help="Don't answer over HTTP.")
@click.option("-p", "--port", type=int, metavar="PORT", help="Listen on this port; an error if it is taken.")
@click.option("-i", "--interface", metavar="ADDRESS", help="Listen on this address.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine, though there is no TLS.")
@click.option("--tls-cert", metavar="FILE", help="The certificate of the HTTP server, as PEM.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate, as PEM.")
@click.option("--default-owner", metavar="OWNER", help="The owner of jobs that name none and come by Kala's API.")
@click.option(
    "--interval-minutes", type=int, metavar="N", help="Look for due jobs only every N whole minutes; 0: at once."
)
@click.option(
    "--minimum-interval-seconds", type=Length(), metavar="LENGTH", help="Wait at least so long between such looks."
)
@click.option("--update-interval-seconds", type=Length(), metavar="LENGTH", help="Look for edits at least so often.")
@click.option(
    "--app", "app", metavar="MODULE:NAME", help="Run the functions of this app, too; FILE.py:NAME is one as well."
)
@click.option("--processes", type=int, metavar="N", help="Worker processes of the app.")
@click.option("--concurrency", type=int, metavar="N", help="Runs at a time in each of them.")
@click.option("--max-load", type=float, metavar="LOAD", help="Claim nothing while the load average is above this.")
@click.option("--json-logs", is_flag=True, help="Write the log to standard output, as JSON, and nothing else there.")
@click.option("-d", "--daemon", is_flag=True, help="Go into the background and print the process id.")
def serve(
    *,
    no_http: bool,
    port: int | None,
    interface: str | None,
    insecure: bool,
    tls_cert: str | None,
    tls_key: str | None,
    default_owner: str | None,
    interval_minutes: int | None,
    minimum_interval_seconds: float | None,
    update_interval_seconds: float | None,
    app: str | None,
    processes: int | None,
    concurrency: int | None,
    max_load: float | None,
    json_logs: bool,
    daemon: bool,
) -> int:
    """Run a node: fire schedules, run jobs, answer over HTTP.

    TERM or INT (Ctrl-C) stops it; runs get time to finish. A second one ends them at once.
    """
    check_linux("a node")
    read = partial(
        load,
        {
            "http.enabled": False if no_http else None,
            "http.port": port,
            "http.port_fixed": None if port is None else True,
            "http.interface": interface,
            "http.insecure": True if insecure else None,
            "http.tls_cert": tls_cert,
            "http.tls_key": tls_key,
            "http.v1_default_owner": default_owner,
            "worker.interval_minutes": interval_minutes,
            "worker.minimum_interval_seconds": minimum_interval_seconds,
            "schedule.update_interval_seconds": update_interval_seconds,
            "node.max_load": max_load,
            "app.load": app,
            "app.processes": processes,
            "app.concurrency": concurrency,
            "log.format": "json" if json_logs else None,
            "log.stdout": True if json_logs else None,
        },
    )
    settings = read().settings
    make_folders(settings)
    if not daemon:
        return run_node(settings, announce, read)
    _check_store()
    return detach(settings.state_dir / "tokimori.log", lambda ready: run_node(settings, ready, read))


def make_folders(settings: "Settings") -> None:
    """Make the state folder, and the folder of a log within it. A folder elsewhere must exist."""
    from tokimori.client.opening import make_state_dir

    make_state_dir(settings.state_dir)
    if settings.log.file is not None and settings.log.file.is_relative_to(settings.state_dir):
        make_state_dir(settings.log.file.parent)


def run_node(settings: "Settings", announce: Callable[[str], None], read: Callable[[], "Loaded"]) -> int:
    """Run a node until it is stopped; return the exit code. `announce` prints a line, `read` reads settings anew."""
    from tokimori.clock import SystemClock
    from tokimori.executors.keeper.kernel import Title, name_myself
    from tokimori.logs.reading import Rotation
    from tokimori.logs.setup import STANDARD_ERROR, start_logging
    from tokimori.node.systemd import TOO_LONG, starter_of, warn, watched
    from tokimori.node.wiring import serve as serve_node

    # With --json an error on stderr is JSON: the lines before it have to be JSON too.
    form = "json" if options().as_json else settings.log.format
    log_settings = settings.log
    log = start_logging(
        level=log_settings.level,
        format=form,
        file=log_settings.file,
        rotation=Rotation(
            max_size=log_settings.max_size,
            max_age=log_settings.max_age,
            keep=log_settings.keep,
            compress=log_settings.compress,
        )
        if log_settings.rotate
        else None,
        stderr=STDOUT if log_settings.stdout else STANDARD_ERROR if log_settings.stderr else None,
        announced=log_settings.stdout,
    )
    announce = _nobody if log_settings.stdout else partial(_print_if_possible, announce)
    starter = starter_of(os.environ)
    name_myself(b"tokimori")
    Title().show(f"tokimori: server {' '.join(sys.argv[1:])}")
    try:
        with watched(warn) as (runner, begin):

            def joined() -> None:
                begin(TOO_LONG)
                starter.report_ready()
                starter.report_alive(runner.get_loop().call_later)

            return runner.run(
                serve_node(
                    settings,
                    announce,
                    SystemClock(),
                    joined,
                    # Whatever is no terminal is kept by somebody: a file, the journal, the pipe of a supervisor.
                    shows_secret=os.isatty(STDOUT) and not (settings.http.secret or settings.http.secret_file),
                    hide=log.hide,
                    again=lambda: read().settings,
                )
            )
    finally:
        log.stop()


def _print_if_possible(announce: Callable[[str], None], line: str) -> None:
    """Print a line: a full disk, or a reader that is gone, keeps no node from its runs."""
    with suppress(OSError):
        announce(line)


def _nobody(_: str) -> None:
    """Show nothing: the log has it."""


def _check_store() -> None:
    """Report a store that only a person can mend before going into the background; one that is away may come back."""
    from tokimori.errors import StoreUnavailable

    try:
        in_service(_nothing, Absent.MADE)
    except StoreUnavailable:
        pass


async def _nothing(_: object) -> None:
    pass
