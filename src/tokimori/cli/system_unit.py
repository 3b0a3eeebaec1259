"""`tokimori system install` and `uninstall`: a unit of systemd for a node."""

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.errors import agreed
from tokimori.cli.output import print_lines, print_notice, print_text
from tokimori.cli.session import load, user_name
from tokimori.errors import InvalidInput, NotFound, Refused

if TYPE_CHECKING:
    from tokimori.config.settings import Settings

_MARK = "# Made by `tokimori system install`. SHA-256 of what follows: "
_SYSTEM = Path("/etc/systemd/system")
_VARIABLES = "/etc/tokimori/environment"
"""A file for variables, which root alone may read; it need not be there."""
_LEEWAY = 30
"""Seconds more than the grace of a node until systemd kills it."""
_NAME_ALLOWED = "letters, digits, . _ and -, beginning with a letter or a digit"
_FOR_ALL = (
    "# What jobs may use beyond this they have to be given here.",
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "UMask=0077",
)
_FOR_THE_SYSTEM = (
    "ProtectSystem=full",
    "PrivateTmp=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
)
"""What only the system's own systemd can do."""


@click.command(cls=Command)
@click.option("--system", "whole", is_flag=True, help="For the machine, not for this user: to be run as root.")
@click.option("--run-as", metavar="USER", help="The user of the node, with --system; tokimori by default.")
@click.option("--name", default="tokimori", show_default=True, metavar="NAME", help="The name of the unit.")
@click.option("--print", "only_print", is_flag=True, help="Print the unit, and make nothing.")
def install(*, whole: bool, run_as: str | None, name: str, only_print: bool) -> None:
    """Write a unit of systemd for a node with the present settings, and print the commands to run. Nothing is started.

    An existing file is replaced only if this command has made it and it is unchanged.
    """
    path = _path(name, whole=whole)
    if run_as is not None and not whole:
        message = "--run-as: a unit of this user runs as this user"
        raise InvalidInput(message, field="run_as", value=run_as, allowed="beside --system")
    user = (run_as or "tokimori") if whole else None
    loaded = load()
    text = unit_of(loaded.settings, _config(loaded.origins.values()), user)
    _warn_of_variables(whole=whole)
    if only_print:
        print_text(text)
        return
    _check_ours(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(_marked(text))
        fresh.chmod(0o644)
        fresh.replace(path)
    except OSError as fault:
        message = f"{path} can't be written: {fault.strerror}"
        raise Refused(message, field="system", allowed="root, for --system") from None
    print_lines(f"made {path}; now run:", *(f"  {line}" for line in _to_run(path.stem, loaded.settings, user)))


@click.command(cls=Command)
@click.option("--system", "whole", is_flag=True, help="That of the machine: to be run as root.")
@click.option("--name", default="tokimori", show_default=True, metavar="NAME", help="The name of the unit.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def uninstall(*, whole: bool, name: str, yes: bool) -> None:
    """Remove the unit that install has made, and nothing else: the store, logs and settings stay. It asks first."""
    from tokimori.config.settings import shown_settings

    path = _path(name, whole=whole)
    if not path.exists():
        message = f"there is no {path}: nothing was installed under this name"
        raise NotFound(message, field="name", value=name, allowed="the name of a unit that install has made")
    _check_ours(path)
    systemctl = "systemctl" if whole else "systemctl --user"
    if enabled := sorted(path.parent.glob(f"*.wants/{path.name}")):
        message = f"{path.stem} is enabled ({enabled[0]}): run `{systemctl} disable --now {path.stem}` first"
        raise Refused(message, field="name", value=name, allowed="a unit that is disabled")
    if not yes:
        agreed(f"Remove {path}?")
    try:
        path.unlink()
    except OSError as fault:
        raise Refused(f"{path} can't be removed: {fault.strerror}", allowed="root, for --system") from None
    loaded = load()
    folder, shown = loaded.settings.state_dir, {each.name: each for each in shown_settings(loaded)}
    print_lines(
        f"removed {path}; now run:",
        f"  {systemctl} daemon-reload",
        "What stays, until you remove it:",
        f"  the state folder {folder}, with the logs, builds and output of runs in it",
        f"  the store {shown['store'].value}, with all jobs and runs",
        *([] if loaded.settings.tasks_dir is None else [f"  the tasks {loaded.settings.tasks_dir}"]),
        *(
            f"  the settings {file}"
            for file in sorted({each.origin for each in shown.values()})
            if Path(file).is_file()
        ),
    )


def unit_of(settings: "Settings", config: Path | None, user: str | None) -> str:
    """Return the unit. Without `user` it is one for the systemd of this user."""
    environment = [("TOKIMORI_STATE_DIR", settings.state_dir)]
    if config is not None:
        environment.append(("TOKIMORI_CONFIG_PATH", config))
    folder = settings.state_dir
    kept = (f"StateDirectory={folder.name}", "StateDirectoryMode=0700") if folder.parent == Path("/var/lib") else ()
    lines = [
        "[Unit]",
        "Description=Tokimori, a job scheduler",
        *(("Wants=network-online.target", "After=network-online.target") if user else ()),
        "",
        "[Service]",
        "Type=notify",
        "TimeoutStartSec=infinity",
        "WatchdogSec=60",
        *((f"User={user}", *kept) if user else ()),
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in environment),
        *((f"EnvironmentFile=-{_VARIABLES}",) if user else ()),
        f"ExecStart={_quoted(sys.executable.replace('$', '$$'))} -m tokimori serve",
        "# TERM goes to the node alone: its runs get node.stop_grace to finish, and it ends those that are left.",
        "KillMode=mixed",
        f"TimeoutStopSec={settings.node.stop_grace + settings.http.drain + _LEEWAY:.0f}",
        "# 2 is a setting or a store that a person has to mend: starting again would not help.",
        "Restart=on-failure",
        "RestartSec=2",
        "RestartPreventExitStatus=2",
        *_FOR_ALL,
        *(_FOR_THE_SYSTEM if user else ()),
        "",
        "[Install]",
        f"WantedBy={'multi-user' if user else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a word as systemd reads it (systemd.syntax(7)). Raises `InvalidInput`."""
    if not text.isprintable():
        message = f"{text!r}: a unit can't hold this"
        raise InvalidInput(message, field="state_dir", value=text, allowed="a path without control characters")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _config(origins: Iterable[str]) -> Path | None:
    """Return the configuration file that is in force; a section of it is said in its own way."""
    files = {each.partition(" [env.")[0] for each in origins if each.startswith("/")}
    return next((Path(each) for each in sorted(files)), None)


def _warn_of_variables(*, whole: bool) -> None:
    """Warn that a unit has none of this shell's variables, and that everybody may read it: no place for a password."""
    given = options()
    if given.store is not None or given.semaphore_store is not None:
        message = "--store: everybody may read a unit: name the store in the configuration file"
        raise InvalidInput(message, field="store", allowed="a store that the configuration file names")
    written = {"TOKIMORI_STATE_DIR", "TOKIMORI_CONFIG_PATH"}
    if left := sorted(name for name in os.environ if name.startswith("TOKIMORI_") and name not in written):
        where = f"the configuration file or {_VARIABLES}" if whole else "the configuration file"
        print_notice(f"warning: the unit does not have {', '.join(left)}: say it in {where}")


def _path(name: str, *, whole: bool) -> Path:
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or not name[0].isalnum():
        raise InvalidInput(f"name: {name!r} is no name of a unit", field="name", value=name, allowed=_NAME_ALLOWED)
    if whole:
        return _SYSTEM / f"{name}.service"
    from tokimori.config.value import this_machine

    config_home = this_machine(os.environ).config_files[0].parents[1]
    return config_home / "systemd" / "user" / f"{name}.service"


def _marked(text: str) -> str:
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def _check_ours(path: Path) -> None:
    """Refuse to replace a file that this program has not made, or that was changed since."""
    if not path.exists():
        return
    head, _, text = path.read_text(errors="replace").partition("\n")
    if path.is_symlink() or _marked(text).partition("\n")[0] != head:
        what = "was changed since install made it" if head.startswith(_MARK) else "was not made by this program"
        message = f"{path} {what}: it is left alone; move it away yourself, or choose another --name"
        raise Refused(message, field="name", value=path.stem, allowed="a unit that install has made")


def _to_run(name: str, settings: "Settings", user: str | None) -> list[str]:
    """Return the commands that make the unit work."""
    if user is None:
        return [
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {name}",
            f"loginctl enable-linger {user_name() or ''}".rstrip() + "   # to run also while nobody is logged in",
        ]
    make = f"useradd --system --home-dir {settings.state_dir} --shell /usr/sbin/nologin {user}   # unless there is one"
    return [make, "systemctl daemon-reload", f"systemctl enable --now {name}"]
