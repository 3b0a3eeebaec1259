"""Conversion of requests to values, and of values to responses."""

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode

from msgspec import DecodeError, Struct, json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from tokimori.errors import InvalidInput, TokimoriError
from tokimori.model.encoding import invalid_json
from tokimori.model.sizes import check_depth
from tokimori.model.words import check_keys, json_fault, own_address
from tokimori.service.views.errors import ErrorFault, error_body, problem_of
from tokimori.service.views.outside import as_json
from tokimori.spelling import hint

JSON, PROBLEM = "application/json", "application/problem+json"

RefusalPage = Callable[[int, str, str], Response]
"""Makes the page for a browser that is refused, from the status, the message, and the address that it wanted."""

_T = TypeVar("_T")


class _Json(Response):
    """Response with JSON. Starlette would look for the headers that it has anyway."""

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Set its headers."""
        more = [] if headers is None else [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        self.raw_headers = [*more, (b"content-length", b"%d" % len(self.body)), (b"content-type", JSON.encode())]


def answer(value: object, status: int = 200, *, location: str | None = None) -> Response:
    """Return a response with the value as JSON; `location` is the path of a new resource."""
    headers = None if location is None else {"location": location}
    return _Json(as_json(value), status, headers)


def written(text: bytes, etag: str | None = None) -> Response:
    """Return a response with JSON that is written already, and the tag that it has of its own."""
    return _Json(text, 200, None if etag is None else {"etag": etag})


def page_of(request: Request, value: object, *, more: bool, **after: str | None) -> Response:
    """Return a page of a list. If there may be `more`, a `Link` header (RFC 8288) names the next page."""
    response = answer(value)
    if more:
        others = [(key, value) for key, value in request.query_params.multi_items() if key not in after]
        response.headers["link"] = f'<{request.url.path}?{urlencode([*others, *after.items()])}>; rel="next"'
    return response


def error_answer(error: TokimoriError) -> Response:
    """Return a response with the error as JSON, under its status."""
    return _problem(error_body(error).error, error.status)


def refusal(
    status: int, code: str, message: str, *, field: str | None = None, value: str | None = None, allowed: str | None
) -> Response:
    """Return a response that refuses a request, before anybody has looked at its content."""
    fault = ErrorFault(code=code, message=message, field=field, value=value, allowed=allowed)
    return _problem(fault, status)


def _problem(fault: ErrorFault, status: int) -> Response:
    return Response(json.encode(problem_of(fault, status)), status, media_type=PROBLEM)


def refused(
    request: Request,
    page: RefusalPage | None,
    *,
    status: int,
    code: str,
    message: str,
    field: str,
    allowed: str,
    wanted: str | None = None,
) -> Response:
    """Return the refusal of a request: a page for people, JSON for programs."""
    if page is not None and is_browser(request):
        return page(status, message, wanted or wanted_by(request))
    return refusal(status, code, message, field=field, allowed=allowed)


def wanted_by(request: Request) -> str:
    """Return the address to which a browser returns after its login; the first page if the address is no page."""
    path, query = request.url.path, request.url.query
    if path == "/login":
        return own_address(request.query_params.get("next")) or "/"
    if request.method != "GET" or path.startswith(("/logout", "/do/")):
        return "/"
    return f"{quote(path)}?{query}" if query else quote(path)


def is_browser(request: Request) -> bool:
    """Return whether the request asks for a page."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def said(scope: Scope, header: bytes) -> list[str]:
    """Return the values of all headers of this name (in lower case), as they came."""
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def first_said(scope: Scope, header: bytes) -> str | None:
    """Return the value of the first header of this name (in lower case); None: there is none."""
    value: bytes | None = dict(reversed(scope["headers"])).get(header)
    return None if value is None else value.decode("latin-1")


class Concealed(Struct, frozen=True):
    """A body with a secret: a fault in it does not say what was sent."""


async def read_body(request: Request, kind: type[_T]) -> _T:
    """Return the JSON body as a value, an empty one as an empty object. Raises `InvalidInput` naming the field."""
    body = await request.body() or b"{}"
    check_depth(body)
    try:
        found = json.decode(body, type=kind)
        check_keys("body", body.decode())
        return found
    except DecodeError as fault:
        raise _fault_of(fault, body, kind) from None
    except UnicodeDecodeError:
        raise _not_utf_8() from None


def _not_utf_8() -> InvalidInput:
    return InvalidInput("the body is not UTF-8", field="body", allowed="JSON in UTF-8")


def _fault_of(fault: DecodeError, body: bytes, kind: type) -> InvalidInput:
    """Return the fault with the value that was sent, unless that is a secret. For an unknown field it lists the known
    ones.
    """
    try:
        plain = json.decode(body)
    except DecodeError as broken:
        return InvalidInput(f"the body is not JSON: {json_fault(broken, body)}", field="body", allowed="JSON in UTF-8")
    except UnicodeDecodeError:  # behind the first fault, where the typed reading did not come to
        return _not_utf_8()
    found = invalid_json(fault, None if issubclass(kind, Concealed) else plain)
    known = getattr(kind, "__struct_encode_fields__", ())
    name = found.field or ""
    if not isinstance(plain, dict) or name not in plain or name in known or not known:
        return found
    message = f"{name}: there is no such field{hint(name, known)}"
    return InvalidInput(message, field=name, value=found.value, allowed=f"one of {', '.join(known)}")
