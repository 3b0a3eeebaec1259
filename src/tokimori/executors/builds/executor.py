"""Runs builds: each is fetched when it is first wanted, and then a command runs it."""

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec.structs import replace

from tokimori.clock import Clock, Moment
from tokimori.errors import Bug, Refused, StoreError, TokimoriError
from tokimori.executors.builds.cache import BuildCache
from tokimori.executors.keeper.kernel import is_short
from tokimori.executors.outcomes import short_of, stopped
from tokimori.model.build import check_task_name, content_of
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Failed, Outcome, Released
from tokimori.model.target import Build, Command
from tokimori.model.task import LARGEST_ENV, env_files_of, read_env
from tokimori.ownership import others_reach
from tokimori.ports.executor import AttemptTask, Builds, Ended, Executor, Report, StopReason

PAUSE = 0.5
"""Seconds after which a run goes back whose build the store does not give now: it may come again at once."""
MOST_AT_ONCE = 4
"""So many builds are fetched, checked and made ready at a time."""
MOST_TOLD = 1_000
"""Of so many tasks it is known which variables they lack."""
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
        self._work: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._makers = ThreadPoolExecutor(MOST_AT_ONCE, "tokimori-builds")  # an environment takes minutes of a thread

    async def open(self, report: Callable[[Report], None]) -> None:
        """See `Executor.open`."""
        self._report = report

    def start(self, tasks: Sequence[AttemptTask]) -> None:
        """See `Executor.start`."""
        for task in tasks:
            self._waiting[_key_of(task)] = task
            self._see_to(self._start(task))

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
        except Exception as fault:  # whatever it was: a run of which nothing is told runs for ever
            log.exception("the build of run %s failed in this program itself", task.run_id)
            self._end(
                task, Failed(f"the node could not make its build ready: {type(fault).__name__}; its log says more")
            )
        else:
            if self._waiting.pop(_key_of(task), None) is not None:
                self._commands.start([replace(task, target=command)])

    async def _command(self, task: AttemptTask) -> Command:
        """Return the command that runs the build. Raises `TokimoriError`, and `OSError` if this machine can't keep it
        now.
        """
        if not isinstance(task.target, Build):
            raise Bug(f"a {type(task.target).__name__} was given to the executor of builds")
        name, digest = task.target.task, task.target.digest
        if not await asyncio.to_thread(self._cache.has, digest):
            if self._builds is None:
                raise Bug("this node was given no builds")
            pieces = await self._builds.pieces(name, digest)
            await asyncio.to_thread(lambda: self._cache.keep(digest, content_of(pieces, digest)))
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
        while len(self._lacking) > MOST_TOLD:
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
        self._see_to(asyncio.to_thread(self._cache.forget, before))

    async def close(self) -> None:
        """See `Executor.close`."""
        for task in list(self._waiting.values()):
            self._end(task, stopped(StopReason.RELEASE))
        self._cache.close()
        self._makers.shutdown(wait=False, cancel_futures=True)
        for work in self._work:
            work.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def _see_to(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


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
