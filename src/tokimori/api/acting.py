"""Who acts: a request gets the service as whoever sent it uses it."""

from collections.abc import Callable

from starlette.requests import Request

from tokimori.service.service import Service

AuthorOf = Callable[[Request], str | None]
"""Tells who sent a request."""
ServiceFor = Callable[[Request], Service]
"""The service, acting as whoever sent the request."""


def unknown_author(_: Request) -> str:
    """The door asks nobody who they are yet: whatever comes through it is recorded as the door's."""
    return "http"
