"""The HTTP door of a node: who stands behind it, and how it opens. A node without one loads nothing of it."""

import os
import pwd
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from starlette.types import ASGIApp

from tokimori.api.access_log import AccessLog
from tokimori.api.acting import Acting
from tokimori.api.app import Health, create_app
from tokimori.api.connections import Limits, most_connections
from tokimori.api.guards import Lenient
from tokimori.api.server import HttpDoor
from tokimori.api.tls import tls_context
from tokimori.clock import Clock
from tokimori.config.http import HttpSettings
from tokimori.config.settings import Settings
from tokimori.executors.environment import own_account
from tokimori.executors.http.callbacks import Callbacks
from tokimori.foreign.kala.routes import kala_routes
from tokimori.foreign.kala.shapes import PREFIX as KALAS
from tokimori.metrics.metrics import Metrics
from tokimori.model.rate import parse_rate
from tokimori.node.formats import formats
from tokimori.node.node import Node
from tokimori.node.open_api import check_open
from tokimori.node.open_doors import noted_door, told_at_start
from tokimori.node.secret_file import make_secret
from tokimori.node.vitals import vitals_of
from tokimori.ports.store import Store
from tokimori.service.allowed import Allowed
from tokimori.service.claim_place import ClaimPlace
from tokimori.service.claims import Claims
from tokimori.service.schema import DoorOnDemand, StoreOnDemand
from tokimori.service.service import Service
from tokimori.web.page import Page


class OpenDoor(NamedTuple):
    """Address of a door, and the secret that lets in."""

    address: str
    secret: str

    def told(self, *, with_secret: bool) -> Sequence[str]:
        """Return the lines about it for whoever started the node."""
        return told_at_start(self.address, self.secret, with_secret=with_secret)


@asynccontextmanager
async def http_door(
    node: Node,
    store: Store,
    semaphores: StoreOnDemand | None,
    settings: Settings,
    clock: Clock,
    *,
    service_of: Callable[[Store, StoreOnDemand | None], Service],
    callbacks: Callbacks,
    metrics: Metrics,
    place: ClaimPlace | None = None,
) -> AsyncIterator[OpenDoor]:
    """Yield the open door of a node. It stays open while the node drains: whoever asks why is answered.

    Whatever is asked through it goes through connections of its own, which the node does not wait for: `service_of`
    makes the service that uses them.
    """
    semaphores = None if semaphores is None else DoorOnDemand(semaphores)
    doors = await store.for_doors()
    service = service_of(doors, semaphores)
    vitals = vitals_of(node, doors, service, settings, clock)
    http, secret, allowed = settings.http, make_secret(settings.state_dir), allowed_by(settings.http)
    page = Page(Acting(service).service, clock, http.path_prefix or "")
    kala = Acting(service, lambda _: "kala", allowed=allowed)
    if http.v1_open:
        check_open(http.interface, os.geteuid())
    app = create_app(
        service,
        clock,
        interface=http.interface,
        secret=secret,
        health=lambda: _health(node),
        unready=lambda: vitals.unready,
        pages=[*page.routes(), *kala_routes(kala.service, http.v1_default_owner)],
        lost=page.lost,
        closed=page.closed,
        host_name=node.identity.host,
        public_url=http.public_url,
        hear=callbacks.hear,
        guests=callbacks.guests.bearer,
        claims=None if place is None else Claims(place, os.urandom),
        formats=formats(clock),
        figures=lambda standing: metrics.text(standing, node.lease_left, vitals.broken, node.identity.blocking),
        allowed=allowed,
        rate=None if http.rate is None else parse_rate(http.rate, field="http.rate"),
        path_prefix=http.path_prefix or "",
        streams=http.streams,
        lenient=Lenient(open=(KALAS,) if http.v1_open else (), nameless=(KALAS,)),
    )
    door = door_of(AccessLog(app, clock) if http.access_log else app, http)
    await door.start()
    here = http.below_prefix(door.url)
    callbacks.guests.open(here)
    callbacks.open(here if http.public_url is None else http.below_prefix(http.public_url), secret)
    try:
        with noted_door(settings.state_dir, here):
            async with vitals.watched():
                yield OpenDoor(here, secret)
    finally:
        await door.stop()


def _health(node: Node) -> Health:
    status = "ok" if node.healthy else "the store does not answer"
    return Health(status=status, node_id=node.id, store_reachable=node.healthy, version=node.identity.version)


def door_of(app: ASGIApp, http: HttpSettings) -> HttpDoor:
    """Return the door, which is not open yet."""
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
    """Return the rights of jobs that come through the door of this process."""
    return Allowed(
        own_user=own_account().name,
        roots=frozenset({"root", *(each.pw_name for each in pwd.getpwall() if each.pw_uid == 0)}),
        users=settings.job_users,
        commands=settings.job_commands,
        hosts=settings.job_hosts,
    )
