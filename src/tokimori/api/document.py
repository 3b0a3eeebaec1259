"""OpenAPI 3.1 document of the API, made from the declarations and types of its operations. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from inspect import cleandoc
from typing import Any, Final

from msgspec import json

from tokimori.api.answers import JSON, PROBLEM
from tokimori.api.operation import Operation
from tokimori.api.queries import hints_of
from tokimori.model.build import MOST_PIECES
from tokimori.model.ids import JOB_ID_ALLOWED
from tokimori.model.job_fields import FIELDS
from tokimori.model.stream import TOPIC_ALLOWED
from tokimori.model.words import WORD_ALLOWED
from tokimori.service.definitions.definitions import LENGTHS
from tokimori.service.views.errors import Problem
from tokimori.service.views.outside import Length

Schema = dict[str, Any]

_REF = "#/components/schemas/{name}"
_JOB_ID = r"^[A-Za-z0-9._:@+][A-Za-z0-9._:@+-]{0,254}$"
_TOPIC = r"^[A-Za-z0-9._:@+][A-Za-z0-9._:@+-]{0,99}$"
_WORD = r"^[A-Za-z0-9._-]{1,128}$"
_RUN = {"type": "string", "format": "uuid"}
_PATHS: Final[Mapping[str, tuple[Schema, str, object]]] = {
    "job_id": ({"type": "string", "pattern": _JOB_ID}, JOB_ID_ALLOWED, "nightly-report"),
    "run_id": (_RUN, "a UUID", "01a1fe76-c901-7d5c-b9f7-4e869d9c8e52"),
    "attempt": ({"type": "integer", "minimum": 1, "maximum": 2**31 - 2}, "the number of an attempt", 1),
    "node_id": (_RUN, "a UUID", "01a1fe76-c901-7d5c-b9f7-4e869d9c8e53"),
    "cause": ({"type": "string"}, "the id of a cause, or its text", "exit 1: connection refused"),
    "topic": ({"type": "string", "pattern": _TOPIC}, TOPIC_ALLOWED, "orders"),
    "queue": ({"type": "string", "pattern": _WORD}, WORD_ALLOWED, "mail"),
    "name": ({"type": "string", "pattern": _WORD}, WORD_ALLOWED, "holidays"),
    "digest": ({"type": "string", "pattern": "^[0-9a-f]{64}$"}, "the SHA-256 of a build", "0" * 64),
    "number": ({"type": "integer", "minimum": 0, "maximum": MOST_PIECES - 1}, "the number of a piece, from 0 on", 0),
}
"""What stands in paths: what it may be, in words, and an example."""
_HEADERS: Final = {
    "Idempotency-Key": "Whoever sends it again with the same key gets the answer to the first one, and nothing more. A "
    "key is that of its sender, and known for a day; with another body it is refused (422).",
    "If-None-Match": "`*`: nothing is changed if there is such a job (412).",
    "If-Match": "The `ETag` of the job as you know it: if it has been edited since, nothing is changed (412).",
    "Last-Event-ID": "The id of the last event that is known: the stream goes on behind it.",
    "Range": "The part that is wanted, such as `bytes=0-999`.",
}
"""Headers of requests."""
_ANSWERED: Final = {
    "ETag": "Names this state of the answer.",
    "Link": 'The next page of the list, if there may be more: `<ADDRESS>; rel="next"`.',
    "Location": "The path of what was made.",
    "Tokimori-Log-Size": "How many bytes the attempt has written.",
    "Tokimori-Runs-Looked-At": "How many runs were compared with the filters.",
}
"""Headers of answers."""
_TOO_MANY: Final = "this client asks too often (`http.rate` of the node)"
_AGAIN: Final = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds after which to ask again."}}
_WITH_NULLS, _PATCHES = frozenset({"NewJob", "WholeJob"}), frozenset({"JobChanges"})
"""Types of which each field may be null, which stands for its default; and those where fields of fields may, too."""
_OF_JOBS: Final = {
    **dict.fromkeys(("NewJob", "WholeJob", "JobChanges", "Job"), ""),
    "Retry": "retry.",
    "Notifier": "notifier.",
}
"""Types that hold fields of a job, and how the paths of these begin in `FIELDS`."""
_SHOWN: Final = {"Job": ("NewJob", ""), "JobRetry": ("Retry", "retry."), "JobNotifier": ("Notifier", "notifier.")}
"""Types whose lengths are timedeltas for programs, and those whose numbers they are in JSON."""
_NULL: Final[Schema] = {"type": "null"}
_ABOUT = """A distributed job scheduler: you say what to run and when, and it runs on time, once, and can prove it.

