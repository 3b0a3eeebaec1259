"""The document of the API, for programs as JSON and for people as a page: both need no network."""

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from msgspec import json
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tokimori.api.answers import written
from tokimori.api.document import Schema, document, path_of, summary_of, tag_of
from tokimori.api.operation import Operation

OPENAPI, DOCS, STYLE = "/api/v2/openapi.json", "/api/docs", "/api/docs.css"
_HERE = Path(__file__).parent


class Docs:
    """Documents of the operations, made off the loop at the first request. Their addresses begin with `path_prefix`."""

    def __init__(self, operations: Sequence[Operation], version: Callable[[], str], path_prefix: str = "") -> None:
        mine = Operation("openapi", "GET", OPENAPI, self.openapi, dict[str, Any])
        self.operations = [*operations, mine]
        self._version = version
        self._root = path_prefix

    def routes(self) -> Sequence[Route]:
        """Return the routes of all operations, and those of the page."""
        pages = Route(DOCS, self.page), Route(STYLE, self.style)
        return [*(each.route() for each in self.operations), *pages]

    async def openapi(self, request: Request) -> Response:
        """Return this document."""
        return written(await asyncio.to_thread(lambda: self._json))

    async def page(self, request: Request) -> Response:
        """Return the document for people."""
        return HTMLResponse(await asyncio.to_thread(lambda: self._page))

    async def style(self, request: Request) -> Response:
        """Return the style of the page."""
        return Response((_HERE / "docs.css").read_bytes(), media_type="text/css")

    @cached_property
    def _document(self) -> Schema:
        return document(self.operations, self._version(), self._root or "/")

    @cached_property
    def _json(self) -> bytes:
        return json.encode(self._document)

    @cached_property
    def _page(self) -> str:
        from jinja2 import Template  # noqa: PLC0415  a node whose door is asked for no page needs none of it

        names = dict.fromkeys(map(tag_of, self.operations))
        template = Template((_HERE / "docs.html").read_text(), autoescape=True, trim_blocks=True, lstrip_blocks=True)
        page: str = template.render(
            document=self._document,
            root=self._root,
            kind=in_words,
            parts={name: [_shown(each) for each in self.operations if tag_of(each) == name] for name in names},
        )
        return page


def _shown(each: Operation) -> dict[str, object]:
    """Return an operation as the page shows it."""
    summary, more = summary_of(each)
    return {
        "id": each.id,
        "method": each.method,
        "path": path_of(each),
        "summary": summary,
        "more": more,
        "example": example_of(each),
    }


def example_of(each: Operation) -> str:
    """Return a command that does it, for a terminal."""
    path = path_of(each)
    for name, value in {"job_id": "nightly-report", "queue": "mail", "name": "holidays", "attempt": "1"}.items():
        path = path.replace(f"{{{name}}}", value)
    path = path.replace("{run_id}", "$RUN")
    query = "?" + urlencode(each.asked, doseq=True) if each.asked else ""
    parts = ["tokimori node address --header | curl -H @-", *([] if each.method == "GET" else [f"-X {each.method}"])]
    if each.example is not None:
        body = json.encode(each.example).decode().replace("'", "'\\''")
        parts.append(f"-H 'Content-Type: application/json' -d '{body}'")
    return " ".join([*parts, f'"$NODE{path}{query}"'])


def in_words(schema: Schema) -> str:
    """Return the kind of a value in words."""
    match schema:
        case {"$ref": str(name)}:
            return name.rpartition("/")[2]
        case {"anyOf": list(parts)}:
            return " or ".join(map(in_words, parts))
        case {"enum": list(words)}:
            return ", ".join(map(str, words))
        case {"type": "array"}:
            return f"a list of {in_words(schema.get('items', {}))}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"names with {in_words(values)}"
        case {"type": str(name)}:
            bounds = [f"{schema[key]}" for key in ("minimum", "maximum") if key in schema]
            return f"{name} ({' to '.join(bounds)})" if bounds else name
        case _:
            return "anything"
