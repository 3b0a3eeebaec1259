"""Secrets of jobs as JSON."""

from msgspec import Struct

from tokimori.clock import format_moment
from tokimori.model.secret import Secret


class SecretView(Struct, frozen=True, kw_only=True):
    """A secret without its value. `jobs`: only jobs whose ids begin so may use it; empty: all."""

    name: str
    jobs: tuple[str, ...]
    set_at: str
    by: str | None


def secret_view(secret: Secret) -> SecretView:
    """Return the secret as JSON shows it."""
    return SecretView(name=secret.name, jobs=secret.jobs, set_at=format_moment(secret.at), by=secret.by)
