"""Two nodes at work while nodes, keepers and worker processes are killed and frozen, and clocks jump for two days.

`python -m tests.cluster.troubled_soak [SECONDS] [STORE…]` soaks each store in turn, and prints its findings.
"""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from tests.cluster import witness
from tests.cluster.accounts import EVERY_SECOND, POLL, all_runs, live_runs
from tests.cluster.fleet import ROOT, Fleet
from tests.cluster.soak_proof import QUIET, Account, broken
from tests.cluster.witnessed_app import FOLDER
from tests.servers import mariadb, postgres, redis
from tests.servers.wrong_clock import WrongClock
from tokimori.client.asynchronous import AsyncClient
from tokimori.client.client import open_async
from tokimori.clock import SECOND, Moment, SystemClock, from_datetime
from tokimori.model.ids import JobId
from tokimori.model.job import Definition
from tokimori.model.policies import Overlap, Retry
from tokimori.model.target import Command
from tokimori.model.transitions import RunState
from tokimori.service.validation import MOST_LISTED

NODES = 2
TWO_DAYS = 2 * 86_400
FROZEN = 9.0
"""Seconds: beyond the lease of a node."""
JUMPED = 25.0
"""Seconds for which the nodes' clocks are wrong."""
RECOVERY = 90.0
"""Seconds of work after the clocks are right again; it takes a minute to tell which clock was wrong."""
OUTAGE = 40 * SECOND
"""If no node is up for so long, the first that is may find what is later than `late_after`, a minute."""
TOLD = 120.0
"""Seconds after the clocks are right again within which each job has to know it."""
PATIENCE = 120.0
STORES = ("memory", "sqlite", "postgres", "mariadb", "redis")
MEMORY = "memory:"
NAMES = ("tick", "bill", "two", "heavy", "light", "crunch", "paint", "charge", "stuck")
"""Jobs with commands, and those with functions."""
KINDS = ("all nodes", "node", "keeper", "worker", "freeze", "freeze worker", "stop", "reload")
"""Troubles: the first four are kill -9."""
OTHER_NEEDED = ("node", "freeze", "stop")
"""These come only while another node is up: how long nodes take to begin is the machine's matter, no trouble's."""
WITHIN_A_NODE = ("keeper", "worker", "freeze worker", "reload")
"""Those of a node that is the only one on its store."""
LONG = 300.0
"""In a soak of so many seconds each of them happens."""
NOT_LOADED = ("can't be loaded (", "the keeper did not start")
"""A node says so that ends as its keeper or its worker process was killed while it began."""
STUBBORN = Retry(lost_attempts=1_000)


