"""The dependencies of a task, locked: each package with its version and its hashes, as pip's resolver chooses them."""

import importlib.util
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from tokimori.errors import InvalidFile, InvalidInput, Refused
from tokimori.model.task import check_dependencies

LONGEST: Final = 300
"""Seconds that pip gets."""
_BOUND = re.compile(r"([<>])(=?)\s*(\d+(?:\.\d+)*)", re.ASCII)
_SAID: Final = 5
"""The last lines of what pip says that an error shows."""


class _Archive(Struct, frozen=True):
    hashes: dict[str, str] = field(default_factory=dict)


class _Download(Struct, frozen=True):
    url: str
    archive_info: _Archive | None = None


class _Package(Struct, frozen=True):
    name: str
    version: str


class _Chosen(Struct, frozen=True):
    metadata: _Package
    download_info: _Download
    is_direct: bool = False


class _Report(Struct, frozen=True):
    install: list[_Chosen]


def locked(dependencies: tuple[str, ...], requires_python: str | None = None) -> tuple[str, ...]:
    """Lines for `pip install --require-hashes`, in order. Raises `InvalidInput` where they can't be had together."""
    check_dependencies(dependencies)
    _check_python(requires_python)
    if not dependencies:
        return ()
    argv = [*_pip(), "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", *dependencies]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise _unresolved(dependencies, f"pip has not answered within {LONGEST} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()][-_SAID:]
        raise _unresolved(dependencies, " ".join(said))
    report = msgspec.json.decode(done.stdout, type=_Report)
    return tuple(sorted(_line(each) for each in report.install))


def locked_for() -> str:
    """Return the Python and the machine of this process."""
    return f"Python {sysconfig.get_python_version()} on {sysconfig.get_platform()}"


def _line(chosen: _Chosen) -> str:
    package, found = chosen.metadata, chosen.download_info
    hashes = {} if found.archive_info is None else found.archive_info.hashes
    if "sha256" not in hashes or (chosen.is_direct and not found.url.startswith("https:")):
        message = f"dependencies: {package.name} comes from {found.url}, where no other node finds it"
        raise InvalidInput(message, field="dependencies", value=package.name, allowed="what an index of packages has")
    named = f"{package.name} @ {found.url}" if chosen.is_direct else f"{package.name}=={package.version}"
    return f"{named} --hash=sha256:{hashes['sha256']}"


def _pip() -> Sequence[str]:
    options = ("--disable-pip-version-check", "--no-input")
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *options]
    if (pip := shutil.which("pip3") or shutil.which("pip")) is not None:
        return [pip, "--python", sys.executable, *options]
    raise Refused("dependencies: pip is needed to lock them, and is not there: install it beside Tokimori", field="pip")


def _check_python(wanted: str | None) -> None:
    """Raise `InvalidFile` if a script wants another Python; bounds such as >=3.11 are understood, no others."""
    own = sys.version_info
    for sign, least, version in _BOUND.findall(wanted or ""):
        numbers = tuple(map(int, version.split(".")))
        here = own[: len(numbers)]
        if (here < numbers) if sign == ">" else (here > numbers) or (here == numbers and not least):
            message = f"requires-python: {wanted} is wanted, and this is {platform.python_version()}"
            raise InvalidFile(message, field="requires-python", value=wanted, allowed="what this Python fits")


def _unresolved(dependencies: Sequence[str], why: str) -> InvalidInput:
    return InvalidInput(
        f"dependencies: {', '.join(dependencies)} can't be had together: {why}",
        field="dependencies",
        value=list(dependencies),
        allowed="packages that pip finds",
    )
