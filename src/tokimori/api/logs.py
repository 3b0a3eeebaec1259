"""The path `/api/v2/runs/{run_id}/logs`: what a run wrote, a part of it, or all that is still to come."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tokimori.api.answers import refusal
from tokimori.api.operation import Operation, Routes
from tokimori.api.request_service import ServiceFor, run_id_of
from tokimori.errors import Refused
from tokimori.service.runs.runs import MOST_ATTEMPTS
from tokimori.service.service import Service
from tokimori.service.tasks.outputs import part_of

MEDIA = "text/plain; charset=utf-8"
MOST_FOLLOWED = 100
"""Number of followers at a time: each holds a connection, and others need some."""
LONGEST_FOLLOW = 3600.0
"""Seconds after which it ends, though the run goes on: the client then asks for the rest."""
FIRST_LOOK, LAST_LOOK = 0.1, 1.0
"""Seconds between two looks at a run that is followed: fewer and fewer, as long as nothing comes."""
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


class LogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of a log: an attempt (by default the newest), the first byte, and whether to follow it to its end.

    A client that follows without naming an attempt gets later ones, too. `timestamps` begins each line with its
    time; lines without one have a `~` and the start of their attempt.
    """

    attempt: Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)] | None = None
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    follow: bool = False
    timestamps: bool = False


class Logs(Routes):
    """The part of the API for what runs write."""

    def __init__(self, service: ServiceFor) -> None:
        super().__init__(service)
        self._following = 0

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        others, path = {206: "the part that the header `Range` asks for"}, "/api/v2/runs/{run_id}/logs"
        return [
            Operation(
                "run_logs",
                "GET",
                path,
                self.logs,
                str,
                media=MEDIA,
                others=others,
                headers=("Range",),
                answered=("Tokimori-Log-Size",),
            ),
        ]

    async def logs(self, request: Request, query: LogQuery) -> Response:
        """Return a run's output, as far as it is kept: the first and the last 64 KiB of an attempt.

        `Tokimori-Log-Size` says how many bytes it wrote: `after` that number comes what is new. `follow` sends what
        comes until the run ends. Without it the header `Range` may ask for a part.
        """
        service = self._service(request)
        run_id = await run_id_of(service, request)
        output = await service.runs.output(run_id, query.attempt)
        size = 0 if output is None else output.size
        headers = {"tokimori-log-size": str(size)}
        if not query.follow:
            text = (
                b""
                if output is None
                else (await part_of(service.runs, output, query.after, timestamps=query.timestamps))[0]
            )
            return ranged(text, request.headers, headers)
        if self._following >= MOST_FOLLOWED:
            return refusal(503, "too_many", f"{MOST_FOLLOWED} clients follow runs already", allowed="to ask later")
        return Followed(self._counted, _followed(service, run_id, query), headers=headers, media_type=MEDIA)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._following += 1
        try:
            yield
        finally:
            self._following -= 1


class Followed(StreamingResponse):
    """Follower of a run, counted from the moment in which it was let in: many may ask at once."""

    def __init__(
        self,
        counted: Callable[[], AbstractContextManager[None]],
        content: AsyncIterator[bytes],
        *,
        headers: Mapping[str, str],
        media_type: str,
    ) -> None:
        super().__init__(content, headers=headers, media_type=media_type)
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._counted():
            await super().__call__(scope, receive, send)


async def _followed(service: Service, run_id: str, query: LogQuery) -> AsyncIterator[bytes]:
    try:
        async with asyncio.timeout(LONGEST_FOLLOW):
            async for text in new_text(service, run_id, query):
                yield text
    except TimeoutError:
        return


async def new_text(service: Service, run_id: str, query: LogQuery) -> AsyncIterator[bytes]:
    """Yield what the attempt writes after this position; without an attempt also what those after it write."""
    pause, current, position = FIRST_LOOK, query.attempt, query.after
    while True:
        ended = await _has_ended(service, run_id)
        output = await service.runs.output(run_id, query.attempt)
        if output is not None and output.attempt != current:
            if current is not None and (rest := await service.runs.output(run_id, current)) is not None:
                yield (await part_of(service.runs, rest, position, timestamps=query.timestamps))[0]
            position, current = position if current is None else 0, output.attempt
        if output is not None and output.size > position:
            text, position = await part_of(
                service.runs, output, position, timestamps=query.timestamps, unfinished=ended
            )
            if text:
                yield text
                pause = FIRST_LOOK
        if ended:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, LAST_LOOK)


async def _has_ended(service: Service, run_id: str) -> bool:
    with suppress(Refused):
        await service.runs.wait(run_id, 0)
        return True
    return False


def ranged(text: bytes, asked: Mapping[str, str], headers: Mapping[str, str]) -> Response:
    """Return the text, or the part of it that a header asks for (RFC 9110 §14); one that asks for several gets all."""
    headers = {**headers, "accept-ranges": "bytes"}
    found = _RANGE.match(asked.get("range", ""))
    if found is None or found[1] + found[2] == "" or "if-range" in asked:
        return Response(text, headers=headers, media_type=MEDIA)
    first, last = _span(found[1], found[2], len(text))
    if first > last:
        response = refusal(416, "range_not_satisfiable", f"there are {len(text)} bytes", field="Range", allowed="those")
        response.headers["content-range"] = f"bytes */{len(text)}"
        return response
    headers["content-range"] = f"bytes {first}-{last}/{len(text)}"
    return Response(text[first : last + 1], 206, headers, MEDIA)


def _span(first: str, last: str, size: int) -> tuple[int, int]:
    """Return the first and the last byte of the part; a part that begins behind its end is none."""
    if not first:
        return max(0, size - int(last)), size - 1
    end = min(int(last), size - 1) if last else size - 1
    return int(first), end
