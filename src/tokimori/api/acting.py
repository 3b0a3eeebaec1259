"""Who acts: each request uses the service in the name of its author."""

from collections.abc import Callable

from starlette.requests import Request

from tokimori.service.service import Service

AuthorOf = Callable[[Request], str | None]
"""A function that tells who sent a request."""
ServiceFor = Callable[[Request], Service]
"""A function that gives the service, acting as the author of the request."""


def unknown_author(_: Request) -> str:
    """The author of every request, as long as the door does not ask people who they are."""
    return "http"
