"""Secrets of jobs: their cipher, and the vault that gives values just before an attempt starts."""

from typing import Protocol

from msgspec import Struct

from tokimori.model.ids import JobId


class Cipher(Protocol):
    """Cipher with keys that the store never sees. Its methods take a while; they are called in threads."""

    def seal(self, content: bytes) -> str:
        """Return the content encrypted with the first key. Raises `Refused` without one, else `StoreUnavailable`."""
        ...

    def open(self, sealed: str) -> bytes:
        """Return the content that one of the keys has sealed. Raises `Refused` if none opens it, and as `seal`."""
        ...


class OpenSecret(Struct, frozen=True, kw_only=True):
    """A secret with its value, which is stored nowhere. `jobs` are prefixes of ids; empty: any job may use it."""

    name: str
    value: str
    jobs: tuple[str, ...]

    def is_for(self, job_id: JobId) -> bool:
        """Return whether the job may use it."""
        return not self.jobs or job_id.startswith(self.jobs)


class Vault(Protocol):
    """Source of the values of secrets."""

    async def open(self, name: str) -> OpenSecret:
        """Return the secret of this name. Raises `NotFound`, `Refused` without its key, and `StoreError`."""
        ...
