"""Checks before a node starts: the machine's folders and zones, and a store that answers."""

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from tokimori.clock import SECOND, Clock, Moment
from tokimori.config.settings import Settings
from tokimori.errors import StoreError, StoreReplaced, StoreUnavailable
from tokimori.node.background import Stale, background_state
from tokimori.ownership import others_reach
from tokimori.schedules.zones import tzdata_version
from tokimori.service.doctor.finding import Finding, failure, fine, warning

LITTLE, NONE = 500 * 2**20, 20 * 2**20
"""Free bytes: below the first number a warning, below the second nothing can be written soon."""
_MOST_LOOKED_AT = 1_000
"""Files of the state folder that are looked at."""


def of_this_machine(settings: Settings, now: Moment) -> Iterator[Finding]:
    """Yield a finding for each check, even if all is well."""
    yield from list(_permissions(settings.state_dir)) or [
        fine("permissions", f"only its owner reaches the state folder {settings.state_dir}")
    ]
    yield from list(_room(settings)) or [fine("disk", "there is room in the folders of a node")]
    yield from list(_log(settings.log.file)) or [fine("log", "the log can be written")]
    yield from list(_service(settings.state_dir)) or [fine("service", "no node in the background has gone unnoticed")]
    yield from list(_zones(now)) or [fine("zones", f"the rules of time zones are of {tzdata_version()}")]


def _permissions(folder: Path) -> Iterator[Finding]:
    if not folder.exists():
        yield warning("permissions", f"there is no state folder {folder} yet", "`tokimori system start` makes it")
        return
    try:
        reached = others_reach(folder)
        mode = folder.stat().st_mode & 0o077
        if reached is not None:
            yield failure("permissions", f"others may change what a node trusts: {reached}", "else name another folder")
        elif mode:
            text = f"others may look into the state folder {folder} (mode {folder.stat().st_mode & 0o7777:04o})"
            yield from [warning("permissions", text, f"`chmod go= {folder}`"), *_open_files(folder)]
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            yield failure("permissions", f"{folder} can't be written", "run this as the user of the node")
    except OSError as fault:
        yield failure("permissions", f"{folder} can't be looked at: {fault.strerror}", "run this as the node's user")


def _open_files(folder: Path) -> Iterator[Finding]:
    """Yield findings on files that other users may read, if they can enter the folder."""
    looked = sorted(folder.iterdir())[:_MOST_LOOKED_AT]
    for path in [each for each in looked if each.is_file() and each.stat().st_mode & 0o077]:
        text = f"others may read {path} (mode {path.stat().st_mode & 0o7777:04o})"
        yield warning("permissions", text, f"`chmod go= {path}`")


def _room(settings: Settings) -> Iterator[Finding]:
    folders = {settings.state_dir, *([] if settings.log.file is None else [settings.log.file.parent])}
    for folder in sorted(each for each in folders if each.exists()):
        free = shutil.disk_usage(folder).free
        if free < LITTLE:
            text = f"{free // 2**20} MiB are free in {folder}"
            yield (failure if free < NONE else warning)("disk", text, "make room; `log.keep` bounds what logs take")


def _log(file: Path | None) -> Iterator[Finding]:
    if file is None or not file.parent.exists():
        return
    is_misplaced = file.is_dir() or not file.parent.is_dir()  # what the rights of root do not mend
    if is_misplaced or not os.access(file if file.exists() else file.parent, os.W_OK):
        yield failure("log", f"{file} can't be written: messages are lost there", "`log.file` names another one")


def _service(folder: Path) -> Iterator[Finding]:
    found = background_state(folder)
    if isinstance(found, Stale):
        text = f"the node that was started in the background has gone: {found.why}"
        yield warning("service", text, "`tokimori system start` starts another one; the log says what happened")


def _zones(now: Moment) -> Iterator[Finding]:
    """Yield findings on old time zone rules: they change a few times a year, and after two years some are wrong."""
    version = tzdata_version()
    year = datetime.fromtimestamp(now / SECOND, UTC).year
    if version[:4].isdecimal() and int(version[:4]) < year - 1:
        text = f"the rules of time zones are of {version}, and governments have changed some since"
        yield warning("zones", text, "`pip install --upgrade tzdata`, and start nodes again")


log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the store is asked again: twice as many each time."""
QUIET = 2.0
"""Seconds during which the same line is not logged again."""
LOST = 5.0
"""Seconds to wait for a missing file; after them nobody is just moving it."""


class Missing:
    """Time since which a store reports that its file is missing, or is another one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def check(self, fault: StoreError) -> None:
        """Allow another try after this fault, or raise `StoreReplaced` if the store's file has been missing for
        long."""
        if not isinstance(fault, StoreReplaced):
            self.found()
            return
        at = self._clock.monotonic()
        self._since = at if self._since is None else self._since
        if at >= self._since + LOST:
            raise StoreReplaced(f"the node stops, and ends its runs: for {LOST:g} s now it has had no store: {fault}")

    def found(self) -> None:
        """Note that the store has answered."""
        self._since = None


class Patience:
    """Wait of a node after a failure of its work: longer each time, until a turn succeeds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._missing = Missing(clock)
        self._pause, self._was_away = FIRST_PAUSE, False
        self._last_fault, self._quiet_until = "", clock.monotonic()

    def answered(self) -> None:
        """Note that all went well."""
        self._missing.found()
        if self._was_away:
            log.info("the store answers again")
        self._pause, self._was_away = FIRST_PAUSE, False

    def after(self, fault: StoreError) -> float:
        """Return the seconds to wait after this fault of the store. Raises `StoreReplaced`, see `Missing`."""
        self._missing.check(fault)
        self._was_away = True
        self._warn_sometimes(str(fault))
        return self.longer()

    def _warn_sometimes(self, fault: str) -> None:
        at = self._clock.monotonic()
        if fault != self._last_fault or at >= self._quiet_until:
            self._last_fault, self._quiet_until = fault, at + QUIET
            log.warning("can't use the store; retrying: %s", fault)

    def longer(self) -> float:
        """Return the seconds to wait after any failure: twice as many as after the one before."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause


async def answered(
    ask: Callable[[], Awaitable[object]],
    *,
    wanted: Callable[[], bool] = lambda: True,
    report: Callable[[str], None] = log.warning,
) -> bool:
    """Call the store until it answers, as long as `wanted` agrees; return if it did. `report` gets the first failure.

    Only `StoreUnavailable` is waited out. Any other `StoreError`, which a person has to mend, is raised.
    """
    pause = FIRST_PAUSE
    while wanted():
        try:
            await ask()
            return True
        except StoreUnavailable as fault:
            if pause == FIRST_PAUSE:
                report(f"Waiting for the store: {fault}")
            else:
                log.warning("still waiting for the store: %s", fault)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    return False
