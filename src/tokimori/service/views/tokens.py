"""Tokens as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.access_token import AccessToken
from tokimori.service.tokens import NewToken
from tokimori.service.views.stamps import stamp


class TokenView(Struct, frozen=True, kw_only=True):
    """A token, without what its holder sends. `expires` null: never."""

    name: str
    role: str
    jobs: tuple[str, ...]
    queues: tuple[str, ...]
    created: str
    by: str | None
    expires: str | None


class NewTokenView(Struct, frozen=True, kw_only=True):
    """A token that was made, and the text that its holder sends."""

    token: TokenView
    text: str


def token_view(token: AccessToken) -> TokenView:
    """Return the token as JSON shows it."""
    return TokenView(
        name=token.name,
        role=token.role,
        jobs=token.scope.jobs,
        queues=token.scope.queues,
        created=format_moment(token.created),
        by=token.by,
        expires=stamp(token.expires),
    )


def new_token_view(made: NewToken) -> NewTokenView:
    """Return the new token as JSON shows it, once."""
    return NewTokenView(token=token_view(made.token), text=made.text)
