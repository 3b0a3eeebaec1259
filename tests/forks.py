"""Processes that share what one has found: `pytest --forks 7`.

Collecting costs a millisecond a test, and each worker of xdist collects all of them. Here one process does, forks, and
gives its children one file after the other, in the order of the tests; a child asks for the next one before the last
test of a file, which has to know what its fixtures stay for. What a child reports is shown as if it had been run here.
"""

import os
import traceback
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import groupby, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import pytest

Items = list[pytest.Item]
Link: TypeAlias = "Connection[Any, Any]"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the number of processes."""
    parser.addoption("--forks", type=int, default=0, help="processes that run the tests, forked from this one")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forked processes, if they are asked for."""
    count = session.config.option.forks
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    _Parent(session).run(count)
    return True


class _Child:
    """What runs tests, and reports each step of them."""

    def __init__(self, session: pytest.Session, files: list[Items], link: Link) -> None:
        self._session = session
        self._files = files
        self._link = link

    def work(self, number: int, items: Items) -> NoReturn:
        """Run these tests and those of files that are given for as long as there are any; never return."""
        status = 1
        try:
            self._begin(number)
            while items:
                items = self._run(items)
            self._session.config.hook.pytest_sessionfinish(
                session=self._session, exitstatus=int(self._session.testsfailed > 0)
            )
            status = 0
        except (BrokenPipeError, ConnectionResetError, EOFError, KeyboardInterrupt):  # nobody listens any more
            self._session.config.hook.pytest_sessionfinish(session=self._session, exitstatus=2)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _begin(self, number: int) -> None:
        """Have what is not to be shared with other children: captured output, a terminal, a folder."""
        config = self._session.config
        config.workerinput = {}  # type: ignore[attr-defined]  # as xdist has it: others keep no memory of this process
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
        config.get_terminal_writer()._file = Path(os.devnull).open("w")  # noqa: SIM115  # as long as it lives
        factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / f"gw{number}"
        factory._basetemp.mkdir(mode=0o700, exist_ok=True)
        factory._exit_stack = ExitStack()  # the parent alone removes older folders: two at once fail
        config.pluginmanager.register(self)

    def _run(self, items: Items) -> Items:
        """Run these tests; those of the next file."""
        run = self._session.config.hook.pytest_runtest_protocol
        for item, after in pairwise(items):
            run(item=item, nextitem=after)
        self._link.send(("next", None))
        place = self._link.recv()
        following = [] if place is None else self._files[place]
        run(item=items[-1], nextitem=following[0] if following else None)
        return following

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pass a report on."""
        hook = self._session.config.hook
        self._link.send(("report", hook.pytest_report_to_serializable(config=self._session.config, report=report)))

    def pytest_runtest_logfinish(self) -> None:
        """Say that a test has ended."""
        self._link.send(("ended", None))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        """Pass a warning on."""
        values = (
            str(warning_message.message),
            warning_message.category,
            warning_message.filename,
            warning_message.lineno,
        )
        self._link.send(("warning", (values, {"when": when, "nodeid": nodeid})))


class _Parent:
    """What forks, gives files away and shows what became of their tests."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
        self._left = deque(range(len(self._files)))
        self._children: dict[Link, tuple[int, int, deque[pytest.Item]]] = {}
        """By link: number, process, and the tests that have not ended."""

    def run(self, count: int) -> None:
        """Run all tests in so many processes."""
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            for number in range(min(count, len(self._files))):
                self._fork(number, self._files[self._left.popleft()])
            while self._children:
                for link in set(self._children).intersection(wait(self._children)):
                    self._hear(link)
        finally:
            self._end(list(self._children))

    def _fork(self, number: int, items: Items) -> None:
        here, there = Pipe()
        pid = os.fork()
        if not pid:
            for link in (here, *self._children):
                link.close()
            _Child(self._session, self._files, there).work(number, items)
        there.close()
        self._children[here] = number, pid, deque(items)

    def _hear(self, link: Link) -> None:
        try:
            kind, said = link.recv()
        except (EOFError, OSError):
            self._gone(link)
            return
        _, _, left = self._children[link]
        hook, config = self._session.config.hook, self._session.config
        if kind == "next":
            place = self._left.popleft() if self._left else None
            left.extend([] if place is None else self._files[place])
            with suppress(OSError):  # it has died: that is heard next
                link.send(place)
        elif kind == "report":
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=config, data=said))
        elif kind == "warning":
            values, words = said
            words |= {"warning_message": warnings.WarningMessage(*values), "location": None}
            hook.pytest_warning_recorded.call_historic(kwargs=words)
        else:
            left.popleft()
            self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _gone(self, link: Link) -> None:
        """Tell of a test that has ended its process, and let another one run those that came after it."""
        number, pid, left = self._children.pop(link)
        link.close()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not left and status:
            pytest.exit(f"A process of the tests has ended with {status} after its last test.", returncode=1)
        if not left:
            return
        item = left.popleft()
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"Its process has ended with {status}.", "call"
        )
        self._session.config.hook.pytest_runtest_logreport(report=report)
        self._stop_if_asked()
        if left:
            self._fork(number, list(left))

    def _end(self, links: Sequence[Link]) -> None:
        """End what still runs: who finds nobody that listens ends after its test."""
        for link in links:
            link.close()
        for link in links:
            os.waitpid(self._children.pop(link)[1], 0)
