"""Logging in at the page: a token becomes a cookie, which lives as long as the token and the browser."""

import hashlib
import hmac
from typing import Final
from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from tokimori.api.bodies import read_whole
from tokimori.model.access_token import AccessToken

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
_FIELD: Final = "token"


async def presented(scope: Scope, receive: Receive) -> str:
    """What somebody has typed into the form; empty where that is nothing. Raises `ClientDisconnect`."""
    body = await read_whole(scope, receive) or b""
    given = parse_qs(body.decode("latin-1"), max_num_fields=10) if body.count(b"&") < 10 else {}
    return given.get(_FIELD, [""])[0].strip()


def session_value(secret: str, token: AccessToken) -> str:
    """What a browser keeps in place of the token: it opens the doors of this state folder, as long as that does."""
    told = f"the session of {token.name} {token.digest}"
    return f"{token.name}.{hmac.new(secret.encode(), told.encode(), hashlib.sha256).hexdigest()}"


def name_in_session(value: str) -> str | None:
    """The name of the token in such a value; None if it is none."""
    return value.rpartition(".")[0] or None
