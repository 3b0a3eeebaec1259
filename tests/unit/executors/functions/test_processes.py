"""Worker processes as their node knows them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.simulation.virtual_time import let_pass, run_virtually
from tokimori.errors import Refused
from tokimori.executors.functions import wire
from tokimori.executors.functions.listener import WorkerConnection
from tokimori.executors.functions.pool import SLOW_IMPORT
from tokimori.executors.functions.process import OWN, AppSettings, Phase, WorkerProcess
from tokimori.executors.functions.processes import LAST_WORDS, Processes
from tokimori.executors.keeper import wire as keeper_wire
from tokimori.executors.keeper.kernel import boottime
from tokimori.executors.keeper_post import KeeperPost
from tokimori.model.suspicion import COMMON
from tokimori.turns import TurnsOfReaders

EXIT = keeper_wire.ProcessEnded(1, 0.0, 0, keeper_wire.EndCause.EXIT, "", 0, "", "")
LAST_WORD = wire.FunctionEnded(number=1, began=0, at=0, end=wire.SUCCEEDED)
CELL = 7
"""Of a suspect: there nobody is replaced."""


class OpenLine:
    """A line on which a process may still be heard."""

    def is_closing(self) -> bool:
        """See `asyncio.WriteTransport`."""
        return False

    def write(self, _: bytes) -> None:
        """See `asyncio.WriteTransport`."""


@pytest.mark.parametrize("line_ends", [True, False])
def test_a_process_that_exits_is_heard_to_the_end(line_ends: bool, tmp_path: Path) -> None:
    """Its keeper may tell so first: what it said last counts, but who holds its line holds up nobody."""
    told: list[str] = []

    def died(_processes: Sequence[WorkerProcess], _how: str, unasked: bool) -> None:
        told.append(f"died, {unasked}")

    async def scenario() -> None:
        app = AppSettings(app="a", secret="s", state_dir=tmp_path, runs_dir=tmp_path, environ={})
        pool = Processes(
            app,
            receive=lambda _, said: told.extend(type(each).__name__ for each in said),
            ready=lambda: None,
            died=died,
            changed=lambda _: None,
        )
        process = pool._processes[1] = WorkerProcess(1, CELL, 1, 1)
        process.connect(cast(asyncio.WriteTransport, OpenLine()), 7)
        pool._receive_notice(cast(KeeperPost, None), EXIT)
        assert (told, process.has_room) == ([], False)
        pool._receive(1, [LAST_WORD])
        if line_ends:
            pool._cut_off(1)
        else:
            await let_pass(LAST_WORDS)
        assert told == ["FunctionEnded", "died, True"]

    run_virtually(scenario())


class Cut(OpenLine):
    """A line that may be cut."""

    def __init__(self) -> None:
        self.is_cut = False

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""
        self.is_cut = True


def test_who_says_hello_once_more_is_heard_all_the_same() -> None:
    """A function that says so in the name of its process takes nothing from what else is told there."""
    receive, connection = line_of(cut := Cut())
    connection._read(wire.frame([hello(1), LAST_WORD, hello(1)]))
    connection._read(wire.frame([LAST_WORD]))
    assert receive == [(1, [LAST_WORD, hello(1)]), (1, [LAST_WORD])]
    assert not cut.is_cut


def test_who_does_not_say_hello_is_cut_off() -> None:
    """Whatever else a stranger says is not heard."""
    receive, connection = line_of(cut := Cut())
    connection._read(wire.frame([LAST_WORD, hello(1)]))
    assert (receive, cut.is_cut) == ([], True)


def line_of(transport: Cut) -> tuple[list[tuple[int, Sequence[wire.FromWorker]]], WorkerConnection]:
    """What is heard on a line, and the line, on which nobody has said anything yet."""
    receive = list[tuple[int, Sequence[wire.FromWorker]]]()
    connection = WorkerConnection(
        cast(TurnsOfReaders, None), lambda _, __: True, lambda number, said: receive.append((number, said))
    )
    connection.transport = cast(asyncio.WriteTransport, transport)
    return receive, connection


class Keeper:
    """A keeper that starts what it is told, and remembers when."""

    def __init__(self) -> None:
        self.starts: list[tuple[float, int]] = []
        self.stops: set[int] = set()

    def send(self, orders: Sequence[keeper_wire.Order], _lease: object) -> None:
        """See `KeeperPost`."""
        at = asyncio.get_running_loop().time()
        self.starts += [(at, each.number) for each in orders if isinstance(each, keeper_wire.Start)]
        self.stops |= {each.number for each in orders if isinstance(each, keeper_wire.Stop)}


class Pool:
    """The processes of an app that was loaded once, on a keeper of ours."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.keeper, self.got_on, self.ended = Keeper(), 0, set[int]()
        self.declared = list[wire.Hello]()
        known = {"app": "a", "secret": "s", "environ": {}, "processes": 1, **settings}
        app = AppSettings(state_dir=folder, runs_dir=folder, **known)
        self.pool = Processes(
            app, receive=lambda *_: None, ready=self._ready, died=lambda *_: None, changed=self.declared.append
        )
        self.pool._posts[COMMON] = cast(KeeperPost, self.keeper)
        self.pool._hello = asyncio.get_running_loop().create_future()
        self.pool._hello.set_result(hello(0))
        self.pool.reload()

    def _ready(self) -> None:
        self.got_on += 1

    @property
    def newest(self) -> int:
        """The process that was started last."""
        return self.keeper.starts[-1][1]

    def given(self) -> int | None:
        """Which process would be given a run."""
        process = self.pool.place(COMMON)
        return None if process is None else process.number

    def phases(self, numbers: Sequence[int]) -> set[Phase]:
        """How far these are."""
        return {self.pool._processes[number].phase for number in numbers}

    def both_started(self) -> tuple[int, int]:
        """The two that were started last."""
        return self.newest - 1, self.newest

    def both_say_hello(self, *handlers: str) -> tuple[int, ...]:
        """The two that were started last, which are ready then."""
        return tuple(self.says_hello(*handlers, number=number) for number in self.both_started())

    def half_renewed(self) -> tuple[Sequence[int], int]:
        """Two with older code, and the first with newer: the other one has not come yet."""
        old = self.both_say_hello()
        self.pool.reload()
        return old, self.says_hello(number=self.newest - 1)

    def says_hello(self, *handlers: str, number: int | None = None) -> int:
        """The newest one, or this one, which is ready then; its app has these handlers."""
        line, number = SimpleNamespace(transport=OpenLine()), number or self.newest
        assert self.pool._greet(cast(WorkerConnection, line), hello(number, *handlers))
        return number

    def can_not_load(self) -> None:
        """Nor can the newest one."""
        self.pool._receive(self.newest, [wire.Unloadable(number=self.newest, message="app: no")])
        self.ends(self.newest)

    def ends(self, number: int) -> None:
        """The process has gone, and its line with it."""
        self.ended.add(number)
        self.pool._receive_notice(cast(KeeperPost, None), EXIT._replace(number=number))
        if number in self.pool._farewells:
            self.pool._cut_off(number)