def definitions(folder: Path) -> Mapping[str, Definition]:
    """Return the jobs with commands; those of the app come with its nodes."""

    def job(nap: float, *limits: str, schedule: str = EVERY_SECOND, **terms: object) -> Definition:
        words = (sys.executable, "-IS", str(Path(witness.__file__)), str(folder), str(nap), *limits)
        values = {"max_running": 0, "retry": STUBBORN} | terms
        return Definition(target=Command(argv=words), schedule=schedule, **values)  # type: ignore[arg-type]

    return {
        "tick": job(0.1, retention="P1D"),  # by a clock of two days ahead every run of before is to be pruned
        "bill": job(2.5, schedule="*/2 * * * * *", retry=Retry(lost_attempts=0)),
        "two": job(1.2, "two=2", max_running=2, on_overlap=Overlap.QUEUE, max_waiting=20),
        "heavy": job(0.9, "warehouse=3:2", semaphores=("warehouse:2",), max_running=1),
        "light": job(1.1, "warehouse=3", semaphores=("warehouse",), max_running=2),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Sentences about what is wrong after a soak, and figures about what was done."""

    wrong: Sequence[str]
    figures: Mapping[str, int]


def soak(fleet: Fleet, clock: WrongClock | None, seconds: float, seed: int) -> Findings:
    """Let two nodes work for so long, and look at what is left. `clock` is the server's; None: that of the nodes.

    A store in memory is that of one node, which is asked over HTTP; its processes suffer, and its clock.
    """
    kinds = WITHIN_A_NODE if fleet.url == MEMORY else KINDS
    troubles = Troubles(fleet, clock, random.Random(seed), kinds)
    try:
        if fleet.url != MEMORY:
            asyncio.run(_prepare(fleet))
        troubles.start_missing()
        fleet.wait_until_up(PATIENCE)
        if fleet.url == MEMORY:
            asyncio.run(_prepare(fleet))
        troubles.suffer(seconds)
        accounts, wrong = asyncio.run(_drained(fleet))
        wrong += [f"a node that was to stop ended with {code}" for code in fleet.stop() if code]
    finally:
        fleet.stop(5)
    runs, lines = [run for each in accounts for run in each.runs], _witnessed(fleet.folder)
    wrong = [*troubles.wrong, *wrong, *broken(accounts, lines, troubles.spans), *_faults(fleet)]
    if seconds >= LONG:
        wrong += [f"no {kind!r} happened" for kind in kinds if not troubles.done[kind]]
    figures = {"runs": len(runs), "begun": sum(line[0] == witness.BEGAN for line in lines)}
    figures |= {state: count for state in RunState if (count := sum(run.state is state for run in runs))}
    figures |= {f"{each.name} skipped": count for each in accounts if (count := sum(skip.count for skip in each.skips))}
    return Findings(wrong=wrong, figures={**figures, **troubles.done})


def _faults(fleet: Fleet) -> Iterator[str]:
    """Yield the nodes that have ended as nobody made them, and what still lives."""
    for number, node in enumerate(fleet.nodes):
        code, log = node.returncode, (fleet.folder / f"node{number}.log").read_text()
        of_us = (0, -signal.SIGKILL) if node.pid in fleet.silences else (0,)
        before_it_was_up = code in (-signal.SIGTERM, -signal.SIGHUP) or any(words in log for words in NOT_LOADED)
        if code not in of_us and ("runs jobs" in log or not before_it_was_up):
            yield f"node {number} ended with {code}: {log[-500:]}"
    end = time.monotonic() + 10
    while (alive := list(_left_over(str(fleet.folder).encode()))) and time.monotonic() < end:
        time.sleep(0.2)
    yield from (f"still lives: {process}" for process in alive)


def _left_over(folder: bytes) -> Iterator[str]:
    """Yield the nodes, keepers, worker processes and commands of this fleet."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and folder in (process / "environ").read_bytes():
                yield f"{process.name}: {(process / 'cmdline').read_text()}"


class Troubles:
    """Troubles of a fleet, one every few seconds; one node at least stays up, or all end at once and one comes up."""

    def __init__(self, fleet: Fleet, clock: WrongClock | None, chance: random.Random, kinds: Sequence[str]) -> None:
        self._fleet = fleet
        self._clock = clock
        self._chance = chance
        self._kinds = kinds
        self._nodes = NODES if "node" in kinds else 1
        self._frozen: dict[int, float] = {}
        self._leaving: list[subprocess.Popen[bytes]] = []
        self._wrong = False
        self._jumped = Moment(0)
        self.wrong: list[str] = []
        """What `verify` has found before the clocks jumped: what a cursor that goes back has behind it is unknown."""
        self.spans: list[tuple[Moment, Moment]] = []
        """From when to when occurrences may be skipped: no node is up, clocks are wrong, or it is not clear which."""
        self._none_up_since: Moment | None = None
        self.done: Counter[str] = Counter()

    def suffer(self, seconds: float) -> None:
        """Make trouble for so long; the clocks jump ahead in its midst, and back."""
        began = time.monotonic()
        right = began + max(seconds / 2, seconds - RECOVERY - QUIET / SECOND)
        jumps = [right - JUMPED, right]
        while (now := time.monotonic()) < began + seconds:
            if jumps and now >= jumps[0]:
                self._jump()
                del jumps[0]
            self._thaw(now)
            self.start_missing()
            up = self._up()
            self._note_outage(is_over=bool(up))
            if up:
                self._once(up)
            time.sleep(self._chance.uniform(2, 5))
        self._thaw(now=float("inf"))
        self._wait_until_up()  # a node that comes up later would bring the app's schedules back
        self._note_outage(is_over=True)

    def _note_outage(self, *, is_over: bool) -> None:
        """Note for how long no node is up: after almost a minute jobs skip what they have missed."""
        now, since = SystemClock().now(), self._none_up_since
        if is_over and since is not None and now - since > OUTAGE:
            self.spans.append((since, now))
        self._none_up_since = None if is_over else since or now

    def start_missing(self) -> None:
        """Start nodes in place of those that have ended."""
        offsets: Sequence[float] = (TWO_DAYS, 0) if self._wrong else (0, TWO_DAYS, 0)
        offsets = offsets if self._clock is None else (0,)
        for _ in range(self._nodes - len(self._living())):
            own = {"TOKIMORI_APP_LOAD": "tests.cluster.witnessed_app:app", FOLDER: str(self._fleet.folder)}
            own |= {"TOKIMORI_APP_INCLUDE": str(ROOT), "TOKIMORI_APP_PROCESSES": "2"}
            own |= {"TOKIMORI_HTTP_PORT": "0"} if self._fleet.url == MEMORY else {}
            self._fleet.start_node(offsets=offsets, environment=own)

    def _living(self) -> list[subprocess.Popen[bytes]]:
        return [node for node in self._fleet.nodes if node.poll() is None]

    def _up(self) -> list[subprocess.Popen[bytes]]:
        away = {*self._frozen, *(node.pid for node in self._leaving)}
        return [node for node in self._living() if node.pid not in away and self._is_up(node)]

    def _jump(self) -> None:
        """Set the store's clock: the server's, or those of all nodes. Of these end who leaves: they do not answer."""
        if not self._wrong:
            self.wrong += asyncio.run(_verify(self._fleet))
        self._wrong = not self._wrong
        now = SystemClock().now()
        self._jumped, jumped = now, self._jumped
        if not self._wrong:
            self.spans.append((jumped, Moment(now + round(TOLD * SECOND))))
        self.done["jump"] += 1
        if self._clock is not None:
            return self._clock.set(TWO_DAYS if self._wrong else 0)
        self._wrong = not self._wrong  # nodes that are missing still begin with the clock of now
        self._thaw(now=float("inf"))
        for node in self._leaving:
            self._fleet.kill(node)
        self._leaving.clear()
        self._wait_until_up()
        for node in self._living():
            self._fleet.jump(node)
        self._wrong = not self._wrong
        return None

    def _wait_until_up(self) -> None:
        """Wait until all nodes are there that are to be: one whose worker process was killed meanwhile ends."""
        end = time.monotonic() + PATIENCE
        while not all(self._is_up(node) for node in self._living()) or len(self._living()) < self._nodes:
            assert time.monotonic() < end, "the nodes do not come up"
            self.start_missing()
            time.sleep(0.2)

    def _is_up(self, node: subprocess.Popen[bytes]) -> bool:
        return "runs jobs" in (self._fleet.folder / f"node{self._fleet.nodes.index(node)}.log").read_text()

    def _thaw(self, now: float) -> None:
        for pid in [pid for pid, until in self._frozen.items() if until <= now]:
            del self._frozen[pid]
            send(pid, signal.SIGCONT)

    def _once(self, up: Sequence[subprocess.Popen[bytes]]) -> None:
        kind = self._chance.choice((*self._kinds, "worker"))
        awake = [node for node in self._living() if node.pid not in self._frozen]
        node = self._chance.choice(up if kind in OTHER_NEEDED else awake)
        keepers = children(node.pid)
        workers = [child for keeper in keepers for child in children(keeper) if _is_worker(child)]
        match kind:
            case "all nodes":
                for each in self._living():
                    self._fleet.kill(each)
                self._thaw(now=float("inf"))
            case "node" if len(up) > 1:
                self._fleet.kill(node)
            case "keeper" if keepers:
                send(self._chance.choice(keepers), signal.SIGKILL)
            case "worker" if workers:
                send(self._chance.choice(workers), signal.SIGKILL)
            case "freeze" if not self._frozen and len(up) > 1:
                self._fleet.freeze(node)
                self._frozen[node.pid] = time.monotonic() + FROZEN
            case "freeze worker" if workers:
                self._freeze_worker(self._chance.choice(workers))
            case "stop" if len(up) > 1:
                node.terminate()
                self._leaving.append(node)
            case "reload":
                node.send_signal(signal.SIGHUP)
            case _:
                return
        self.done[kind] += 1

    def _freeze_worker(self, pid: int) -> None:
        send(pid, signal.SIGSTOP)
        self._frozen[pid] = time.monotonic() + FROZEN


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def children(pid: int) -> list[int]:
    """Return the processes that this one has started, and that live."""
    with suppress(OSError):
        return [int(child) for each in Path(f"/proc/{pid}/task").iterdir() for child in _words(each / "children")]
    return []


def _words(file: Path) -> list[str]:
    return file.read_text().split()


def _is_worker(pid: int) -> bool:
    with suppress(OSError):  # a command has the words of its keeper until it is its own program
        return b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


async def _prepare(fleet: Fleet) -> None:
    async with _client(fleet) as client:
        if fleet.url != MEMORY:
            await client.db.migrate()
        await client.semaphores.set("warehouse", 3)
        await client.jobs.import_all(list(definitions(fleet.folder).items()))


async def _drained(fleet: Fleet) -> tuple[list[Account], list[str]]:
    """Verify all jobs, take their schedules away, wait for what is left, and return what is kept, and what is wrong."""
    async with _client(fleet) as client:
        wrong = await _verified(client)
        known = []
        for name in NAMES:
            job, asked = await client.jobs.get(name), await client.db.now()
            await client.jobs.update(name, schedule=None)
            assert job.schedule
            times = (from_datetime(job.created), from_datetime(asked), SystemClock().now())
            known.append(Account(name, job.schedule, *times))
        for _ in range(round(PATIENCE / POLL)):
            if not await live_runs(client):
                break
            await asyncio.sleep(POLL)
        accounts = [await _filled(client, each) for each in known]
    return accounts, wrong


async def _filled(client: AsyncClient, job: Account) -> Account:
    runs, skips = await all_runs(client, JobId(job.name)), await client._inside.jobs.skips(job.name, MOST_LISTED)
    assert len(skips) < MOST_LISTED, "between two skips there is a run: a soak of half an hour has no more"
    return replace(job, runs=runs, skips=skips)


async def _verified(client: AsyncClient) -> list[str]:
    """Return what does not fit of each job, up to some seconds ago, as `verify` says."""
    wrong = []
    for name in NAMES:
        first, last, runs = None, await client.db.now() - timedelta(seconds=15), 0
        while True:
            verified = await client.jobs.verify(name, first, last)
            wrong += [f"verify {name}: {line}" for line in verified.faults]
            runs += verified.fates.get("run", 0)
            if (first := verified.next) is None:
                break
        wrong += [] if runs else [f"verify {name} knows no run"]
    return wrong


async def _verify(fleet: Fleet) -> list[str]:
    async with _client(fleet) as client:
        return await _verified(client)


def _client(fleet: Fleet) -> AbstractAsyncContextManager[AsyncClient]:
    """Return a client of the store, or of its only node."""
    if fleet.url != MEMORY:
        return open_async(fleet.url)
    log = (fleet.folder / "node0.log").read_text()
    address = next(word for word in log.split() if word.startswith("http://"))
    return open_async(f"{address}?secret={(fleet.folder / 'state0' / 'secret').read_text().strip()}")


def _witnessed(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "witnessed").read_text().splitlines()]


