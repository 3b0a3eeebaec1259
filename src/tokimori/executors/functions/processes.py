"""The worker processes of a node: they are started, replaced, reloaded and killed through a keeper."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

from tokimori.errors import Refused
from tokimori.executors.functions.listener import WorkerConnection, WorkerListener
from tokimori.executors.functions.pool import SLOW_IMPORT, Backoff, Drains, Pool, StartLog
from tokimori.executors.functions.process import OWN, AppSettings, Assignment, Phase, WorkerProcess, ending_of
from tokimori.executors.functions.pulse import Pulse
from tokimori.executors.functions.wire import FromWorker, Hello, Unloadable
from tokimori.executors.keeper import wire as keeper_wire
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper_post import Background, KeeperPost, KeeperPosts, remove_old_logs
from tokimori.executors.reported import how
from tokimori.model.lease import LEASE, LEASE_KILL
from tokimori.model.suspicion import COMMON

log = logging.getLogger(__name__)

KEPT_LOGS = 7 * 24 * 3600
"""Seconds for which such a file is kept."""
LEAVES_WITHIN = 1.0
"""Seconds in which a process that has left the line to its node ends by itself; then it is killed."""
STOPS_WITHIN = 5.0
"""Seconds for the hooks of an app when its node stops."""
LAST_WORDS = 0.5
"""Seconds for which is read what a process said that has exited: a child of it may hold the line for ever."""


class Processes:
    """The worker processes of an app.

    `receive` gets the messages of a process; `ready` is called when there is room, or none for a while; `died` gets
    processes ended together, how, and whether they did so by themselves, `changed` what new code declares, as soon as
    runs go to that code alone. The keepers of these processes are their own, one for each cell: they kill them with
    the lease, and when this process dies. The end of a keeper ends the processes of its cell alone.
    """

    def __init__(
        self,
        app: AppSettings,
        *,
        receive: Callable[[WorkerProcess, Sequence[FromWorker]], None],
        ready: Callable[[], None],
        died: Callable[[Sequence[WorkerProcess], str, bool], None],
        changed: Callable[[Hello], object],
    ) -> None:
        self._app = app
        self._settings = app.keeper()
        self._pass_on, self._ready, self._died = receive, ready, died
        self._work, self._ending = Background(), Background()
        self._posts = KeeperPosts(self._settings, self._receive_notice, self._keeper_died, self._work)
        self._listener = WorkerListener(
            app.state_dir / "sockets",
            app.secret,
            lambda reading: WorkerConnection(reading, self._greet, self._receive, self._cut_off),
        )
        self._processes = Pool()
        self._hello: asyncio.Future[Hello] | None = None
        self._lease: keeper_wire.Lease | None = None
        self._generation, self._given_to, self._last = 1, 1, 0
        self._backoff, self._start_log = Backoff(), StartLog()
        self._newest: Hello | None = None
        self._changed = changed
        self._closing = False
        self.drains, self.pulse = Drains(self.kill, ready), Pulse(self._processes.values, self._silence)
        self._farewells: dict[int, Callable[[], None]] = {}

    async def open(self) -> Hello:
        """Start the processes; return the hello of the first one. Raises `Refused` if the app can't be loaded."""
        remove_old_logs(self._settings.runs_dir / "workers", time.time() - KEPT_LOGS)
        self._hello = asyncio.get_running_loop().create_future()
        await self._listener.open()
        await self._posts.begin(COMMON).open()
        self._replenish()
        self._work.begin(self.pulse.beat())
        try:
            while not (await asyncio.wait([self._hello], timeout=SLOW_IMPORT))[0]:
                log.warning("the app %r is still being imported, or in its on_start: the node waits", self._app.app)
            return await self._hello
        except BaseException:
            await self.close()
            raise

    def reload(self, app: AppSettings | None = None) -> None:
        """Let processes with the code of now (and these settings) take over; the old ones leave when all are there."""
        self._app = app or self._app
        self._generation += 1
        self._backoff = Backoff()
        for process in self._processes.values():
            if process.phase is Phase.STARTING and process.cell == COMMON:
                process.phase = Phase.LEAVING  # else each file that is saved starts some more beside those
                self.kill(process)
            elif process.cell == COMMON and process.generation > self._given_to:
                process.leave()
        self._replenish()

    async def close(self) -> None:
        """Let processes with stop hooks leave, then kill all of them, and the keepers."""
        self._closing = True
        await self._processes.let_stop(STOPS_WITHIN)
        self._listener.close()
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._ending, *(post.close() for post in self._posts.values()))

    # Where a run may go

    @property
    def able(self) -> bool:
        """Return whether a given run begins: now, or once a process that is starting is ready."""
        none = self._backoff.pause or self._processes.hangs() or self._processes.all_silent(self._given_to)
        return self._processes.has_ready(self._given_to) or not none

    @property
    def unable(self) -> str:
        """Return why it would not begin, as the log has said it; empty if it would."""
        return self._start_log.unable

    def place(self, cell: int) -> WorkerProcess | None:
        """Return the cell's process with room and the least to do. Those of suspects don't wait for a takeover."""
        return self._processes.place(cell, self._given_to if cell == COMMON else self._generation)

    def need(self, cell: int, pause: float, runs: int) -> None:
        """Note the number of runs that wait for this cell. Processes of suspects and of single runs start on demand."""
        if cell == OWN:
            idle, room = self._processes.idle_own(self._app.concurrency)
            for process in idle[runs:]:
                self._retire(process)
            for _ in range(min(runs - len(idle), room)):
                self._start(OWN, self._backoff.pause)
        elif cell != COMMON and not any(self._processes.alive(cell)):
            self._start(cell, max(pause, self._backoff.pause))

    def flush(self) -> None:
        """Send the messages that wait for the processes."""
        self._processes.flush()

    def look_at(self, process: WorkerProcess) -> None:
        """Replace a process that has done enough. One of suspects ends when it has nothing to do."""
        if process.generation == self._generation:
            self._backoff.worked()
        if self._log_able():
            self._ready()
        self.drains.look_at(process)
        most = self._app.max_runs_per_process
        if (process.cell != COMMON and not process.load) or (most is not None and process.ended >= most):
            self._retire(process)

    # Orders to the keeper

    def bind(self, process: WorkerProcess) -> None:
        """Report to the keeper if the process has to end with the lease."""
        self._send(process, keeper_wire.Bind(process.number, process.lease_bound))

    def kill(self, process: WorkerProcess) -> None:
        """End the process now, with all that it has started."""
        self._send(process, keeper_wire.Stop(process.number, 0.0))

    def drain(self, process: WorkerProcess, attempt: Assignment) -> bool:
        """Let another process take its place, and end it, in which this attempt does not end, once that harms least."""
        self.drains.add(process, attempt, self._app.drain, self._app.processes)
        self._replenish()
        return True

    def renew(self, sent: float) -> None:
        """Move the lease's deadlines; at times, look how much memory they take."""
        self._lease = keeper_wire.Lease(sent + LEASE, sent + LEASE_KILL)
        self._processes.renew(sent + LEASE)
        for post in self._posts.values():
            post.send([], self._lease)
        if self._processes.hangs():
            self._start_log.imports(self._app.app, self._generation, others=self._given_to < self._generation)
        self._log_unable()
        if self._app.max_age is not None and self._processes.wear(boottime() - self._app.max_age):
            self._replenish()
        if (most := self._app.most_memory) is not None:  # another one that has done nothing would be as large
            for process in [each for each in self._processes.values() if each.has_worked and each.memory > most]:
                self._retire(process)

    def _send(self, process: WorkerProcess, order: keeper_wire.Order) -> None:
        if (post := self._posts.get(process.cell)) is not None:
            post.send([order], self._lease)

    # Starting and replacing

    def _replenish(self) -> None:
        """Start as many processes with the code of now as are missing, or too old."""
        for _ in range(self._app.processes - self._processes.fresh(self._generation)):
            self._start(COMMON, self._backoff.pause)
        if self._take_over():
            self._ready()

    def _retire(self, process: WorkerProcess) -> None:
        if process.phase is Phase.READY:
            process.leave()
            if process.cell == COMMON:
                self._replenish()

    def _start(self, cell: int, pause: float) -> None:
        self._last += 1
        process = WorkerProcess(self._last, cell, self._generation, self._app.concurrency)
        self._processes[process.number] = process
        if cell not in self._posts:
            self._posts.begin(cell).open_later(0.0)
        if pause:
            self._work.begin(self._order_later(process, pause))
        else:
            self._order(process)

    async def _order_later(self, process: WorkerProcess, pause: float) -> None:
        await asyncio.sleep(pause)
        if process.phase is Phase.STARTING:
            self._order(process)
        else:
            self._processes.pop(process.number, None)

    def _order(self, process: WorkerProcess) -> None:
        process.since = boottime()
        self._send(process, self._app.start(process.number, self._listener.address))

    # Messages of worker processes

    def _greet(self, connection: WorkerConnection, hello: Hello) -> bool:
        process = self._processes.get(hello.number)
        if process is None or process.phase is not Phase.STARTING or connection.transport is None:
            return False
        connection.room = process.room
        process.connect(connection.transport, hello.pid, hello.stacks, stops=hello.stops)
        self._backoff.loaded()
        if self._hello is not None and not self._hello.done():
            self._hello.set_result(hello)
        elif process.generation == self._generation:
            self._newest = hello
        if process.generation < self._given_to:
            self._retire(process)
        for worn in self._processes.relieved(self._generation, self._app.processes):
            self._retire(worn)
        self._take_over()
        self._log_able()
        self._ready()
        return True

    def _take_over(self) -> bool:
        """Move runs to the newest code if all its processes are there, or no older one is left; return whether.

        Those with older code leave then, and what the new code declares counts: none is given what it does not know.
        """
        ready = [each for each in self._processes.values() if each.is_ready and each.cell == COMMON]
        older = [each for each in ready if each.generation < self._generation]
        come = len(ready) - len(older)
        if self._given_to == self._generation or not come or (older and come < self._app.processes):
            return False
        self._given_to = self._generation
        for process in [each for each in self._processes.values() if each.generation < self._generation]:
            self._retire(process)
        if self._newest is not None:
            self._changed(self._newest)
        return True

    def _receive(self, number: int, messages: Sequence[FromWorker]) -> None:
        process = self._processes.get(number)
        if process is None:
            return
        match messages:
            case [Unloadable(message=message, allowed=allowed)] if process.phase is Phase.STARTING:
                process.phase = Phase.LEAVING
                self._never_ready(process, message, allowed)
            case _:
                self._pass_on(process, messages)

    def _cut_off(self, number: int) -> None:
        """Close the connection of a process. A function may keep it from noticing, and hold its attempts."""
        if (farewell := self._farewells.pop(number, None)) is not None:
            farewell()
            return
        asyncio.get_running_loop().call_later(LEAVES_WITHIN, self._end_if_there, number)

    def _end_if_there(self, number: int) -> None:
        process = self._processes.get(number)
        if process is not None and not process.killed and not self._closing:
            log.warning("worker process %d (pid %s) is cut off from its node, and is ended", number, process.pid)
            process.phase = Phase.CUT_OFF
            self.kill(process)

    def _receive_notice(self, _: KeeperPost, notice: keeper_wire.Notice) -> None:
        match notice:
            case keeper_wire.OutputGrew(number=number):
                process = self._processes.get(number)
                text = "" if process is None else process.said_since(notice)
                if text and not self._refused():  # the error that refuses says why they end
                    log.info("worker process %d: %s", number, text)
            case keeper_wire.ProcessEnded():
                process = self._processes.get(notice.number)
                if process is not None:
                    unasked = notice.cause == keeper_wire.EndCause.EXIT
                    ending, words = ending_of(notice)
                    self._exited(process, partial(self._handle_ends, [process], ending, words, unasked=unasked))
            case _:
                pass

    def _exited(self, process: WorkerProcess, farewell: Callable[[], None]) -> None:
        """Handle an exit. Its keeper may report it before all its words are read: ends of runs would be lost."""
        process.exited = True
        if not process.is_on_line:
            farewell()
            return
        self._farewells[process.number] = farewell
        asyncio.get_running_loop().call_later(LAST_WORDS, self._cut_off, process.number)

    def _handle_ends(
        self, processes: Sequence[WorkerProcess], ending: str, words: str = "", *, unasked: bool = True
    ) -> None:
        """Handle the end of processes that have ended together."""
        found = [each for each in processes if self._processes.pop(each.number, None) is not None]
        if self._closing or not found:
            return
        for process in found:
            self.drains.forget(process)
            phase, process.phase = process.phase, Phase.GONE
            unasked = unasked or phase is Phase.CUT_OFF  # it was ended for what it had done
            if phase is Phase.STARTING:
                self._never_ready(process, f"app: {self._app.app!r} can't be loaded ({ending})\n{words}".rstrip())
            elif phase in (Phase.READY, Phase.CUT_OFF) and process.blamed is None:
                how = f"worker process {process.number} (pid {process.pid}) died ({ending})"
                log.log(logging.WARNING if phase is Phase.READY else logging.DEBUG, "%s: %s", how, words or "no output")
                self._note_death(process, how, words or "no output")
        self._died(found, ending, unasked)
        self._tidy(found[0].cell)

    def _tidy(self, cell: int) -> None:
        """Replace missing processes, and end the keeper of an empty cell."""
        if cell == COMMON:
            if not self._refused():
                self._replenish()
        elif cell in self._posts and not any(each.cell == cell for each in self._processes.values()):
            self._ending.begin(self._posts.pop(cell).close())

    def _never_ready(self, process: WorkerProcess, message: str, allowed: str | None = None) -> None:
        """Fail the start of the node. A node that has started goes on with its other processes."""
        is_first = self._backoff.failed(process.since, boottime())
        if self._hello is not None and not self._hello.done():
            self._hello.set_exception(Refused(message, field="app", value=self._app.app, allowed=allowed))
        elif not self._refused():
            if is_first and self._processes.has_ready(self._given_to):
                log.error("no new code is taken over, the processes with the code of before go on: %s", message)
            self._log_unable(message)

    def _note_death(self, process: WorkerProcess, how: str, words: str) -> None:
        """Note a death. One at the start would come again and again; if runs were in it, they are judged."""
        if process.cell == COMMON and not process.has_worked:
            self._backoff.died_idle(process.since, boottime())
            self._log_unable(how, words)

    def _log_unable(self, *found: str) -> None:
        """Report why no process starts, and return what waits. `found` is the reason, if it is known now."""
        self._start_log.found(*found)
        if not self.able and self._start_log.cannot(self._generation):
            self._ready()

    def _silence(self) -> None:
        """Handle a process that does not answer any more, or does again."""
        if not self._log_able():
            self._log_unable(*self.pulse.words())
        self._ready()

    def _log_able(self) -> bool:
        ready = self._start_log.logged_in is not None and self._processes.has_ready(self._given_to)
        return ready and not self._backoff.pause and self._start_log.can()

    def _refused(self) -> bool:
        return self._hello is not None and self._hello.done() and self._hello.exception() is not None

    # When a keeper dies

    def _keeper_died(self, post: KeeperPost) -> Coroutine[None, None, None]:
        for process in (lost := [each for each in self._processes.values() if each.cell == post.cell]):
            process.exited = True  # it is being ended, and is given nothing more
        return self._bury(post, lost)

    async def _bury(self, post: KeeperPost, lost: Sequence[WorkerProcess]) -> None:
        pid, status = await post.bury()
        log.warning("a keeper of worker processes died (%s)", how(pid, status))
        self._handle_ends(lost, f"its keeper died: {how(pid, status)}")
