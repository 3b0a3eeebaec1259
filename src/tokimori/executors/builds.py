"""Executor of builds: it fetches each into a cache at its first use, and runs it as a command."""

import asyncio
import fcntl
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tokimori.clock import SECOND, Clock, Moment
from tokimori.errors import Bug, Refused, StoreError, TokimoriError
from tokimori.executors.keeper.kernel import is_short
from tokimori.executors.keeper_post import Background
from tokimori.executors.reported import short_of, stopped
from tokimori.model.build import Manifest, check_content, check_task_name, content_of, manifest_of
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Failed, Outcome, Released
from tokimori.model.target import Build, Command
from tokimori.model.task import LARGEST_ENV, env_files_of, read_env
from tokimori.ownership import others_reach
from tokimori.ports.executor import AttemptTask, Builds, Ended, Executor, Report, StopReason

PAUSE = 0.5
"""Seconds after which a run goes back whose build the store does not give now: it may come again at once."""
MOST_AT_ONCE = 4
"""Number of builds fetched, checked and made ready at a time."""
MOST_LACKING = 1_000
"""Number of tasks whose missing variables are remembered."""
log = logging.getLogger(__name__)
_Key = tuple[RunId, Token]


class BuildExecutor:
    """Executor of tasks that run builds.

    It turns them into commands for the executor of commands, which receives all other orders. `tasks_dir` is the folder
    of a workspace: a task gets the variables of its `.env` there, if it exists.
    """

    def __init__(
        self, commands: Executor, builds: Builds | None, clock: Clock, *, state_dir: Path, tasks_dir: Path | None = None
    ) -> None:
        self._commands = commands
        self._builds = builds
        self._clock = clock
        self._cache = BuildCache(state_dir)
        self._tasks_dir = tasks_dir
        self._report: Callable[[Report], None] = _nobody
        self._lacking: dict[str, tuple[str, ...]] = {}
        self._waiting: dict[_Key, AttemptTask] = {}
        self._work = Background()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._makers = ThreadPoolExecutor(MOST_AT_ONCE, "tokimori-builds")  # an environment takes minutes of a thread

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        for task in tasks:
            self._waiting[_key_of(task)] = task
            self._work.begin(self._start(task))

    async def _start(self, task: AttemptTask) -> None:
        try:
            async with self._room:
                command = await self._command(task)
        except StoreError as fault:
            await asyncio.sleep(PAUSE)
            self._end(task, Released(f"the store does not give its build: {fault.message}"))
        except TokimoriError as fault:
            self._end(task, Failed(fault.message))
        except (OSError, RuntimeError, MemoryError) as fault:
            if is_short(fault):
                self._end(task, short_of(f"its build can't be made ready: {fault}"))
                return
            log.exception("the build of run %s can't be made ready now", task.run_id)
            await asyncio.sleep(PAUSE)
            self._end(task, Released(f"its build can't be made ready here: {fault}"))
        except Exception as fault:  # whatever it was: a run without a report runs for ever
            log.exception("the build of run %s failed in this program itself", task.run_id)
            self._end(
                task, Failed(f"the node could not make its build ready: {type(fault).__name__}; its log says more")
            )
        else:
            if self._waiting.pop(_key_of(task), None) is not None:
                self._commands.start([replace(task, target=command)])

    async def _command(self, task: AttemptTask) -> Command:
        """Return the command that runs the build. Raises `TokimoriError`, and `OSError` if it can't be kept now."""
        if not isinstance(task.target, Build):
            raise Bug(f"a {type(task.target).__name__} was given to the executor of builds")
        name, digest = task.target.task, task.target.digest
        if not await asyncio.to_thread(self._cache.has, digest):
            if self._builds is None:
                raise Bug("this node was given no builds")
            pieces = await self._builds.pieces(name, digest)
            await asyncio.to_thread(lambda: self._cache.store(digest, content_of(pieces, digest)))
        python = await asyncio.get_running_loop().run_in_executor(self._makers, self._cache.python_of, digest)
        env = {} if self._tasks_dir is None else await asyncio.to_thread(env_of, self._tasks_dir, name)
        await self._warn(name, digest, env)
        return Command(argv=(python, "-u", str(self._cache.file_of(digest))), env=env)

    async def _warn(self, name: str, digest: str, env: Mapping[str, str]) -> None:
        """Log variables that the build had and that are missing now; once for each set of them."""
        missing = tuple(sorted(set(await asyncio.to_thread(self._cache.variables_of, digest)) - env.keys()))
        if missing and self._lacking.get(name) != missing:
            where = "tasks_dir is not set" if self._tasks_dir is None else f"{self._tasks_dir / name / '.env'}"
            log.warning("task %s runs without %s of its .env (%s)", name, ", ".join(missing), where)
        self._lacking[name] = missing
        while len(self._lacking) > MOST_LACKING:
            self._lacking.pop(next(iter(self._lacking)))

    def stop(self, run_id: RunId, token: Token, reason: StopReason, *, grace: float | None = None) -> None:
        """See `Executor.stop`. The executor of commands receives the order for an attempt that has begun."""
        waiting = self._waiting.get((run_id, token))
        if waiting is not None:
            self._end(waiting, stopped(reason))

    def _end(self, task: AttemptTask, outcome: Outcome) -> None:
        if self._waiting.pop(_key_of(task), None) is not None:
            self._report(Ended(run_id=task.run_id, token=task.token, outcome=outcome, at=self._clock.now()))

    def renew(self, sent: float) -> None:
        """See `Executor.renew`."""

    def forget(self, before: Moment) -> None:
        """See `Executor.forget`: builds and environments that nothing has run since."""
        self._work.begin(asyncio.to_thread(self._cache.forget, before))

    async def close(self) -> None:
        """See `Executor.close`."""
        for task in list(self._waiting.values()):
            self._end(task, stopped(StopReason.RELEASE))
        self._cache.close()
        self._makers.shutdown(wait=False, cancel_futures=True)
        for work in self._work:
            work.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)


