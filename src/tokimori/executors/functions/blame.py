"""Runs that keep a worker process from answering. Pure."""

import re
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokimori.executors.functions.stacks import LOOP, Seen

_FRAME = re.compile(r'^  File "(.*)", line \d+ in (.*)$')
_LOOP = "run_forever"
_OURS = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), "<frozen ")
"""How the names of files begin in which the loop waits, if only for the interpreter."""
_THEIRS = "site-packages"
_BUSY = 5
"""Ticks, hundredths of a second, of the second between two looks: a thread that took as many was at work."""


def blamed(seen: Seen, handlers: Mapping[int, str]) -> Sequence[int]:
    """Return the attempts one of which does not let the others go on; `handlers` are those of all in the process.

    If the loop stands in a function it is a coroutine that is called so, or else any, or one that is being begun, whose
    module is imported for it. Otherwise it is the thread that uses the CPU, or else any that runs one. None where the
    process is stopped.
    """
    if seen.stopped:
        return ()
    begun = {number: seen.runs[number] for number in handlers if number in seen.runs}
    if names := _on_the_loop(seen.stacks):
        there = [number for number, thread in begun.items() if thread == LOOP]
        called = [number for number in there if re.split(r"[.:]", handlers[number])[-1] in names]
        return called or there or [number for number in handlers if number not in begun]
    threads = [number for number, thread in begun.items() if thread != LOOP]
    most = max((seen.used.get(begun[number], 0) for number in threads), default=0)
    busy = [number for number in threads if seen.used.get(begun[number], 0) >= max(_BUSY, most / 2)]
    return busy or threads or list(begun) or list(handlers)


def _on_the_loop(stacks: str) -> set[str]:
    """Return the names of the functions of programs in which the loop stands."""
    for section in stacks.split("\n\n"):
        frames = [found.groups() for line in section.splitlines() if (found := _FRAME.match(line))]
        names = [name for _, name in frames]
        if _LOOP in names:
            inner = frames[: names.index(_LOOP)]
            return {name for file, name in inner if _THEIRS in file or not file.startswith(_OURS)}
    return set()
