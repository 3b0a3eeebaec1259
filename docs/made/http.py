"""The paths of the HTTP API, from its OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from docs.made.markdown import REFERENCE, code, table, text
from tokimori.api.app import operations
from tokimori.api.docs import DOCS, OPENAPI
from tokimori.api.document import document
from tokimori.clock import SystemClock
from tokimori.node.http_door import formats

PAGE = REFERENCE / "http.md"


def page() -> str:
    """Return the page, with a table for each tag."""
    return text(_lines())


def openapi() -> dict[str, Any]:
    """Return the document of a node."""
    return document(operations(lambda _: None, None, formats(SystemClock())), "")  # type: ignore[arg-type, return-value]


def _lines() -> Iterator[str]:
    found = openapi()
    yield from (
        "# HTTP",
        "",
        f"Written by `make docs` from the OpenAPI document, which each node serves at `{OPENAPI}`. `{DOCS}` of a node",
        "shows it with all fields and an example of each request.",
        "",
        found["info"]["description"],
        "",
        "```sh",
        "tokimori node address --header > header        # the line that lets you in",
        "curl -H @header http://127.0.0.1:8000/api/v2/jobs",
        "```",
    )
    for tag in found["tags"]:
        yield from ("", f"## {tag['name']}", "")
        yield from table(("request", "what it does", "query", "body"), _rows(found["paths"], tag["name"]))
    yield from ("", "## Fields of bodies", "", "Fields of a job are in [job fields](job-fields.md).")
    bodies = {body for path in found["paths"].values() for each in path.values() if (body := _body(each))}
    for name in sorted(bodies):
        if (schema := found["components"]["schemas"].get(name)) and schema.get("properties"):
            yield from ("", f"### {name}", "")
            rows = [(code(field), each.get("description", "")) for field, each in schema["properties"].items()]
            yield from table(("field", "meaning"), rows)


def _rows(paths: dict[str, Any], tag: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each request of a tag."""
    for path, methods in paths.items():
        for method, each in methods.items():
            if each["tags"] == [tag]:
                queries = [code(one["name"]) for one in each.get("parameters", ()) if one.get("in") == "query"]
                body = _body(each)
                yield code(f"{method.upper()} {path}"), each["summary"], ", ".join(queries), code(body) if body else ""


def _body(operation: dict[str, Any]) -> str:
    """Return the name of the type of a body."""
    content = operation.get("requestBody", {}).get("content", {})
    kinds: list[dict[str, Any]] = list(content.values())
    return str(kinds[0]["schema"].get("$ref", "")).rpartition("/")[2] if kinds else ""
