"""The pulse of worker processes: each is asked every second for an answer; and runs that keep one from answering."""

import asyncio
import logging
import re
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tokimori.executors.functions.attempts import handler_in
from tokimori.executors.functions.process import SILENT, Assignment, Silence, WorkerProcess
from tokimori.executors.functions.stacks import LOOP, Look, Seen
from tokimori.executors.functions.wire import Ping
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.reported import runs_of

_FRAME = re.compile(r'^  File "(.*)", line \d+ in (.*)$')
_LOOP = "run_forever"
_OURS = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), "<frozen ")
"""How the names of files begin in which the loop waits, if only for the interpreter."""
_THEIRS = "site-packages"
_BUSY = 5
"""Ticks, hundredths of a second, of the second between two looks: a thread that took as many was at work."""


def blamed(seen: Seen, handlers: Mapping[int, str]) -> Sequence[int]:
    """Return the attempts one of which blocks the others: the fewest that are known to; none if the process is stopped.

    `handlers` are those of all attempts in the process.
    """
    if seen.stopped:
        return ()
    begun = {number: seen.runs[number] for number in handlers if number in seen.runs}
    if names := _on_the_loop(seen.stacks):
        coroutines = [number for number, thread in begun.items() if thread == LOOP]
        called = [number for number in coroutines if re.split(r"[.:]", handlers[number])[-1] in names]
        beginning = [number for number in handlers if number not in begun]  # whose module is being imported
        return called or coroutines or beginning
    threads = {number: seen.used.get(thread, 0) for number, thread in begun.items() if thread != LOOP}
    most_used = max(threads.values(), default=0)
    busy = [number for number, used in threads.items() if used >= max(_BUSY, most_used / 2)]
    return busy or list(threads) or list(begun) or list(handlers)


def _on_the_loop(stacks: str) -> set[str]:
    """Return the names of the functions of programs in which the loop stands."""
    for section in stacks.split("\n\n"):
        frames = [found.groups() for line in section.splitlines() if (found := _FRAME.match(line))]
        names = [name for _, name in frames]
        if _LOOP in names:
            inner = frames[: names.index(_LOOP)]
            return {name for file, name in inner if _THEIRS in file or not file.startswith(_OURS)}
    return set()


log = logging.getLogger(__name__)

EVERY = 1.0
LOGGED = 5
"""Seconds without an answer after which it is logged."""
MOST_SHOWN = 8
"""Number of processes without an answer that are reported to others."""
NO_STACK = "no stack: it is stopped, or has no handler for the signal that asks for one"


class Pulse:
    """Regular question to all `processes`. `changed` is called when one has become silent, when the reason is known,
    and when it answers.

    Time is counted in turns, so that a node that stood still itself takes no process for silent.
    """

    def __init__(self, processes: Callable[[], Iterable[WorkerProcess]], changed: Callable[[], object]) -> None:
        self._processes = processes
        self._changed = changed

    async def beat(self) -> None:
        """Ask again and again."""
        while True:
            await asyncio.sleep(EVERY)
            for process in list(self._processes()):
                if process.is_on_line and not (process.exited or process.killed):
                    self.ask(process)

    def ask(self, process: WorkerProcess) -> None:
        """Ask a process, or count one more second in which it has not answered."""
        silence = process.silence
        if silence is None:
            process.silence = Silence(boottime())
            process.send([Ping()])
            return
        silence.seconds += 1
        if silence.seconds == SILENT:
            self._changed()
        elif silence.seconds == LOGGED - 1:
            silence.look = Look(process.pid or 0, process.stacks)
        elif silence.seconds == LOGGED:
            _log_silence(process, silence)
            self._changed()

    def answered(self, process: WorkerProcess) -> None:
        """Note that it lives."""
        silence, process.silence = process.silence, None
        if silence is not None and silence.seconds >= SILENT:
            if silence.by is not None:
                log.warning("worker process %d (pid %s) answers again", process.number, process.pid)
            self._changed()

    def withdrawn(self) -> list[Assignment]:
        """Take back the unsent attempts of processes that do not answer."""
        return [attempt for each in self._processes() if not each.answers for attempt in each.withdraw()]

    def silent(self) -> list[WorkerProcess]:
        """Return the processes to report as silent."""
        return [each for each in self._processes() if each.silence is not None and each.silence.by is not None]

    def words(self) -> tuple[str, ...]:
        """Return why no process answers, in words; nothing if all do."""
        found = [_words(each) for each in self._processes() if not each.answers]
        return ("; ".join(found[:MOST_SHOWN]),) if found else ()


def _log_silence(process: WorkerProcess, silence: Silence) -> None:
    seen = Seen() if silence.look is None else silence.look.again()
    silence.stopped, silence.look = seen.stopped, None
    handlers = {number: handler_in(attempt.task) for number, attempt in process.attempts.items()}
    silence.by = tuple(process.attempts[number] for number in blamed(seen, handlers))
    log.warning("%s; it is given no run until it answers\n%s", _words(process), seen.stacks.strip() or NO_STACK)


def _words(process: WorkerProcess) -> str:
    silence, which = process.silence, f"worker process {process.number} (pid {process.pid})"
    if silence is None or silence.by is None:
        return f"{which} does not answer"
    text = f"{which} has not answered for {LOGGED} s"
    if silence.stopped:
        return f"{text}: it is stopped, `kill -CONT {process.pid}` lets it go on"
    if not silence.by:
        return f"{text}: something that is no run blocks it"
    who = runs_of([attempt.task for attempt in silence.by])
    return f"{text}: {who} blocks it" if len(silence.by) == 1 else f"{text}: one of these blocks it: {who}"