Every request but those for health brings a secret: `tokimori node address --header` prints the line. Writes are
JSON. Moments are RFC 3339, lengths are seconds. Errors are `application/problem+json`; `error.code` is stable and meant
for programs, `error.field` is the path to what is wrong, `error.allowed` says what may stand there."""


def document(operations: Sequence[Operation], version: str, server: str = "/") -> Schema:
    """Return the whole document, of a door whose paths are below `server`."""
    components, queries = _components(operations)
    paths: dict[str, Schema] = {}
    for each in operations:
        paths.setdefault(path_of(each), {})[each.method.lower()] = _operation(each, queries)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tokimori", "version": version, "description": _ABOUT, "license": {"name": "MIT"}},
        "servers": [{"url": server}],
        "security": [{"secret": []}],
        "tags": [{"name": name} for name in dict.fromkeys(map(tag_of, operations))],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"secret": {"type": "http", "scheme": "bearer"}},
        },
    }


def path_of(operation: Operation) -> str:
    """Return its path as the document writes it."""
    return re.sub(r":\w+}", "}", operation.path)


def tag_of(operation: Operation) -> str:
    """Return the part of the API to which it belongs."""
    parts = operation.path.split("/")
    return parts[3] if operation.path.startswith("/api/v2/") else "node"


def summary_of(operation: Operation) -> tuple[str, str]:
    """Return the operation's summary, and the rest of its description."""
    text = cleandoc(operation.handler.__doc__ or "")
    first, _, rest = text.partition("\n\n")
    return " ".join(first.split()), rest


