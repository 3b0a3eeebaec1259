"""`tokimori system update`: another version takes over, and the old one comes back if that does not come up."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.ending import DONE
from tokimori.cli.length import Length
from tokimori.cli.output import announce, print_notice
from tokimori.cli.session import load
from tokimori.cli.wheel import NAME, packed_again, version_of
from tokimori.errors import Refused
from tokimori.node.background import Living, standing

if TYPE_CHECKING:
    from tokimori.config.settings import Settings

CAME_BACK = 1
"""The exit code where the old version is in place again."""
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
_LONGEST = 600.0
"""Seconds for one step, such as pip's."""


@click.command(cls=Command)
@click.option("--wheel", type=click.Path(path_type=Path), metavar="FILE", help="Install this wheel; else the newest.")
@click.option("--timeout", type=Length(), default=60.0, metavar="LENGTH", help="How long the new node has to be ready.")
def update(*, wheel: Path | None, timeout: float) -> int:
    """Install another version of Tokimori where this one is, and start the node in the background with it.

    The old version comes back, exit code 1, where the new one can't be installed or its node is not ready in time. It
    is kept as a wheel in the state folder. Packages that the new version brings stay.
    """
    if wheel is not None:
        announce(f"the wheel is of version {version_of(wheel)}")
    settings = load().settings
    folder = settings.state_dir
    found = standing(folder)
    # Kept here: a new version that ends at once takes the note of the node along.
    arguments = found.note.arguments if isinstance(found, Living) else None
    _check_pip()
    old = packed_again(distribution(NAME), folder / "updates")
    announce(f"this version is kept as {old}")
    # From here on nothing may be imported: what is on the disk belongs to another version.
    fault = _installed(wheel) or _comes_up(settings, timeout, arguments)
    if fault is None:
        announce(f"updated to {_python('-m', NAME, '--version').stdout.strip()}")
        return DONE
    print_notice(f"the new version does not come up, and the old one comes back:\n{fault.strip()}")
    back = _python(*_PIP, "--no-deps", "--force-reinstall", str(old))
    if back.returncode:
        print_notice(f"the old version can't be installed again: {back.stderr}\nit is kept as {old}")
        return CAME_BACK
    if arguments is not None and (fault := _comes_up(settings, timeout, arguments)) is not None:
        print_notice(f"the node of the old version does not start:\n{fault.strip()}")
    announce(f"{_python('-m', NAME, '--version').stdout.strip()} is in place again")
    return CAME_BACK


def _check_pip() -> None:
    if _python("-m", "pip", "--version").returncode:
        message = f"there is no pip in the environment of {sys.executable}: update with what has installed Tokimori"
        raise Refused(message, field="wheel", allowed="an environment with pip")


def _installed(wheel: Path | None) -> str | None:
    """Install it, with what it needs; why that failed."""
    if wheel is None:
        steps: Sequence[tuple[str, ...]] = [("--upgrade", NAME)]
    else:  # the same version again is installed too; then what it needs beyond what is there
        steps = [("--no-deps", "--force-reinstall", str(wheel)), (str(wheel),)]
    for step in steps:
        done = _python(*_PIP, *step)
        if done.returncode:
            return done.stderr
    return None


def _comes_up(settings: "Settings", timeout: float, arguments: Sequence[str] | None) -> str | None:
    """Let the version that is installed now show that it works, with a node if one ran, which had these arguments.

    None, or why it does not work.
    """
    for step in (("--version",), ("config", "check")):
        done = _python("-m", NAME, *step)
        if done.returncode:
            return done.stderr or done.stdout
    if arguments is None:
        return None
    restart = ("system", "restart", "--timeout", f"{timeout:g}", "--", *arguments)
    # It stops the node first, whose runs get their grace.
    longest = _LONGEST + settings.node.stop_grace + settings.http.drain + timeout
    done = _python("-m", NAME, *restart, longest=longest)
    return (done.stderr or done.stdout) if done.returncode else None


def _python(*arguments: str, longest: float = _LONGEST) -> "subprocess.CompletedProcess[str]":
    """Return a command of this environment, however it ends."""
    given = options()
    named = {"TOKIMORI_STORE": given.store, "TOKIMORI_DATASOURCE_SEMAPHORE_URL": given.semaphore_store}
    environment = {**os.environ, **{name: value for name, value in named.items() if value is not None}}
    try:
        return subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=longest
        )
    except subprocess.TimeoutExpired as fault:
        return subprocess.CompletedProcess(arguments, 1, "", f"{fault}")
