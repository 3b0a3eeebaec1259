"""The HTTP door of a node, by its settings."""

import pwd

from starlette.types import ASGIApp

from tokimori.api.connections import Limits, most_connections
from tokimori.api.server import HttpDoor
from tokimori.api.tls import tls_context
from tokimori.config.http import HttpSettings
from tokimori.executors.environment import own_account
from tokimori.service.allowed import Allowed


def door_of(app: ASGIApp, http: HttpSettings) -> HttpDoor:
    """The door, which is not open yet."""
    return HttpDoor(
        app,
        interface=http.interface,
        port=http.port,
        port_fixed=http.port_fixed,
        insecure=http.insecure,
        limits=Limits(most=most_connections(http.streams)),
        tls=None if http.tls_cert is None or http.tls_key is None else tls_context(http.tls_cert, http.tls_key),
    )


def allowed_by(settings: HttpSettings) -> Allowed:
    """What jobs may do that come through the door of this process."""
    return Allowed(
        own_user=own_account().name,
        roots=frozenset({"root", *(each.pw_name for each in pwd.getpwall() if each.pw_uid == 0)}),
        users=settings.job_users,
        commands=settings.job_commands,
        hosts=settings.job_hosts,
    )
