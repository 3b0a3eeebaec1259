"""Functions of a node: its app, reloads of code and settings, and the jobs that it declares."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tokimori.clock import Clock
from tokimori.config.secret_files import KEYS, SUFFIX, variables_with_files
from tokimori.config.settings import Settings, load_settings, settings_table
from tokimori.errors import InvalidConfig, TokimoriError
from tokimori.executors.functions.executor import FunctionExecutor
from tokimori.executors.functions.process import AppSettings
from tokimori.executors.functions.wire import Hello
from tokimori.model.ids import RandomBytes
from tokimori.node.checkup import answered
from tokimori.service.service import Service
from tokimori.service.sets.app_jobs import Declared, check_vanished, declare

log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between two looks."""
MOST_FILES = 5_000
"""Number of files whose changes are seen: a look at them takes a tenth of a second, in a thread."""
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})


def stamps_of(folders: Sequence[Path], most: int = MOST_FILES) -> dict[Path, int]:
    """Return when each of at most `most` Python files below these folders was changed: nanoseconds of the file system.

    Hidden folders, and those of installed packages, are passed over.
    """
    found: dict[Path, int] = {}
    for path in _files_of(folders):
        if len(found) == most:
            break
        with suppress(OSError):  # it may be replaced just now
            found[path] = path.stat().st_mtime_ns
    return found