def hello(number: int, *handlers: str) -> wire.Hello:
    """What a process says that has loaded an app with these handlers."""
    return wire.Hello(
        number=number, pid=7, app="a", handlers=list(handlers), patterns=[], jobs=[], language=wire.language()
    )


def test_where_the_app_can_not_be_loaded_that_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While no process of before is left nothing can be started; one that comes in the end mends that by itself."""

    async def scenario() -> None:
        pool = Pool(tmp_path)
        old = pool.says_hello()
        pool.pool._retire(pool.pool._processes[old])
        for _ in range(6):
            pool.can_not_load()
            await let_pass(40)
        assert not pool.pool.able
        assert [record.getMessage() for record in caplog.records if "can't" in record.getMessage()] == []
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "no function is started here" in caplog.text
        before = pool.got_on
        pool.says_hello()
        assert (pool.pool.able, pool.got_on) == (True, before + 1)
        assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]

    run_virtually(scenario())


def test_who_dies_right_after_its_hello_is_replaced_ever_later(tmp_path: Path) -> None:
    """As one that can't load its app: each start costs a second of the processor."""

    async def scenario() -> None:
        pool = Pool(tmp_path)
        pauses = []
        for _ in range(5):
            died = asyncio.get_running_loop().time()
            pool.ends(pool.says_hello())
            await let_pass(40)
            pauses.append(round(pool.keeper.starts[-1][0] - died))
        assert pauses == [0, 1, 2, 4, 8]

    run_virtually(scenario())


def test_code_that_changes_again_and_again_leaves_no_crowd(tmp_path: Path) -> None:
    """Who still imports the code of before is ended, or never begun: each change starts as many as may work."""

    async def scenario() -> None:
        pool = Pool(tmp_path)
        pool.says_hello()
        for _ in range(3):
            pool.pool.reload()
        pool.can_not_load()
        pool.can_not_load()  # the next one waits a second
        pool.pool.reload()
        await let_pass(5)
        started = {number for _, number in pool.keeper.starts}
        ended = pool.keeper.stops & started
        assert ended == started - {1, pool.newest} - pool.ended
        for number in ended:
            pool.ends(number)
        assert set(pool.pool._processes) == {1, pool.newest}
        pool.says_hello()
        assert pool.pool.able

    run_virtually(scenario())


