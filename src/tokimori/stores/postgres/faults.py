"""Errors of PostgreSQL and the network, made into ours, each with its remedy."""

import ssl

import asyncpg

from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreTooSlow, StoreUnavailable
from tokimori.stores.rules.errors import TOO_SLOW

_MISSING = frozenset({"42P01", "42883", "42703"})
"""An undefined table, function or column."""
_ADVICE: dict[type[StoreError], dict[str, str]] = {
    StoreTooSlow: {"57014": TOO_SLOW, "55P03": "holds what was asked for locked for over 2 s"},
    StoreUnavailable: {
        "08": "lost the connection",
        "25P03": "ended an idle transaction",
        "25006": "is read-only, perhaps a standby: name the primary server",
        "25P02": "lost the connection",
        "40": "undid a transaction that met others",
        "53": "needs more connections, memory or disk than there is",
        "57": "is being stopped, started or restored",
        "58": "can't read or write its files: check its disk",
    },
    StoreError: {
        "28": "refused the user: check user and password in the URL, and the server's pg_hba.conf",
        "3D": "has no such database: make it with `createdb`, or name another one in the URL",
        "42501": (
            "gives the user too few rights: GRANT it CREATE and USAGE on its schema, or have the owner of Tokimori's "
            "tables and functions carry out what `tokimori db sql` prints"
        ),
    },
    StoreRefused: {"22": "can't keep a value that it was given", "23": "refused a row"},
}
UNDONE = ("40001", "40P01")
"""Errors of a transaction that was undone by a conflict: the whole method is repeated at once."""

FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError, ValueError)
"""Errors of the driver. A certificate's error is an `OSError`, a bad file of certificates a `ValueError`. A session
that was cut, and is closed while the driver waits for an answer, is an `InternalClientError`."""


def store_error(fault: BaseException, name: str) -> StoreError:
    """Return our error for a driver's exception, for users of the store `name`."""
    match fault:
        case asyncpg.PostgresError():
            return _server_error(fault, name)
        case ssl.SSLError():
            return StoreError(
                f"store {name} can't prove who it is ({fault.strerror or fault}): check sslrootcert in the URL"
            )
        case ConnectionError() if "SSL" in str(fault):
            return StoreError(
                f"store {name} speaks no TLS, which the URL asks for: set up TLS on the server, or say sslmode=prefer"
            )
        case asyncpg.ClientConfigurationError() | ValueError():
            return StoreError(f"store {name}: the URL's settings can't be used: {fault}")
        case TimeoutError():
            return StoreUnavailable(f"store {name} does not answer: check the server and the network")
        case OSError():
            return StoreUnavailable(
                f"store {name} can't be reached ({fault.strerror or fault}): check that the server runs and that host "
                "and port are right"
            )
        case _:
            return StoreUnavailable(f"store {name} lost the connection ({fault})")


def _server_error(fault: asyncpg.PostgresError, name: str) -> StoreError:
    code = fault.sqlstate or ""
    text = str(fault).splitlines()[0]
    if code in _MISSING and "tokimori_" in text:
        return SchemaMismatch(f"store {name} lacks tables of this version: run `tokimori db migrate` ({text})")
    if code.startswith("28") and any(unsafe in text for unsafe in ("no encryption", "SSL off")):
        return StoreError(f"store {name} wants TLS: say sslmode=require in the URL ({text})")
    for kind, advices in _ADVICE.items():
        for prefix, advice in advices.items():
            if code.startswith(prefix):
                return kind(f"store {name} {advice} ({text})")
    return StoreRefused(f"store {name} can't do what it was asked ({code}: {text})")
