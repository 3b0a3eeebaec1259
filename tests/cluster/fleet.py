"""Real nodes on one store: started, frozen, killed and stopped as an operating system does it."""

import fcntl
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType

from tests.cluster import programs, shifted_node
from tests.cluster.checker import WrittenLine
from tokimori.clock import Moment, SystemClock, parse_moment
from tokimori.model.ids import RunId

ROOT = Path(__file__).parents[2]
SHELL = "/bin/bash"
"""It knows the time in microseconds without another process."""
_LINE = 'echo "{word} $TOKIMORI_RUN_ID $TOKIMORI_ATTEMPT $TOKIMORI_NOMINAL_TIME ${{EPOCHREALTIME/[.,]/}}" >> "{file}"'


def writes_lines(file: Path, nap: str = "") -> str:
    """The text of a command that writes when it begins and when it ends."""
    began, ended = (_LINE.format(word=word, file=file) for word in ("began", "ended"))
    return "; ".join(part for part in (began, nap, ended) if part)


class Fleet:
    """Nodes that share one store, an SQLite file in `folder` unless another URL is given; each has a state directory
    of its own, as each machine has.
    """

    def __init__(self, folder: Path, url: str | None = None, semaphores: str | None = None) -> None:
        self.folder = folder
        self.semaphores = semaphores
        """The URL of the store of the semaphores, if it is another one."""
        self.file = folder / "tokimori.db"
        self.url = url or f"sqlite://{self.file}"
        self.lines = folder / "lines"
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.silences: dict[int, list[Moment]] = defaultdict(list)
        """When each process was killed, frozen or cut off."""

    def start_node(
        self,
        *,
        url: str | None = None,
        offsets: Sequence[float] = (),
        program: Path | None = None,
        module: str = "",
        concurrency: int | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[bytes]:
        """A node as `tokimori serve` starts it; its log goes to a file in the folder.

        `url`: its own way to the store. `offsets`: by how many seconds its clock is wrong, now and after each `jump`.
        `program`: another program than the one of today. `module`: a node of the tests' own instead. `concurrency`: how
        many runs it takes at a time. `environment`: more variables.
        """
        number = len(self.nodes)
        own = {"TOKIMORI_STATE_DIR": str(self.folder / f"state{number}"), "TOKIMORI_STORE": url or self.url}
        if self.semaphores is not None:
            own["TOKIMORI_DATASOURCE_SEMAPHORE_URL"] = self.semaphores
        if concurrency is not None:
            own["TOKIMORI_NODE_CONCURRENCY"] = str(concurrency)
        shifted = [sys.executable, "-m", "tests.cluster.shifted_node", *map(str, offsets)]
        own_node = (
            [sys.executable, "-m", module] if module else [sys.executable, "-m", "tokimori", "serve", "--no-http"]
        )
        line = shifted if offsets else own_node
        with (self.folder / f"node{number}.log").open("wb") as log:
            node = subprocess.Popen(
                line,
                cwd=ROOT,
                env=programs.environment(program) | own | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.nodes.append(node)
        return node

    def wait_until_up(self, seconds: float = 20) -> None:
        """Wait until every node says that it runs jobs: one that can't join does not stay."""
        self.wait_until_all_say("runs jobs", seconds)

    def wait_until_all_say(self, words: str, seconds: float = 20) -> None:
        """Wait until these words stand in every node's log."""
        end = time.monotonic() + seconds
        logs = [self.folder / f"node{number}.log" for number in range(len(self.nodes))]
        while not all(words in log.read_text() for log in logs):
            assert time.monotonic() < end, f"not every node says {words!r}"
            time.sleep(0.1)

    def wait_until_it_runs(self, node: subprocess.Popen[bytes], seconds: float = 20) -> None:
        """Wait until a command of some seconds runs on this node: what holds nothing loses nothing."""
        end = time.monotonic() + seconds
        while not any(words.startswith(b"sleep\x003\x00") for words in _below(node.pid)):
            assert time.monotonic() < end, "the node runs nothing"
            time.sleep(0.05)

    def note_silence(self, node: subprocess.Popen[bytes]) -> None:
        """From now on the others may count this node as dead."""
        self.silences[node.pid].append(SystemClock().now())

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """End the node as a power cut would."""
        node.kill()
        node.wait()
        self.note_silence(node)

    def jump(self, node: subprocess.Popen[bytes]) -> None:
        """Set the node's clock to its next offset."""
        log = self.folder / f"node{self.nodes.index(node)}.log"
        told = log.read_text().count(shifted_node.JUMPED)
        node.send_signal(shifted_node.JUMP)
        end = time.monotonic() + 20
        while log.read_text().count(shifted_node.JUMPED) == told:
            assert time.monotonic() < end, "the clock did not jump"
            time.sleep(0.05)

    def freeze(self, node: subprocess.Popen[bytes]) -> None:
        """Stop the node; on SQLite outside a write transaction, which would stop the other writers too: documented, not
        proved.
        """
        while True:
            node.send_signal(signal.SIGSTOP)
            if self._can_write():
                return self.note_silence(node)
            node.send_signal(signal.SIGCONT)
            time.sleep(0.05)

    def thaw(self, node: subprocess.Popen[bytes]) -> None:
        """Let a frozen node go on."""
        node.send_signal(signal.SIGCONT)

    def stop(self, seconds: float = 40) -> list[int]:
        """Tell every living node to stop; their exit codes. One that does not stop in time is killed."""
        living = [node for node in self.nodes if node.poll() is None]
        for node in living:
            node.send_signal(signal.SIGCONT)
            node.terminate()
        codes = []
        for node in living:
            try:
                codes.append(node.wait(seconds))
            except subprocess.TimeoutExpired:
                node.kill()
                codes.append(node.wait())
        return codes

    @property
    def _on_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    def _can_write(self) -> bool:
        if not self._on_sqlite:
            return True
        try:
            with Path(f"{self.file}-lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with closing(sqlite3.connect(self.file, timeout=1, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except (sqlite3.OperationalError, BlockingIOError):
            return False
        return True

    def integrity(self) -> str:
        """What SQLite says of its file; a server looks after its own."""
        if not self._on_sqlite:
            return "ok"
        with closing(sqlite3.connect(self.file)) as connection:
            return str(connection.execute("PRAGMA integrity_check").fetchone()[0])

    def written(self) -> list[WrittenLine]:
        """What the commands wrote when they began and when they ended."""
        if not self.lines.exists():
            return []
        words = [text.split() for text in self.lines.read_text().splitlines()]
        ends = {(run, attempt): at for word, run, attempt, _, at in words if word == "ended"}
        return [_line(each, ends.get((each[1], each[2]))) for each in words if each[0] == "began"]

    def left_over(self) -> list[str]:
        """Processes of this fleet's jobs and keepers that still live: this folder stands in their words."""
        return list(_processes_of(str(self.folder)))


def _line(words: Sequence[str], ended: str | None) -> WrittenLine:
    _, run_id, attempt, nominal, began = words
    return WrittenLine(
        run_id=RunId(run_id),
        attempt=int(attempt),
        nominal=parse_moment(nominal),
        began=Moment(int(began)),
        ended=None if ended is None else Moment(int(ended)),
    )


def _below(pid: int) -> Iterator[bytes]:
    """The command lines of all processes that this one started, or one of these."""
    try:
        children = [int(child) for each in Path(f"/proc/{pid}/task").iterdir() for child in _words(each / "children")]
    except OSError:  # it has ended since
        return
    for child in children:
        with suppress(OSError):
            yield Path(f"/proc/{child}/cmdline").read_bytes()
        yield from _below(child)


def _words(file: Path) -> list[str]:
    return file.read_text().split()


def _processes_of(folder: str) -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            environment = (process / "environ").read_bytes()
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if (b"TOKIMORI_RUN_ID=" in environment or b"keeper" in words) and folder.encode() in environment + words:
            yield f"{process.name}: {words.replace(bytes(1), b' ').decode(errors='replace')}"
