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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import witness
from tests.cluster.accounts import EVERY_SECOND, POLL, all_runs, live_runs
from tests.cluster.fleet import ROOT, Fleet
from tests.cluster.witnessed_app import FOLDER
from tests.servers import mariadb, postgres, redis
from tests.servers.wrong_clock import WrongClock
from tokimori.clock import SECOND, Moment, SystemClock
from tokimori.model.ids import JobId
from tokimori.model.job import Definition
from tokimori.model.policies import Overlap, Retry
from tokimori.model.run import Run
from tokimori.model.target import Command
from tokimori.model.transitions import RunState
from tokimori.service.service import Service
from tokimori.stores.open import open_store

NODES = 2
TWO_DAYS = 2 * 86_400
FROZEN = 9.0
"""Seconds: beyond the lease of a node."""
JUMPED = 25.0
"""Seconds for which the nodes' clocks are wrong."""
QUIET = 60 * SECOND
"""A job that has fired nothing for so long at the end has fallen silent; `stuck` comes more rarely than the others."""
RECOVERY = 90.0
"""Seconds of work after the clocks are right again; it takes a minute to tell which clock was wrong."""
PATIENCE = 120.0
STORES = ("sqlite", "postgres", "mariadb", "redis")
NEVER_AGAIN = ("charge", "bill")
"""Jobs that allow no lost attempt: the first is a function, the second a command."""
FUNCTIONS = ("crunch", "paint", "charge", "stuck")
STUBBORN = Retry(lost_attempts=1_000)


def definitions(folder: Path) -> Mapping[str, Definition]:
    """Return the jobs with commands; those of the app come with its nodes."""

    def job(nap: float, *limits: str, schedule: str = EVERY_SECOND, **terms: object) -> Definition:
        words = (sys.executable, "-IS", str(Path(witness.__file__)), str(folder), str(nap), *limits)
        values = {"max_running": 0, "retry": STUBBORN} | terms
        return Definition(target=Command(argv=words), schedule=schedule, **values)  # type: ignore[arg-type]

    return {
        "tick": job(0.1),
        "bill": job(2.5, schedule="*/2 * * * * *", retry=Retry(lost_attempts=0)),
        "two": job(1.2, "two=2", max_running=2, on_overlap=Overlap.QUEUE, max_waiting=20),
        "heavy": job(0.9, "warehouse=3:2", semaphores=("warehouse:2",), max_running=1),
        "light": job(1.1, "warehouse=3", semaphores=("warehouse",), max_running=2),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The state of a store after a soak, as sentences about what is wrong, and figures about what was done."""

    wrong: Sequence[str]
    figures: Mapping[str, int]


def soak(fleet: Fleet, clock: WrongClock | None, seconds: float, seed: int) -> Findings:
    """Let two nodes work for so long, and look at what is left. `clock` is the server's; None: that of the nodes."""
    asyncio.run(_prepare(fleet))
    troubles = Troubles(fleet, clock, random.Random(seed))
    try:
        troubles.start_missing()
        fleet.wait_until_up()
        troubles.suffer(seconds)
        drained = SystemClock().now()
        asyncio.run(_drain(fleet))
        codes = fleet.stop()
    finally:
        fleet.stop(5)
    findings = asyncio.run(_look(fleet, drained))
    faults = [f"a node ended with {code}" for code in codes if code not in (0, -signal.SIGTERM)]  # before it was up
    faults += [f"still lives: {process}" for process in fleet.left_over()]
    return Findings(wrong=[*findings.wrong, *faults], figures={**findings.figures, **troubles.done})


class Troubles:
    """Troubles of a fleet, one every few seconds; one node at least stays awake."""

    def __init__(self, fleet: Fleet, clock: WrongClock | None, chance: random.Random) -> None:
        self._fleet = fleet
        self._clock = clock
        self._chance = chance
        self._frozen: dict[int, float] = {}
        self._leaving: list[subprocess.Popen[bytes]] = []
        self._wrong = False
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
            self._once()
            time.sleep(self._chance.uniform(2, 5))
        self._thaw(now=float("inf"))

    def start_missing(self) -> None:
        """Start nodes in place of those that have ended."""
        offsets: Sequence[float] = (TWO_DAYS, 0) if self._wrong else (0, TWO_DAYS, 0)
        offsets = offsets if self._clock is None else (0,)
        for _ in range(NODES - len(self._living())):
            own = {"TOKIMORI_APP_LOAD": "tests.cluster.witnessed_app:app", FOLDER: str(self._fleet.folder)}
            own |= {"TOKIMORI_APP_INCLUDE": str(ROOT), "TOKIMORI_APP_PROCESSES": "2"}
            self._fleet.start_node(offsets=offsets, environment=own)

    def _living(self) -> list[subprocess.Popen[bytes]]:
        return [node for node in self._fleet.nodes if node.poll() is None]

    def _awake(self) -> list[subprocess.Popen[bytes]]:
        away = {*self._frozen, *(node.pid for node in self._leaving)}
        return [node for node in self._living() if node.pid not in away]

    def _jump(self) -> None:
        """Set the store's clock: the server's, or those of all nodes. Of these end who leaves: they do not answer."""
        self._wrong = not self._wrong
        self.done["jumps"] += 1
        if self._clock is not None:
            return self._clock.set(TWO_DAYS if self._wrong else 0)
        self._wrong = not self._wrong  # nodes that are missing still begin with the clock of now
        self._thaw(now=float("inf"))
        for node in self._leaving:
            self._fleet.kill(node)
        self._leaving.clear()
        self.start_missing()
        for node in self._living():
            self._wait_until_up(node)
            self._fleet.jump(node)
        self._wrong = not self._wrong
        return None

    def _wait_until_up(self, node: subprocess.Popen[bytes]) -> None:
        log = self._fleet.folder / f"node{self._fleet.nodes.index(node)}.log"
        while "runs jobs" not in log.read_text():
            assert node.poll() is None, log.read_text()
            time.sleep(0.05)

    def _thaw(self, now: float) -> None:
        for pid in [pid for pid, until in self._frozen.items() if until <= now]:
            del self._frozen[pid]
            _signal(pid, signal.SIGCONT)

    def _once(self) -> None:
        awake = self._awake()
        if not awake:  # one is frozen, and the other leaves
            return
        node = self._chance.choice(awake)
        keepers = _children(node.pid)
        workers = [child for keeper in keepers for child in _children(keeper) if _is_worker(child)]
        match self._chance.choice(("node", "keeper", "worker", "worker", "freeze", "freeze worker", "stop", "reload")):
            case "node":
                self._fleet.kill(node)
            case "keeper" if keepers:
                _signal(self._chance.choice(keepers), signal.SIGKILL)
            case "worker" if workers:
                _signal(self._chance.choice(workers), signal.SIGKILL)
            case "freeze" if not self._frozen and len(self._awake()) > 1:
                self._fleet.freeze(node)
                self._frozen[node.pid] = time.monotonic() + FROZEN
            case "freeze worker" if workers:
                self._freeze_worker(self._chance.choice(workers))
            case "stop":
                node.terminate()
                self._leaving.append(node)
            case "reload":
                node.send_signal(signal.SIGHUP)
            case _:
                return
        self.done["troubles"] += 1

    def _freeze_worker(self, pid: int) -> None:
        _signal(pid, signal.SIGSTOP)
        self._frozen[pid] = time.monotonic() + FROZEN


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for each in Path(f"/proc/{pid}/task").iterdir() for child in _words(each / "children")]
    return []


