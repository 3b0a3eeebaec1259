"""Errors of MariaDB, MySQL and the network, made into ours, each with its remedy."""

import ssl

from asyncmy.errors import MySQLError

from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreTooSlow, StoreUnavailable
from tokimori.stores.mysql.statements import Large
from tokimori.stores.rules.errors import TOO_SLOW

UNDONE = frozenset({1213, 1020})
"""Errors of a transaction that was undone by a conflict: the whole method is repeated at once."""
GONE = frozenset({1053, 1927, 2006, 2013, 2014, 2055, 4031})
"""Errors of an ended session: stopped, killed, or idle for too long within a transaction."""
ALREADY = frozenset({1050, 1060, 1061, 1091})
"""Errors of statements of a migration that were carried out before."""
_MISSING = frozenset({1146, 1054})
"""No such table or column."""
_LEAST_OF_CLIENT, _MOST_OF_CLIENT = 2000, 2999

NO_TLS = "speaks no TLS, which the URL asks for: set up TLS on the server, or say ssl_mode=disabled"
_ADVICE: dict[type[StoreError], dict[frozenset[int], str]] = {
    StoreTooSlow: {
        frozenset({1969, 3024, 1317}): TOO_SLOW,
        frozenset({1205}): "holds what was asked for locked for over 2 s",
    },
    StoreUnavailable: {
        frozenset({1040, 1203, 1226}): "has no more connections: raise its max_connections",
        frozenset({1290, 1792, 1836}): "is read-only, perhaps a replica: name the primary server",
        frozenset({1021, 1030, 1114, 1037, 1038}): "needs more memory or disk than there is",
        UNDONE: "undid a transaction that met others",
        GONE: "lost the connection",
    },
    StoreError: {
        frozenset({1045, 1698, 2059, 1251, 1275}): (
            "refused the user: check user and password in the URL, and whether the server wants TLS from this user "
            "(ssl_mode=required)"
        ),
        frozenset({1130}): "takes no connections from this machine: CREATE USER for it",
        frozenset({1049}): "has no such database: make it with CREATE DATABASE, or name another one in the URL",
        frozenset({1044, 1142, 1143, 1227, 1370}): (
            "gives the user too few rights: GRANT it SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP and INDEX on "
            "the database"
        ),
        frozenset({3159, 1835, 4191}): "wants TLS: say ssl_mode=required in the URL",
        frozenset({1043}): NO_TLS,
    },
    StoreRefused: {
        frozenset({1153, 2020}): "can't take so much at once: raise its max_allowed_packet to 16M",
        frozenset({1406, 1366, 1264, 1265, 1048, 3988}): "can't keep a value that it was given",
        frozenset({1062}): "refused a row",
    },
}

FAULTS = (MySQLError, OSError, TimeoutError, ValueError, RuntimeError)
"""Errors of the driver. A certificate's error is an `OSError`, one of its own states a `RuntimeError`."""


def code_of(fault: BaseException) -> int:
    """Return the number of a server's or driver's error; 0 for others."""
    known = isinstance(fault, MySQLError) and fault.args and isinstance(fault.args[0], int)
    return int(fault.args[0]) if known else 0


def is_answer(fault: BaseException) -> bool:
    """Return whether the server refused a statement: the session goes on."""
    code = code_of(fault)
    return code > 0 and not _LEAST_OF_CLIENT <= code <= _MOST_OF_CLIENT and code not in GONE


def is_refusal(fault: BaseException) -> bool:
    """Return whether the server would refuse the same again."""
    return isinstance(store_error(fault, ""), StoreRefused)


def store_error(fault: BaseException, name: str) -> StoreError:
    """Return our error for a driver's exception, for users of the store `name`."""
    cause = fault.__cause__ if isinstance(fault.__cause__, OSError) else fault
    match cause:
        case ssl.SSLCertVerificationError():
            return StoreError(f"store {name} can't prove who it is ({cause.verify_message}): check ssl_ca in the URL")
        case ssl.SSLError():
            return StoreError(f"store {name} {NO_TLS} ({cause.reason or cause})")
        case TimeoutError():
            return StoreUnavailable(f"store {name} does not answer: check the server and the network")
        case OSError():
            return StoreUnavailable(
                f"store {name} can't be reached ({cause.strerror or cause}): check that the server runs and that host, "
                "port or unix_socket are right"
            )
        case MySQLError():
            return _server_error(cause, name)
        case _:
            return StoreUnavailable(f"store {name} lost the connection ({cause})")


def _server_error(fault: MySQLError, name: str) -> StoreError:
    code = code_of(fault)
    text = str(fault.args[-1]).splitlines()[0] if fault.args else str(fault)
    if code in _MISSING:
        return SchemaMismatch(f"store {name} lacks tables of this version: run `tokimori db migrate` ({text})")
    for kind, advices in _ADVICE.items():
        for codes, advice in advices.items():
            if code in codes:
                return kind(f"store {name} {advice} ({text})")
    if _LEAST_OF_CLIENT <= code <= _MOST_OF_CLIENT or not code:
        return StoreUnavailable(f"store {name} {_ADVICE[StoreUnavailable][GONE]} ({text})")
    return StoreRefused(f"store {name} can't do what it was asked ({code}: {text})")


def too_large(statement: str, size: int, most: int) -> StoreRefused:
    """Return the refusal of a statement that is longer than the server's `most` bytes."""
    field = statement.field if isinstance(statement, Large) else None
    size = statement.size if isinstance(statement, Large) else size
    what = f"{field or 'a statement'} of {size} bytes"
    advice = "make it smaller, or raise max_allowed_packet on the server"
    message = f"{what} is more than the store takes, whose server has max_allowed_packet = {most}: {advice}"
    return StoreRefused(message, field=field, value=size, allowed=f"fewer than {most} bytes")
