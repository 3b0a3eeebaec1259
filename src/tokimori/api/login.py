"""Logging in at the page: a token becomes a cookie, which lives as long as the token, and until it logs out."""

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
    """Return the text in the form, empty for none. Raises `ClientDisconnect`."""
    body = await read_whole(scope, receive) or b""
    given = parse_qs(body.decode("latin-1"), max_num_fields=10) if body.count(b"&") < 10 else {}
    return given.get(_FIELD, [""])[0].strip()


def session_value(secret: str, token: AccessToken | None, session: str) -> str:
    """Return a browser's value in place of the token: it opens the doors of this state folder, as long as that does.

    None: in place of the secret itself. `session` is what is ended by logging out.
    """
    name = "" if token is None else token.name
    told = f"the session {session} of {name} {'' if token is None else token.digest}"
    return f"{name}.{session}.{hmac.new(secret.encode(), told.encode(), hashlib.sha256).hexdigest()}"


def parts_of_session(value: str) -> tuple[str, str] | None:
    """Return the name of the token in such a value, empty for the secret's, and the session; None if it is none."""
    name, *rest = value.rsplit(".", 2)
    return (name, rest[0]) if len(rest) == 2 and rest[0] else None
