"""The least that answers a job over HTTP: `python -m benchmarks.bare_starlette FILE` answers what the file holds."""

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def app_of(body: bytes) -> Starlette:
    """Answers every job with the same bytes."""

    async def show(_: Request) -> Response:
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/api/v2/jobs/{job_id}", show)])


class Announced(uvicorn.Server):
    """Says where it listens, as `tokimori serve` does."""

    async def startup(self, sockets: object = None) -> None:
        """Listen, then say so."""
        await super().startup()
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"Its page is at http://127.0.0.1:{port}/", flush=True)


def main(file: Path) -> None:
    """Answer until told to stop."""
    config = uvicorn.Config(app_of(file.read_bytes()), port=0, http="httptools", loop="asyncio", access_log=False)
    Announced(config).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