def test_an_app_that_is_imported_for_ever_starts_no_function(tmp_path: Path) -> None:
    """While no process of before is left; what waits is told so with the next beat."""

    async def scenario() -> None:
        pool = Pool(tmp_path)
        pool.pool._processes[pool.newest].since -= SLOW_IMPORT - 1
        pool.pool.renew(0)
        assert (pool.pool.able, pool.got_on) == (True, 0)
        pool.pool._processes[pool.newest].since -= 1
        pool.pool.renew(0)
        assert (pool.pool.able, pool.got_on) == (False, 1)
        pool.says_hello()
        assert (pool.pool.able, pool.got_on) == (True, 2)

    run_virtually(scenario())


def test_new_code_is_given_runs_when_all_of_it_is_there(tmp_path: Path) -> None:
    """Old and new code are never given runs at the same time: each may have handlers that the other does not know."""

    async def scenario() -> None:
        pool = Pool(tmp_path, processes=2)
        old = pool.both_say_hello()
        pool.declared.clear()
        pool.pool.reload()
        first, second = pool.both_started()
        pool.says_hello("f", number=first)
        assert pool.given() in old
        assert (pool.declared, pool.phases(old)) == ([], {Phase.READY})
        pool.says_hello("f", number=second)
        assert [each.handlers for each in pool.declared] == [["f"]]
        assert (pool.given() in (first, second), pool.phases(old)) == (True, {Phase.LEAVING})
        pool.ends(first)
        await let_pass(5)
        pool.says_hello("g")
        assert len(pool.declared) == 1

    run_virtually(scenario())


@pytest.mark.parametrize("leaves", [True, False])
def test_new_code_takes_over_from_nobody(tmp_path: Path, leaves: bool) -> None:
    """Where all with older code have gone, or have done enough, one with newer code is given runs."""

    async def scenario() -> None:
        pool = Pool(tmp_path, processes=2)
        old, one = pool.half_renewed()
        for number in old:
            assert pool.given() != one
            if leaves:
                pool.pool._retire(pool.pool._processes[number])
            else:
                pool.ends(number)
        assert pool.given() == one

    run_virtually(scenario())


def test_code_that_never_took_over_leaves_when_there_is_newer(tmp_path: Path) -> None:
    """It is given no runs, and does not pass for a process that could be: what waits goes back."""

    async def scenario() -> None:
        pool = Pool(tmp_path, processes=2)
        old, middle = pool.half_renewed()
        pool.pool.reload()
        assert pool.phases([middle]) == {Phase.LEAVING}
        for _ in range(4):
            pool.can_not_load()
            await let_pass(40)
        for number in old:
            pool.pool._retire(pool.pool._processes[number])
        assert (pool.given(), pool.pool.able) == (None, False)
        pool.says_hello()
        assert (pool.given(), pool.pool.able) == (pool.newest, True)

    run_virtually(scenario())


def test_new_code_that_dies_is_not_started_all_the_time(tmp_path: Path) -> None:
    """However much those with older code still do."""

    async def scenario() -> None:
        pool = Pool(tmp_path, processes=2)
        old, _ = pool.both_say_hello()
        pool.pool.reload()
        began = len(pool.keeper.starts)
        for _ in range(60):
            alive = [each for each in pool.pool._processes.values() if each.generation == pool.pool._generation]
            for each in alive:
                if each.since and each.phase is Phase.STARTING:
                    pool.ends(pool.says_hello(number=each.number))
                    break
            pool.pool.look_at(pool.pool._processes[old])
            await let_pass(1)
        assert pool.phases([old]) == {Phase.READY}
        assert len(pool.keeper.starts) - began < 12

    run_virtually(scenario())


def test_new_code_that_is_imported_for_long_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once for each code, while that of before goes on."""

    async def scenario() -> None:
        pool = Pool(tmp_path)
        pool.says_hello()
        pool.pool.reload()
        pool.pool._processes[pool.newest].since -= SLOW_IMPORT
        for _ in range(2):
            pool.pool.renew(0)
        assert caplog.messages == ["the new code is still being imported; the processes with the code of before go on"]
        assert pool.pool.able

    run_virtually(scenario())


def test_the_reason_why_no_function_starts_is_that_of_now(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says it once for each code; whoever asks is told what was found last."""

    async def scenario() -> None:
        pool = Pool(tmp_path)
        for _ in range(3):
            last = pool.says_hello()
            pool.ends(last)
            await let_pass(40)
        assert pool.pool.unable == f"worker process {last} (pid 7) died (exit code 0)"
        for _ in range(3):
            pool.can_not_load()
            await let_pass(40)
        assert pool.pool.unable == "app: no"
        assert [record.levelname for record in caplog.records].count("ERROR") == 1

    run_virtually(scenario())


