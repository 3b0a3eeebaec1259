"""A way to a server that can fall silent: it accepts, forwards nothing and closes nothing, as a broken network does."""

import asyncio
import tempfile
import threading
from pathlib import Path
from shutil import rmtree

CHUNK = 65536


class SilentProxy:
    """Forwards between a socket of its own and the server's, in a thread, as long as it is not silent.

    What was held back while it was silent is forwarded afterwards, late. `latency`: from a request to its answer, in
    seconds. `holds` is set once something is held back by `hold`.
    """

    def __init__(self, server: Path, name: str, latency: float = 0.0) -> None:
        self._one_way = latency / 2
        self.folder = Path(tempfile.mkdtemp(prefix="tokimori-proxy-", dir="/tmp"))
        self._from, self._to = self.folder / name, server / name
        self._loop = asyncio.new_event_loop()
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._held: bytes | None = None
        self._let_go = asyncio.Event()
        self.holds = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._listening.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_unix_server(self._meet, self._from))
        self._listening.set()
        self._loop.run_forever()

    def fall_silent(self) -> None:
        """Forward nothing from now on."""
        self._loop.call_soon_threadsafe(self._speaks.clear)

    def speak(self) -> None:
        """Forward what was held back, and whatever comes."""
        self._loop.call_soon_threadsafe(self._speaks.set)

    def hold(self, text: bytes) -> None:
        """From now on keep back what has this text in it, and all that comes behind it in its connection."""
        self._held = text

    def let_go(self) -> None:
        """Forward what was held, and hold nothing more."""
        self._held = None
        self._loop.call_soon_threadsafe(self._let_go.set)

    def remove(self) -> None:
        """End it, with all its connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()
        rmtree(self.folder, ignore_errors=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._speaks.wait()
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._to)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._forward(reader, far_writer), self._forward(far_reader, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                if self._held is not None and self._held in data:
                    self.holds.set()
                    await self._let_go.wait()
                await self._speaks.wait()
                await asyncio.sleep(self._one_way)
                writer.write(data)
                await writer.drain()
            await self._speaks.wait()
        except OSError:
            pass
        finally:
            writer.close()