def env_of(tasks_dir: Path, name: str) -> dict[str, str]:
    """Return the variables of a task, from its file in the workspace; none without a file.

    Raises `InvalidInput`, and `Refused` if the node is root's and other users could have written the file.
    """
    check_task_name(name)
    for place in env_files_of(name):
        file = tasks_dir / place
        try:
            with open(file, "rb", opener=_without_waiting) as opened:
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    raise Refused(f"env: {file} is not a regular file", field="env", value=str(file))
                content = opened.read(LARGEST_ENV + 1)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as fault:
            raise Refused(f"env: {file} can't be read: {fault}", field="env") from None
        if os.geteuid() == 0 and (reached := others_reach(file)) is not None:
            raise Refused(f"env: root trusts no other user: {reached}", field="env")
        return read_env(content, str(file))
    return {}


def _without_waiting(file: str, flags: int) -> int:
    """Open the file without waiting: a pipe in its place would block until it has a writer."""
    return os.open(file, flags | os.O_NONBLOCK)


def _key_of(task: AttemptTask) -> _Key:
    return task.run_id, task.token


def _nobody(_report: Report) -> None:
    """Ignore the report: before `open` there is no receiver."""


LONGEST: Final = 600
"""Seconds that pip gets."""
_LOOK: Final = 0.5
"""Seconds between two looks whether it is to be ended."""
_AGAIN: Final = 0.02
"""Seconds between two tries to be the only one: most hold an environment for less, to say that it is wanted."""
_READY: Final = "tokimori-ready"
_LOCK: Final = "tokimori-lock.txt"
_SAID: Final = 2_000
"""Number of the last characters of pip's output in an error."""


