"""Errors of Redis and the network, made into ours, each with its remedy."""

import ssl

from redis import exceptions

from tokimori.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable

_FULL = "max number of clients"
_UNUSABLE = {
    "NOAUTH": "wants a password: put user and password into the URL",
    "WRONGPASS": "refused the user: check user and password in the URL",
    "NOPERM": "gives the user too few rights: its ACL needs the keys and channels {tokimori…}:*",
    "MOVED": "is one of several nodes of a cluster, and our keys are on another one: name that one in the URL",
    "DB index": "has no database of that number: see `databases` in its configuration",
}
_UNAVAILABLE = {
    "READONLY": "is a read-only replica: name the primary server",
    "OOM": "has no memory left: raise its maxmemory",
    "LOADING": "is still loading its data",
    "MISCONF": "can't write to its disk, and takes nothing: see its log",
    "BUSY": "is busy with a script of somebody",
    "MASTERDOWN": "is a replica without its primary server: name that one",
    "NOREPLICAS": "has too few replicas, and takes nothing",
    "CLUSTERDOWN": "is part of a cluster that is down",
    "TRYAGAIN": "is moving our keys to another server",
    "ASK": "is moving our keys to another server",
    _FULL: "has as many clients as its maxclients allows",
}

FAULTS = (exceptions.RedisError, OSError, TimeoutError)
"""Errors of the driver."""


def store_error(fault: BaseException, name: str) -> StoreError:
    """Return our error for a driver's exception, for users of the store `name`."""
    match fault:
        case exceptions.RedisError() if isinstance(fault, exceptions.ResponseError) or _code_of(fault):
            return _server_error(fault, name)
        case TimeoutError() | exceptions.TimeoutError():
            return StoreUnavailable(f"store {name} does not answer: check the server and the network")
        case _:
            return _network_error(fault, name)


def _code_of(fault: exceptions.RedisError) -> str:
    """Return the first word of the server's answer; empty if the driver got no answer."""
    return getattr(fault, "status_code", None) or ""


def _server_error(fault: exceptions.RedisError, name: str) -> StoreError:
    text = str(fault)
    message = f"{_code_of(fault)} {text}"
    if "NOSCHEMA" in message:
        return SchemaMismatch(
            f"store {name} holds no keys of Tokimori, or lost them: if it is to be new, run `tokimori db migrate`"
        )
    for kind, advices in ((StoreUnavailable, _UNAVAILABLE), (StoreError, _UNUSABLE)):
        for word, advice in advices.items():
            if word in message:
                return kind(f"store {name} {advice} ({text})")
    return StoreRefused(f"store {name} can't do what it was asked ({text})")


def _network_error(fault: BaseException, name: str) -> StoreError:
    cause = fault.__context__ or fault
    if isinstance(cause, ssl.SSLCertVerificationError):
        return StoreError(f"store {name} can't prove who it is ({cause.verify_message}): check ssl_ca_certs in the URL")
    if isinstance(cause, ssl.SSLError):
        return StoreError(f"store {name} does not speak TLS as we do ({cause.reason or cause}): check port and scheme")
    if _FULL in str(fault):
        return StoreUnavailable(f"store {name} {_UNAVAILABLE[_FULL]}")
    return StoreUnavailable(f"store {name} lost the connection ({fault})")


def connect_error(fault: BaseException, name: str, *, tls: bool) -> StoreError:
    """Return our error for a failed connection. On a socket the driver wraps the server's answer."""
    if isinstance(fault.__cause__, exceptions.RedisError):
        fault = fault.__cause__
    cause = fault.__context__ or fault
    if tls and isinstance(cause, FileNotFoundError):
        return StoreError(f"store {name}: a file that the URL names with ssl_ is not there")
    if tls and isinstance(fault, TimeoutError | exceptions.TimeoutError):
        return StoreUnavailable(
            f"store {name} does not answer: check the server and the network; perhaps it speaks no TLS at this port "
            "(redis://)"
        )
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError | TimeoutError | ConnectionResetError):
        return StoreUnavailable(
            f"store {name} can't be reached ({cause.strerror or cause}): check that the server runs and that host and "
            "port are right"
        )
    if isinstance(cause, ConnectionResetError) or "closed by server" in str(fault):
        return StoreUnavailable(
            f"store {name} closes the connection at once: check that this is a Redis server's port, and whether it "
            "wants TLS (rediss://)"
        )
    return store_error(fault, name)
