"""What can happen to three nodes and their PostgreSQL server, each trouble alone and all of them at once."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.fleet import Fleet
from tests.servers.postgres import Server
from tests.servers.silent_proxy import SilentProxy
from tokimori.clock import HOUR, SECOND, Moment, SystemClock

END_ONE_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'fleet' ORDER BY random() LIMIT 1
"""
CUT = 5.0
HOUR_SECONDS = HOUR / SECOND


@dataclass(frozen=True, slots=True)
class Scene:
    """Three nodes at work; the last one comes to its server through a proxy. `returns`: when the server was back.

    `pool`: the threads in which trouble happens. A server dies with the thread that started it: they live to the end.
    """

    fleet: Fleet
    server: Server
    proxy: SilentProxy
    pool: ThreadPoolExecutor
    seconds: float
    freeze: float
    """How many seconds a node is frozen."""
    returns: list[Moment] = field(default_factory=list)

    @property
    def nodes(self) -> Sequence[subprocess.Popen[bytes]]:
        """The three of them."""
        return self.fleet.nodes

    def wait(self, part: float) -> None:
        """Let so much of the time pass."""
        time.sleep(part * self.seconds)


def kill(scene: Scene) -> None:
    """`kill -9` of one node."""
    scene.wait(0.2)
    scene.fleet.kill(scene.nodes[0])


def freeze(scene: Scene) -> None:
    """SIGSTOP of one node, and SIGCONT."""
    scene.wait(0.1)
    scene.fleet.freeze(scene.nodes[1])
    time.sleep(scene.freeze)
    scene.fleet.thaw(scene.nodes[1])


def end_sessions(scene: Scene) -> None:
    """End a random session of the nodes twice a second."""
    for _ in range(round(2 * scene.seconds)):
        time.sleep(0.5)
        try:
            scene.server.sql(END_ONE_SESSION)
        except subprocess.CalledProcessError:
            pass  # it is being restarted: all sessions end


def restart(scene: Scene) -> None:
    """Stop the server as its administrator would, and start it again a second later."""
    scene.wait(0.5)
    scene.server.stop(signal.SIGINT)
    time.sleep(1)
    scene.server.start()
    scene.returns.append(SystemClock().now())


def cut(scene: Scene) -> None:
    """Let one node's way to the server fall silent."""
    scene.wait(0.75)
    scene.fleet.note_silence(scene.nodes[2])
    scene.proxy.fall_silent()
    time.sleep(CUT)
    scene.proxy.speak()


def jump(scene: Scene) -> None:
    """Set one node's clock an hour forward, and then two hours back."""
    for _ in range(2):
        scene.wait(0.3)
        scene.fleet.jump(scene.nodes[2])


def nothing(_: Scene) -> None:
    """All is well; or what is wrong has been so from the beginning."""


Trouble = Sequence[Callable[[Scene], None]]
TROUBLES: dict[str, Trouble] = {
    "none": [nothing],
    "kill -9 of one node": [kill],
    "one node frozen": [freeze],
    "sessions ended": [end_sessions],
    "server restarted": [restart],
    "one node cut off for 5 s": [cut],
    "clocks 1 h ahead and 1 h back": [nothing],
    "a clock jumps forward and back": [jump],
    "all together": [kill, freeze, end_sessions, restart, cut, jump],
}
SHORT: dict[str, Trouble] = {
    "all but lost nodes": [end_sessions, restart, cut, jump],
}
SHIFTED = ("all but lost nodes", "clocks 1 h ahead and 1 h back", "all together")


@contextmanager
def scene(folder: Path, seconds: float, freeze: float) -> Iterator[Scene]:
    """A server of its own, which writes as durably as one in production, and a fleet to be."""
    with ThreadPoolExecutor() as pool:
        server = Server(durable=True)
        proxy = SilentProxy(server.folder, f".s.PGSQL.{server.port}")
        try:
            yield Scene(Fleet(folder, server.make("fleet")), server, proxy, pool, seconds, freeze)
        finally:
            proxy.remove()
            server.remove()


def start_nodes(scene: Scene, name: str) -> None:
    """Start the three of them, with the clocks that this trouble demands."""
    ahead = HOUR_SECONDS if name in SHIFTED else 0.0
    behind = scene.fleet.url.replace(str(scene.server.folder), str(scene.proxy.folder))
    scene.fleet.start_node(offsets=[ahead])
    scene.fleet.start_node(offsets=[-ahead])
    scene.fleet.start_node(offsets=[0.0, HOUR_SECONDS, -HOUR_SECONDS], url=behind)
    scene.fleet.wait_until_up()


def suffer(scene: Scene, name: str) -> None:
    """Let it happen, for as long as the scene lasts."""
    parts = [scene.pool.submit(part, scene) for part in (TROUBLES | SHORT)[name]]
    time.sleep(scene.seconds)
    for part in parts:
        part.result()
