"""TLS of the door: its certificate and key, which are read again when their files change."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tokimori.errors import Refused
from tokimori.ownership import state_of

log = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between two looks at the files."""


@asynccontextmanager
async def followed(context: ssl.SSLContext | None, certificate: Path | None, key: Path | None) -> AsyncIterator[None]:
    """Give new connections the certificate that the files hold by then, while this lasts.

    Files that do not fit together, as one of them is still to be written, change nothing.
    """
    if context is None or certificate is None or key is None:
        yield
        return
    following = asyncio.ensure_future(_follow(context, certificate, key))
    try:
        yield
    finally:
        following.cancel()


async def _follow(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    seen = state_of(certificate), state_of(key)
    while True:
        await asyncio.sleep(EVERY)
        if (now := (state_of(certificate), state_of(key))) == seen:
            continue
        try:
            await asyncio.to_thread(tls_context, certificate, key)
            context.load_cert_chain(certificate, key, password=_no_password)
        except (Refused, ssl.SSLError, OSError, ValueError) as fault:
            log.warning("the previous certificate stays in use: %s", fault)
        else:
            log.info("http.tls_cert and http.tls_key were read again")
        seen = now


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the TLS context of the door: 1.2 or later, with the chain in the one file and the key in the other.

    Raises `Refused` for files that can't be read, are not PEM, do not fit together, or need a password.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for name, file in (("http.tls_cert", certificate), ("http.tls_key", key)):
        try:
            file.read_bytes()
        except OSError as fault:
            message = f"{name}: the file {file} can't be read: {fault.strerror}"
            raise Refused(message, field=name, value=str(file), allowed="a file that the node may read") from None
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as fault:
        why = getattr(fault, "reason", None) or str(fault)
        raise Refused(
            f"http.tls_cert: {certificate} and {key} are no certificate and its key: {why}",
            field="http.tls_cert",
            value=str(certificate),
            allowed="PEM files: the certificate with those that vouch for it, and its key without a password",
        ) from None
    return context


def _no_password() -> str:
    """Refuse to say a password: else OpenSSL asks at the terminal, and the node waits."""
    raise ValueError("the key needs a password")
