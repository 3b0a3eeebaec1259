"""Access tokens: roles, and scopes of jobs and queues."""

import hashlib
import hmac
import re
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.document import texts_of
from tokimori.model.ids import RandomBytes

KIND: Final = "token"
PREFIX: Final = "tkm_"
"""Beginning of every token, by which people and scanners for secrets recognise it."""
SECRET_BYTES: Final = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", re.ASCII)
_TEXT = re.compile(r"tkm_(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63})_(?P<secret>[0-9a-f]{64})\Z", re.ASCII)
NAME_ALLOWED: Final = "1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit"


class Role(StrEnum):
    """Roles of a token. Each role includes those before it, except that `read` does not include reports."""

    PING = "ping"
    """Report of what is expected (`tokimori ping`), and nothing else."""
    READ = "read"
    """Look at everything but tokens and the audit log."""
    OPERATE = "operate"
    """Change jobs, runs, queues and the like, and claim runs; never make a job that runs as root."""
    ADMIN = "admin"
    """Everything, as with the node's secret."""

    def includes(self, other: "Role") -> bool:
        """Return whether this role includes the other one."""
        return other in _INCLUDED[self]


_INCLUDED: Final = MappingProxyType(
    {
        Role.PING: frozenset({Role.PING}),
        Role.READ: frozenset({Role.READ}),
        Role.OPERATE: frozenset(Role) - {Role.ADMIN},
        Role.ADMIN: frozenset(Role),
    }
)


class Scope(Struct, frozen=True, omit_defaults=True):
    """Jobs that a caller may know: ids that begin with one of `jobs`, in one of `queues`. Empty means any.

    `exact`: `jobs` are whole ids.
    """

    jobs: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    exact: bool = False

    @property
    def is_everything(self) -> bool:
        """Return whether the scope is unlimited."""
        return not self.jobs and not self.queues

    def has_id(self, job_id: str) -> bool:
        """Return whether a job's id is in scope, whatever its queue."""
        return not self.jobs or (job_id in self.jobs if self.exact else job_id.startswith(self.jobs))

    def has(self, job_id: str, queue: str | None) -> bool:
        """Return if a thing with this id and queue is in scope; without a queue, only if the scope names none."""
        return self.has_id(job_id) and (not self.queues or queue in self.queues)

    def may_name(self, prefixes: tuple[str, ...]) -> bool:
        """Return if it may name things for jobs whose ids begin with one of these; none: for any job.

        It may if one of its own prefixes begins so, or one of these lies within the scope. Queues alone give no right,
        as a job in one of them may have any id.
        """
        is_named = any(ours.startswith(prefixes) for ours in self.jobs)
        return not prefixes or is_named or (not self.queues and any(map(self.has_id, prefixes)))

    def has_queue(self, queue: str) -> bool:
        """Return whether a queue is in scope, whatever the ids of its jobs."""
        return not self.queues or queue in self.queues

    def owns_queue(self, queue: str) -> bool:
        """Return whether every job of the queue is in scope."""
        return not self.jobs and self.has_queue(queue)


EVERYTHING = Scope()


class AccessToken(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token as the store keeps it: of its secret part only the SHA-256, in hexadecimal.

    The secret is random and can't be guessed: a slow hash would add nothing. `expires` None: never.
    """

    name: str
    digest: str
    role: Role
    scope: Scope = EVERYTHING
    created: Moment
    by: str | None = None
    expires: Moment | None = None

    def since(self, now: Moment) -> "AccessToken":
        """Return the token as if it had been made then, with the same lifetime."""
        expires = None if self.expires is None else Moment(self.expires - self.created + now)
        return replace(self, created=now, expires=expires)

    def is_over(self, now: Moment) -> bool:
        """Return whether the token has expired."""
        return self.expires is not None and now >= self.expires


encode_token, decode_token = texts_of(AccessToken)


def check_token_name(name: object) -> str:
    """Check the name of a token. Raises `InvalidInput`."""
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise InvalidInput(f"name: {name!r} is not the name of a token", field="name", value=name, allowed=NAME_ALLOWED)


def new_text(name: str, random: RandomBytes) -> str:
    """Return the text of a new token, which its owner sees once: its name and 256 random bits."""
    return f"{PREFIX}{name}_{random(SECRET_BYTES).hex()}"


def name_in(text: str) -> str | None:
    """Return the name in a presented token; None if it can't be one."""
    found = _TEXT.match(text)
    return None if found is None else found["name"]


def digest_of(text: str) -> str:
    """Return the digest of a token's text, which the store keeps."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_text_of(token: AccessToken, text: str) -> bool:
    """Return if the text is the token's, in a time that does not depend on how much of it is right."""
    return hmac.compare_digest(digest_of(text), token.digest)
