"""Start of another user's command, in a process that becomes that user before it touches the user's files.

The user's files may deceive and delay: a folder may be a link to a place for root only, and the opening of a program
may be delayed at will (a lease, fcntl(2)). So that process does all of it, as the user, and the keeper never waits for
it.
"""

import json
import os
import resource
import signal
from typing import NoReturn

from .surroundings import Begun, Surroundings
from .wire import Start

_MOST_TEXT = 200
_MOST = 4096
"""Bytes for the report of a fault; a pipe takes them at once."""
_DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that this interpreter ignores, and that a child would ignore, too."""


def begin(order: Start, around: Surroundings, stdin: int, output: int | None) -> Begun:
    """Start a process, leader of a group of its own. Raises `OSError`.

    It may not have become the user yet when this returns. When it has ended, `complaint` says if it ever began.
    """
    complaints, complain = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        pid = os.fork()
    except OSError:
        os.close(complaints)
        os.close(complain)
        raise
    if pid == 0:
        _become_it(order, around, (stdin, output), complain)
    os.close(complain)
    try:
        os.setpgid(pid, pid)  # the child does so as well: signals find the group, whichever is first
    except OSError:
        pass
    return Begun(pid, complaints)


def complaint(order: Start, descriptor: int) -> Exception | None:
    """Return why an ended process never began, None if it did; closes the pipe."""
    try:
        content = os.read(descriptor, _MOST)
    except BlockingIOError:
        return None
    finally:
        os.close(descriptor)
    if not content:
        return None
    number, reason, was_there = json.loads(content)
    return ValueError(reason) if number is None else OSError(number, reason, order.argv[0] if was_there else order.cwd)


def _become_it(order: Start, around: Surroundings, files: tuple[int, int | None], complain: int) -> NoReturn:
    was_there = False
    try:
        os.setpgid(0, 0)
        _take_on(around, *files)
        _change_user(order)
        _enter(order)
        was_there = True
        os.execvpe(order.argv[0], order.argv, order.env)  # noqa: S606
    except BaseException as fault:
        _say(complain, fault, was_there)
    finally:
        os._exit(255)


def _take_on(around: Surroundings, stdin: int, output: int | None) -> None:
    for number, own in enumerate((stdin, output, output)):
        if own is not None:
            os.dup2(own, number)
    os.umask(around.umask)
    resource.setrlimit(resource.RLIMIT_NOFILE, around.descriptors)
    for each in _DEFAULT:
        signal.signal(each, signal.SIG_DFL)


def _change_user(order: Start) -> None:
    if order.account is not None:
        user, group, groups = order.account
        os.setgroups(groups)
        os.setregid(group, group)
        os.setreuid(user, user)


def _enter(order: Start) -> None:
    try:
        os.chdir(order.cwd)
    except OSError:
        if not order.or_root:
            raise
        os.chdir("/")


def _say(complain: int, fault: BaseException, was_there: bool) -> None:
    """Report a fault: the number of an `OSError`, a text, and if the folder was entered."""
    number = fault.errno if isinstance(fault, OSError) else None
    os.write(complain, json.dumps([number, str(fault)[:_MOST_TEXT], was_there]).encode())