class Environments:
    """Every method but `close` waits for the disk or for pip, and is called in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closing = threading.Event()

    def close(self) -> None:
        """End environments in the making: a node that stops does not wait for them."""
        self._closing.set()

    def python_for(self, manifest: Manifest) -> str:
        """Return the Python for a build: that of the node if it depends on nothing else.

        Raises `Refused` if its environment can't be made.
        """
        if not manifest.lock:
            return sys.executable
        folder = self._folder / key_of(manifest.lock)
        python = folder / "bin" / "python"
        with self._locked(folder.name):
            if not (folder / _READY).exists():
                self._make(folder, manifest)
            os.utime(folder / _READY)
        return str(python)

    def _make(self, folder: Path, manifest: Manifest) -> None:
        """Make an environment anew. A half-made one has no mark that it is ready."""
        shutil.rmtree(folder, ignore_errors=True)
        for_whom = f"the task {manifest.task!r} (locked for {manifest.locked_for})"
        _run([sys.executable, "-m", "venv", str(folder)], for_whom, self._closing)
        lock = folder / _LOCK
        lock.write_text("".join(f"{line}\n" for line in manifest.lock))
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        _run([*pip, "--quiet", "--no-deps", "--require-hashes", "-r", str(lock)], for_whom, self._closing)
        (folder / _READY).touch()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Lock the environment: nodes that share a folder make it one after the other."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{name}.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _try_lock(lock):
                if self._closing.wait(_AGAIN):
                    raise Refused("build: its environment is made by another node, and this one stops", field="build")
            yield
        finally:
            os.close(lock)

    def forget(self, oldest: float) -> None:
        """Remove environments that were last used before `oldest` (seconds since 1970), and unfinished ones."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if not folder.is_dir():
                continue
            with self._locked(folder.name):
                ready = folder / _READY
                if not ready.exists() or ready.stat().st_mtime < oldest:
                    shutil.rmtree(folder, ignore_errors=True)


def key_of(lock: tuple[str, ...]) -> str:
    """Return the name of the environment of these dependencies, for the Python of this process."""
    python = f"{sys.implementation.cache_tag} {sys.base_prefix}"
    return sha256("\n".join([python, *lock]).encode()).hexdigest()[:32]


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _run(argv: list[str], for_whom: str, closing: threading.Event) -> None:
    """Run the program to its end. Raises `Refused` if it fails, takes too long, or is ended.

    It has a session of its own, so that its children end with it, and Ctrl-C at the node's terminal does not reach it.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    deadline, output = time.monotonic() + LONGEST, None
    while output is None:
        try:
            output = process.communicate(timeout=_LOOK)[0]
        except subprocess.TimeoutExpired:
            if closing.is_set() or time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        why = output.strip()[-_SAID:] or f"its process was ended ({process.returncode})"
        raise Refused(f"build: the environment of {for_whom} can't be made: {why}", field="build")


_PRIVATE: Final = 0o700


class BuildCache:
    """Every method but `close` waits for the disk, and is called in a thread. Each may raise `OSError`."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir.absolute() / "builds"
        self._environments = Environments(state_dir.absolute() / "environments")

    def file_of(self, digest: str) -> Path:
        """Return the file of the build."""
        return self._folder / f"{digest}.pyz"

    def has(self, digest: str) -> bool:
        """Return whether the build is here under its digest; a file that was changed is removed."""
        file = self.file_of(digest)
        try:
            check_content(file.read_bytes(), digest)
            os.utime(file)
        except FileNotFoundError:
            return False
        except Refused:
            file.unlink(missing_ok=True)
            return False
        return True

    def store(self, digest: str, content: bytes) -> None:
        """Store the checked content of a build."""
        self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        unnamed = self._folder / f".{digest}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            with os.fdopen(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
                written.write(content)
            unnamed.replace(self.file_of(digest))
        finally:
            unnamed.unlink(missing_ok=True)

    def python_of(self, digest: str) -> str:
        """Return the Python that runs the build, and all that it needs. Raises `Refused` if that can't be had."""
        return self._environments.python_for(manifest_of(self.file_of(digest).read_bytes()))

    def variables_of(self, digest: str) -> tuple[str, ...]:
        """Return the names of the variables with which the build was made."""
        return manifest_of(self.file_of(digest).read_bytes()).variables

    def close(self) -> None:
        """End builds in the making, without waiting."""
        self._environments.close()

    def forget(self, before: Moment) -> None:
        """Remove the builds and the environments that nothing has run since."""
        oldest = before / SECOND
        for file in self._folder.glob("*.pyz") if self._folder.is_dir() else ():
            if file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)
        self._environments.forget(oldest)