def test_new_settings_count_with_new_code(tmp_path: Path) -> None:
    """All with older code leave, also where fewer are wanted."""

    async def scenario() -> None:
        pool = Pool(tmp_path, processes=2)
        old = pool.both_say_hello()
        pool.pool.reload(replace(pool.pool._app, processes=1, concurrency=3))
        one = pool.pool._processes[pool.says_hello()]
        assert (pool.phases(old), one.phase, one._concurrency) == ({Phase.LEAVING}, Phase.READY, 3)

    run_virtually(scenario())


def test_a_large_process_is_replaced_once_it_has_worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of an app that is as large from its start is not: its successor would be as well, with each beat."""
    monkeypatch.setattr(WorkerProcess, "memory", 2**30)

    async def scenario() -> None:
        pool = Pool(tmp_path, most_memory=2**20)
        process = pool.pool._processes[pool.says_hello()]
        phases = []
        for ended in (0, 1):
            process.ended = ended
            pool.pool.renew(0)
            phases.append(process.phase)
        assert phases == [Phase.READY, Phase.LEAVING]
        assert pool.newest != process.number

    run_virtually(scenario())


def test_a_process_is_replaced_after_so_many_runs(tmp_path: Path) -> None:
    """With the end of the last one it is given no more, and another process is started and takes its place."""

    async def scenario() -> None:
        pool = Pool(tmp_path, max_runs_per_process=2)
        process = pool.pool._processes[pool.says_hello()]
        for ended, phase in ((1, Phase.READY), (2, Phase.LEAVING)):
            process.ended = ended
            pool.pool.look_at(process)
            assert process.phase is phase
        assert pool.newest != process.number
        assert pool.says_hello() == pool.given() != process.number

    run_virtually(scenario())


def test_a_run_with_a_process_of_its_own_is_given_one_that_nobody_had(tmp_path: Path) -> None:
    """As many are started as runs wait for one, within the bound; what nobody needs any more leaves."""

    async def scenario() -> None:
        pool = Pool(tmp_path, concurrency=3)
        pool.says_hello()
        pool.pool._posts[OWN] = cast(KeeperPost, pool.keeper)
        pool.pool.need(OWN, 0.0, 2)
        pool.pool.need(OWN, 0.0, 2)
        assert len(pool.keeper.starts) == 3
        first, second = pool.both_say_hello()
        process = pool.pool.place(OWN)
        assert process is not None
        process.ended = 1
        assert pool.given() not in (first, second)
        pool.pool.need(OWN, 0.0, 9)
        assert len(pool.keeper.starts) == 4
        pool.pool.need(OWN, 0.0, 0)
        assert pool.phases([first, second]) == {Phase.READY, Phase.LEAVING}

    run_virtually(scenario())


def test_what_a_process_says_is_logged_once() -> None:
    """Its keeper tells the end of all that it has written, each time that it writes more."""
    process = WorkerProcess(1, CELL, 1, 1)
    written = ""
    for said in ("one\n", "two\n", "three\n" * 2000, "four\n"):
        written += said
        grew = keeper_wire.OutputGrew(1, len(written), keeper_wire.to_text(written[-4096:].encode()))
        assert process.said_since(grew) == said[-4000:].strip()


def test_a_start_that_is_refused_logs_nothing_of_the_other_processes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One error says why: a process that fails a moment later finds its node closing, and writes of our frames."""
    caplog.set_level("INFO")

    async def scenario() -> None:
        pool = Pool(tmp_path, processes=2)
        pool.pool._hello = asyncio.get_running_loop().create_future()
        first, second = pool.both_started()
        grew = keeper_wire.OutputGrew(second, 4, keeper_wire.to_text(b"why\n"))
        pool.pool._receive_notice(cast(KeeperPost, None), grew)
        assert [record.getMessage() for record in caplog.records] == [f"worker process {second}: why"]
        pool.pool._receive(first, [wire.Unloadable(number=first, message="app: no")])
        pool.pool._receive_notice(cast(KeeperPost, None), grew._replace(size=8))
        assert len(caplog.records) == 1
        with pytest.raises(Refused, match="app: no"):
            await pool.pool._hello

    run_virtually(scenario())


def test_a_process_that_is_old_goes_when_another_one_is_ready(tmp_path: Path) -> None:
    """Its place is never empty: it is given runs until the newcomer says hello, and no third one is started."""

    async def scenario() -> None:
        pool = Pool(tmp_path, max_age=100.0)
        old = pool.says_hello()
        pool.pool._processes[old].since = boottime() - 99
        pool.pool.renew(boottime())
        assert pool.newest == old
        pool.pool._processes[old].since = boottime() - 101
        for _ in range(3):
            pool.pool.renew(boottime())
        assert (pool.newest, pool.given()) == (old + 1, old)
        new = pool.says_hello()
        assert (pool.given(), pool.phases([old])) == (new, {Phase.LEAVING})

    run_virtually(scenario())