def _words(file: Path) -> list[str]:
    return file.read_text().split()


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        return b"TOKIMORI_RUN_ID=" not in Path(f"/proc/{pid}/environ").read_bytes()
    return False


async def _prepare(fleet: Fleet) -> None:
    store = open_store(fleet.url, SystemClock())
    await store.open()
    await store.migrate()
    service = Service(store, SystemClock(), os.urandom)
    await service.semaphores.set("warehouse", 3)
    await service.import_all(list(definitions(fleet.folder).items()))
    await store.close()


async def _drain(fleet: Fleet) -> None:
    """Take the schedules away, and wait for what is left."""
    store = open_store(fleet.url, SystemClock())
    await store.open()
    service = Service(store, SystemClock(), os.urandom)
    for name in (*definitions(fleet.folder), *FUNCTIONS):
        await service.update(name, schedule=None)
    for _ in range(round(PATIENCE / POLL)):
        if not await live_runs(store):
            break
        await asyncio.sleep(POLL)
    await store.close()


async def _look(fleet: Fleet, drained: Moment) -> Findings:
    store = open_store(fleet.url, SystemClock())
    await store.open()
    service = Service(store, SystemClock(), os.urandom)
    wrong, runs = [f"run {run.id} of {run.job_id} is {run.state}" for run in await live_runs(store)], []
    for name in (*definitions(fleet.folder), *FUNCTIONS):
        verified = await service.verify(name)
        wrong += [f"{name}: {line}" for line in verified.faults]
        of_job = await all_runs(store, JobId(name))
        twice = Counter(run.nominal for run in of_job)
        wrong += [f"{name}: {count} runs at {nominal}" for nominal, count in twice.items() if count > 1]
        newest = max((run.nominal for run in of_job if run.nominal <= drained), default=Moment(0))
        if newest < drained - QUIET:
            wrong.append(f"{name}: nothing has fired for {(drained - newest) / SECOND:.0f} s")
        runs += of_job
    await store.close()
    lines = _witnessed(fleet.folder)
    figures = {"runs": len(runs), "begun": sum(line[0] == witness.BEGAN for line in lines)}
    figures |= {state: sum(run.state is state for run in runs) for state in RunState}
    return Findings(wrong=[*wrong, *_broken_words(runs, lines)], figures=figures)


def _witnessed(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "witnessed").read_text().splitlines()]


def _broken_words(runs: Sequence[Run], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Compare what the store says with what the attempts wrote themselves."""
    began = Counter((run, attempt) for word, _, run, attempt, *_ in lines if word == witness.BEGAN)
    for (run_id, attempt), count in began.items():
        if count > 1:
            yield f"run {run_id}: attempt {attempt} began {count} times"
    begun = Counter(run for run, _ in began)
    ended = {(run, attempt) for word, _, run, attempt, *_ in lines if word == witness.ENDED}
    for run in runs:
        if run.job_id in NEVER_AGAIN and begun[run.id] > 1:
            yield f"run {run.id} of {run.job_id} began {begun[run.id]} times against its word"
        if run.state is RunState.SUCCEEDED and (run.id, str(run.attempt)) not in ended:
            yield f"run {run.id} of {run.job_id} succeeded, and its attempt {run.attempt} never ended"
    yield from (" ".join(line) for line in lines if line[0] == witness.EXCEEDED)


@contextmanager
def placed(store: str, folder: Path) -> Iterator[tuple[Fleet, WrongClock | None]]:
    """Yield a fleet on a store of this kind, on a server of its own, and the clock of that."""
    if store == "sqlite":
        yield Fleet(folder), None
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