def _components(operations: Sequence[Operation]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Return the types of bodies and answers, by name; and those of queries, which stand at the operations."""
    types = {kind for each in operations for kind in (each.answers, each.query, each.sent or each.body) if kind}
    found = json.schema_components([*sorted(types, key=str), Problem], ref_template=_REF, schema_hook=_anything)[1]
    _show_lengths_as_numbers(found)
    for name, within in _OF_JOBS.items():
        for field, schema in found.get(name, {}).get("properties", {}).items():
            if (each := FIELDS.get(f"{within}{field}")) is not None:
                schema["description"] = f"{each.meaning} ({each.terms})"
    for name, schema in found.items():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
        if name in _WITH_NULLS | _PATCHES:
            schema["properties"] = {
                field: _nullable(each, found, deep=name in _PATCHES) for field, each in schema["properties"].items()
            }
    queries = {each.query.__name__ for each in operations if each.query is not None}
    return found, {name: found.pop(name) for name in queries}


def _show_lengths_as_numbers(components: Mapping[str, Schema]) -> None:
    """Give each length of a shown job the schema, and so the bounds, of the number that people type for it."""
    for shown, (typed, within) in _SHOWN.items():
        if shown in components and typed in components:
            numbers = components[typed]["properties"].items()
            lengths = {name: dict(schema) for name, schema in numbers if f"{within}{name}" in LENGTHS}
            components[shown]["properties"].update(lengths)


def _nullable(schema: Schema, components: Mapping[str, Schema], *, deep: bool) -> Schema:
    """Return the schema, or null; `deep`: in a merge patch nested members may be null, too."""
    if _NULL in schema.get("anyOf", ()):
        return schema
    plain = {name: value for name, value in schema.items() if name not in ("default", "description")}
    beside = {name: schema[name] for name in ("description", *(() if deep else ("default",))) if name in schema}
    if deep and "additionalProperties" in plain:
        plain["additionalProperties"] = {"anyOf": [plain["additionalProperties"], _NULL]}
    if deep and plain.get("$ref", "").endswith("/Retry"):
        below = components["Retry"]
        fields = {name: _nullable(each, components, deep=True) for name, each in below["properties"].items()}
        plain = {**below, "title": "RetryChanges", "properties": fields}
    return {"anyOf": [plain, _NULL], **beside}


def _operation(each: Operation, queries: Mapping[str, Schema]) -> Schema:
    summary, more = summary_of(each)
    found: Schema = {
        "operationId": each.id,
        "tags": [tag_of(each)],
        "summary": summary,
        "parameters": [*_in_path(each), *_in_query(each, queries), *_in_headers(each)],
        "responses": _responses(each),
    }
    if more:
        found["description"] = more
    if each.open:
        found["security"] = []
    if each.body is not None:
        kind = each.sent or each.body
        content = {"schema": _schema(kind), "example": each.example}
        found["requestBody"] = {"required": True, "content": {JSON: content}}
    return found


def _schema(kind: Any) -> Schema:
    (schema,), _ = json.schema_components([kind], ref_template=_REF, schema_hook=_anything)
    return schema


def _anything(kind: type) -> Schema:
    """Return the schema of any JSON, for a type that says no more, or of a length."""
    if kind is Length:
        return {"type": "number"}
    assert kind is object, kind  # noqa: S101  all others msgspec knows
    return {"description": "whatever JSON can hold"}


def _in_path(each: Operation) -> Iterator[Schema]:
    for name in re.findall(r"{(\w+)}", path_of(each)):
        schema, words, example = _PATHS[name]
        yield {"name": name, "in": "path", "required": True, "schema": schema, "description": words, "example": example}


def _in_query(each: Operation, queries: Mapping[str, Schema]) -> Iterator[Schema]:
    if each.query is None:
        return
    kind = queries[each.query.__name__]
    for name, schema in kind["properties"].items():
        one = {"name": name, "in": "query", "required": name in kind["required"], "schema": _in_address(schema)}
        yield {**one, "example": each.asked[name]} if name in each.asked else one


def _in_address(schema: Schema) -> Schema:
    """Return the schema of a parameter, which may be absent but not null."""
    others = [part for part in schema.get("anyOf", ()) if part != _NULL]
    if _NULL not in schema.get("anyOf", ()):
        return schema
    return others[0] if len(others) == 1 else {"anyOf": others}


def _in_headers(each: Operation) -> Iterator[Schema]:
    for name in each.headers:
        schema = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        yield {"name": name, "in": "header", "required": False, "schema": schema, "description": _HEADERS[name]}


def _answers(each: Operation) -> Schema:
    """Return the schema of an answer; a request for some members leaves out the others."""
    whole = _schema(each.answers)
    if each.query is None or "fields" not in hints_of(each.query):
        return whole
    some = {"type": "array", "items": {"type": "object"}, "description": "with `fields`: these members alone"}
    return {"anyOf": [whole, some]}


def _responses(each: Operation) -> Schema:
    problem = {PROBLEM: {"schema": {"$ref": _REF.format(name="Problem")}}}
    found, answers = {}, _answers(each)
    for status, words in {each.status: HTTPStatus(each.status).phrase, **each.others}.items():
        content = {each.media.partition(";")[0]: {"schema": answers}}
        headers = {name: {"schema": {"type": "string"}, "description": _ANSWERED[name]} for name in each.answered}
        found[str(status)] = {"description": words, "content": content, **({"headers": headers} if headers else {})}
    if not each.open:
        found["401"] = {"description": "the secret is missing or wrong", "content": problem}
        found["429"] = {"description": _TOO_MANY, "content": problem, "headers": _AGAIN}
    if each.path.count("{"):
        found["404"] = {"description": "there is none of this name", "content": problem}
    if each.query is not None or each.body is not None:
        found["422"] = {"description": "a value is not allowed: `error.field` says which", "content": problem}
    return {**found, "default": {"description": "it was refused, or failed", "content": problem}}