def _files_of(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        for place, below, files in os.walk(folder):
            below[:] = sorted(name for name in below if name not in _PASSED_OVER and not name.startswith("."))
            yield from (Path(place, name) for name in sorted(files) if name.endswith(".py"))


def changed_of(before: Mapping[Path, int], after: Mapping[Path, int]) -> list[Path]:
    """Return the files that were made, changed or removed between two looks, in order."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


@asynccontextmanager
async def watching_changes(folders: Sequence[Path], changed: Callable[[], None]) -> AsyncIterator[None]:
    """Call `changed` after each change of a Python file below these folders, while this lasts."""
    watching = asyncio.get_running_loop().create_task(_watch(folders, changed))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(folders: Sequence[Path], changed: Callable[[], None]) -> None:
    before = await asyncio.to_thread(stamps_of, folders)
    while True:
        await asyncio.sleep(EVERY)
        after = await asyncio.to_thread(stamps_of, folders)
        if files := changed_of(before, after):
            others = f" and {len(files) - 1} more" if len(files) > 1 else ""
            log.warning("%s%s changed: new worker processes with the new code take over", files[0], others)
            changed()
        before = after


_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""With bytecode, a file that is saved twice in a second at the same size would look unchanged."""


class Functions:
    """Executor of the functions of the app that the settings name.

    `again` reads the settings anew. Raises `TokimoriError`.
    """

    def __init__(self, settings: Settings, clock: Clock, random: RandomBytes, again: Callable[[], Settings]) -> None:
        self._settings = settings
        self._again = again
        self.concurrency = settings.node.concurrency
        """Runs at a time of the node, once the code of the last reload has taken over."""
        self._secret = settings.app.attached or random(16).hex()
        self._changes = CodeChanges()
        self.executor = FunctionExecutor(clock, _app_of(settings, self._secret), self._changes.receive)

    def reload(self) -> None:
        """Let new processes take over, with the code and the settings `app.*` of now, and `node.concurrency`.

        Other settings stay as they are.
        """
        try:
            settings = self._again()
        except (TokimoriError, OSError) as fault:  # the folder that the node was started in may have gone
            log.error("the old settings stay in force: %s", fault)  # noqa: TRY400  what it says is enough
            self.executor.reload()
            return
        mine = self._settings.app
        app = replace(settings.app, only=mine.only, reload=mine.reload, attached=mine.attached)
        if settings.app.only == mine.only:
            self.concurrency = settings.node.concurrency
        node = replace(self._settings.node, concurrency=settings.node.concurrency)
        known = replace(self._settings, app=app, node=node)
        if known != settings:
            log.warning(
                "settings beyond app.* have changed, or app.only, or app.reload: these take effect at the next start"
            )
        if (found := _app_of(known, self._secret)) is None:
            log.warning("the settings name no app any more: the code of the previous app is loaded again")
        self.executor.reload(found)

    @asynccontextmanager
    async def followed(
        self, take: Callable[[Hello], object], declare: Callable[[Hello], Awaitable[object]]
    ) -> AsyncIterator[None]:
        """Follow new code while this lasts, see `CodeChanges`. In development, changed files are new code."""
        async with self._watched(), self._changes.followed(take, declare):
            yield

    def _watched(self) -> AbstractAsyncContextManager[None]:
        app_settings = self._settings.app
        if not app_settings.reload:
            return nullcontext()
        return watching_changes([Path.cwd(), *map(Path, app_settings.include)], self.executor.reload)


def _app_of(settings: Settings, secret: str) -> AppSettings | None:
    """Return the app's settings. Its code gets the store's address: it may enqueue."""
    app_settings = settings.app
    if app_settings.load is None and app_settings.attached is None and not app_settings.stored:
        return None
    return AppSettings(
        app=app_settings.load or "",
        secret=secret,
        attached=app_settings.attached is not None,
        state_dir=settings.state_dir,
        runs_dir=settings.state_dir / "runs",
        environ=environ_of(settings, os.environ),
        include=app_settings.include,
        require=app_settings.require,
        stored=app_settings.stored,
        processes=app_settings.processes,
        concurrency=app_settings.concurrency,
        places=min(app_settings.concurrency, max(1, settings.node.concurrency // app_settings.processes)),
        max_runs_per_process=app_settings.max_runs_per_process,
        max_age=app_settings.max_age,
        drain=settings.node.stop_grace if app_settings.drain is None else app_settings.drain,
        most_memory=None if app_settings.most_memory is None else app_settings.most_memory * 2**20,
    )


def environ_of(settings: Settings, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of functions: that of the node with its store, and without its other secrets.

    A store that a file names is named by that file there, too: its address is in no environment.
    """
    secret = variables_with_files([each.name for each in settings_table()])
    own = {name: text for name, text in environ.items() if name.removesuffix(SUFFIX) not in secret}
    own |= _NO_BYTECODE if settings.app.reload else {}
    files = {name + SUFFIX: environ.get(name + SUFFIX, "") for name in secret - {KEYS, "TOKIMORI_HTTP_SECRET"}}
    named = {name: text for name, text in files.items() if text}
    if named and _store_of({**own, **named}) == settings.job_store:
        return own | named
    return own | {"TOKIMORI_STORE": settings.job_store}


def _store_of(environ: Mapping[str, str]) -> str | None:
    try:
        return load_settings({}, environ, cwd=Path.cwd()).settings.job_store
    except InvalidConfig:
        return None


async def declare_jobs(service: Service, app: Hello | None) -> None:
    """Store the jobs of the app, if there is one, and log the outcome of each."""
    if app is None:
        return
    for line in await declare(service.acting_as(f"app {app.app}").jobs, declared_in(app)):
        log.warning("%s", line)


def declared_in(app: Hello) -> Declared:
    """Return the declarations of an app, as its hello contains them."""
    jobs = {job.id: job.fields for job in app.jobs}
    return Declared(app=app.app, jobs=jobs, vanished=check_vanished(app.vanished), version=app.version)


class CodeChanges:
    """Declarations of new code: its handlers take effect at once, its jobs when the store has them. The newest wins."""

    def __init__(self) -> None:
        self._newest: Hello | None = None
        self._come = asyncio.Event()
        self._take: Callable[[Hello], object] = _nobody_takes

    def receive(self, app: Hello) -> None:
        """Note that runs now go to new code, and not to older code."""
        self._newest = app
        self._take(app)
        self._come.set()

    @asynccontextmanager
    async def followed(
        self, take: Callable[[Hello], object], declare: Callable[[Hello], Awaitable[object]]
    ) -> AsyncIterator[None]:
        """Pass all changes to `take` while this lasts, and have `declare` put the jobs of the newest in the store."""
        self._take = take
        if self._newest is not None:
            take(self._newest)
        declaring = asyncio.create_task(self._declare(declare))
        try:
            yield
        finally:
            declaring.cancel()
            await asyncio.gather(declaring, return_exceptions=True)

    async def _declare(self, declare: Callable[[Hello], Awaitable[object]]) -> None:
        """Declare the jobs. A refusal of the store ends no node."""
        while True:
            await self._come.wait()
            self._come.clear()
            if (app := self._newest) is None:
                continue
            try:
                if await answered(partial(declare, app), wanted=partial(self._is_newest, app)):
                    log.warning("the new code is in force, with its jobs and handlers")
            except TokimoriError as fault:
                log.error("the store refused some jobs of the new code; correct them and send HUP: %s", fault)  # noqa: TRY400
            except Exception:
                log.exception("the store has not taken all jobs of the new code")

    def _is_newest(self, app: Hello) -> bool:
        return app is self._newest


def _nobody_takes(_: Hello) -> None:
    """Do nothing: a change before the node exists is passed to it later."""
