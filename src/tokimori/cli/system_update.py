"""`tokimori system update`: another version takes over, and the old one comes back if that does not come up."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, options
from tokimori.cli.errors import DONE
from tokimori.cli.moment import Length
from tokimori.cli.output import announce, print_notice
from tokimori.cli.session import load
from tokimori.errors import InvalidInput, Refused
from tokimori.node.background import Living, background_state

NAME = "tokimori"
_OF_THE_INSTALLATION = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def version_of(wheel: Path) -> str:
    """Return the version of a wheel of this program. Raises `InvalidInput`."""
    try:
        with zipfile.ZipFile(wheel) as packed:
            place = next(each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
            metadata = Parser().parsestr(packed.read(place).decode(), headersonly=True)
    except (OSError, zipfile.BadZipFile, StopIteration, UnicodeDecodeError) as fault:
        message = f"wheel: {wheel} can't be read as a wheel: {fault or 'it has no METADATA'}"
        raise InvalidInput(message, field="wheel", value=str(wheel), allowed="a wheel of tokimori") from None
    if metadata["Name"] != NAME:
        message = f"wheel: {wheel} is a wheel of {metadata['Name']}"
        raise InvalidInput(message, field="wheel", value=str(wheel), allowed="a wheel of tokimori")
    return str(metadata["Version"])


def packed_again(installed: Distribution, folder: Path) -> Path:
    """Return the installed version as a wheel in the folder. Raises `Refused` if that is a folder of sources."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        message = "this is an editable installation: update its sources, and start the node again"
        raise Refused(message, field="wheel", allowed="an installation from a wheel")
    files = [each for each in installed.files or () if _belongs(each)]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    wheel = folder / f"{NAME}-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for each in files:
            data = Path(str(each.locate())).read_bytes()
            packed.writestr(each.as_posix(), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{each.as_posix()},sha256={digest},{len(data)}\n")
        place = next(each.parent for each in files if each.name == "METADATA") / "RECORD"
        packed.writestr(place.as_posix(), "".join([*record, f"{place.as_posix()},,\n"]))
    return wheel


def _belongs(file: PackagePath) -> bool:
    """Return whether a wheel brings it: no scripts, which are made from it, no bytecode, no notes of the installer."""
    is_outside = file.parts[0] == ".." or "__pycache__" in file.parts
    return not is_outside and not (file.parent.suffix == ".dist-info" and file.name in _OF_THE_INSTALLATION)


if TYPE_CHECKING:
    from tokimori.config.settings import Settings

CAME_BACK = 1
"""The exit code if the old version is in place again."""
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
_LONGEST = 600.0
"""Seconds for one step, such as pip's."""


@click.command(cls=Command)
@click.option("--wheel", type=click.Path(path_type=Path), metavar="FILE", help="Install this wheel; else the newest.")
@click.option("--timeout", type=Length(), default=60.0, metavar="LENGTH", help="How long the new node has to be ready.")
def update(*, wheel: Path | None, timeout: float) -> int:
    """Install another version of Tokimori where this one is, and start the node in the background with it.

    The old version comes back, exit code 1, if the new one can't be installed or its node is not ready in time. It
    is kept as a wheel in the state folder. Packages that the new version brings stay.
    """
    if wheel is not None:
        announce(f"the wheel is of version {version_of(wheel)}")
    settings = load().settings
    folder = settings.state_dir
    found = background_state(folder)
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
    """Install the wheel with its dependencies; return the reason of a failure."""
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
    from tokimori.config.secret_files import overridden

    given = options()
    named = {"TOKIMORI_STORE": given.store, "TOKIMORI_DATASOURCE_SEMAPHORE_URL": given.semaphore_store}
    environment = overridden(os.environ, {name: value for name, value in named.items() if value is not None})
    try:
        return subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=longest
        )
    except subprocess.TimeoutExpired as fault:
        return subprocess.CompletedProcess(arguments, 1, "", f"{fault}")