@contextmanager
def placed(store: str, folder: Path) -> Iterator[tuple[Fleet, WrongClock | None]]:
    """Yield a fleet on a store of this kind, on a server of its own, and the clock of that."""
    if store in ("memory", "sqlite"):
        yield Fleet(folder, MEMORY if store == "memory" else None), None
        return
    clock = WrongClock()
    with clock.begun():
        server = redis.Server() if store == "redis" else (postgres if store == "postgres" else mariadb).Server()
    try:
        yield Fleet(folder, server.url() if isinstance(server, redis.Server) else server.make("fleet")), clock
    finally:
        server.remove()
        clock.remove()


def main(seconds: float, stores: Sequence[str]) -> int:
    """Soak each store, keep the folder of one that has faults, and return how many have."""
    failed = 0
    for store in stores:
        folder = Path(tempfile.mkdtemp(prefix="tokimori-soak-"))
        with placed(store, folder) as (fleet, clock):
            findings = soak(fleet, clock, seconds, seed=random.randrange(2**32))
        if not findings.wrong:
            shutil.rmtree(folder)
        failed += bool(findings.wrong)
        sys.stdout.write(
            f"{store}: {dict(findings.figures)}\n" + "".join(f"  {each}\n" for each in findings.wrong[:50])
        )
    return failed


if __name__ == "__main__":
    sys.exit(main(float((sys.argv[1:] or ["1200"])[0]), sys.argv[2:] or STORES))
