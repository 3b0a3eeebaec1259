"""HTTP door of a node: its guards and its opening. A node without one loads nothing of it."""

import logging
import os
import pwd
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

from starlette.types import ASGIApp

from tokimori.api.access_log import AccessLog
from tokimori.api.app import Health, create_app
from tokimori.api.connections import Limits, most_connections
from tokimori.api.exchange import Formats
from tokimori.api.guards import Lenient
from tokimori.api.request_service import Acting, author_said
from tokimori.api.server import HttpDoor, is_loopback
from tokimori.api.tls import followed, tls_context
from tokimori.client.recording import who
from tokimori.clock import Clock
from tokimori.config.http import HttpSettings
from tokimori.config.settings import Settings
from tokimori.errors import Refused
from tokimori.executors.facts import own_account
from tokimori.executors.http.callbacks import Callbacks
from tokimori.foreign.kala.routes import kala_routes
from tokimori.foreign.kala.shapes import PREFIX as KALAS
from tokimori.formats.door import ImportPaths
from tokimori.metrics import Metrics
from tokimori.model.job import Job
from tokimori.model.rate import parse_rate
from tokimori.node.node import Node
from tokimori.node.open_doors import door_lines, noted_door
from tokimori.node.secret_file import DoorSecret
from tokimori.node.vitals import vitals_of
from tokimori.ports.store import Store
from tokimori.service.claims.place import ClaimPlace
from tokimori.service.doors.job_restrictions import JobRestrictions
from tokimori.service.schema import DoorOnDemand, StoreOnDemand
from tokimori.service.service import Service
from tokimori.web.page import Page
from tokimori.web.visit import Doubts


class ServiceOf(Protocol):
    """Makes the service of a door, with a place where workers claim."""

    def __call__(self, store: Store, semaphores: StoreOnDemand | None, /, *, place: ClaimPlace | None) -> Service:
        """Return the service."""
        ...


def formats(clock: Clock) -> Formats:
    """Return the foreign formats; most of them are imported at their first use."""
    return Formats(_write_crontab, lambda service: ImportPaths(service, clock).operations())


def _write_crontab(jobs: Sequence[Job], zone: str, system: bool) -> tuple[str, Mapping[str, str]]:
    from tokimori.translators.crontab_export import write_crontab  # noqa: PLC0415  few nodes need it

    exported = write_crontab(jobs, zone=zone, system=system)
    return exported.text, exported.left_out


log = logging.getLogger(__name__)


def check_open(interface: str, user: int) -> None:
    """Check that a door without a secret may open: on the loopback alone, and not for root. Raises `Refused`.

    `user` is the number of the OS user as which the node runs.
    """
    if user == 0:
        raise Refused(
            "http.v1_open: this node runs as root, and every user of the machine would give orders to root: start it as"
            " another user, or remove `v1_open` from the settings; programs then send the secret",
            field="http.v1_open",
            value=True,
            allowed="false, or a node of a user that is not root",
        )
    if not is_loopback(interface):
        raise Refused(
            f"http.v1_open: other machines reach {interface}, and could run commands here: listen on 127.0.0.1, or"
            " remove `v1_open` from the settings; programs then send the secret",
            field="http.v1_open",
            value=True,
            allowed="false, or an interface of the loopback such as 127.0.0.1",
        )
    log.warning("http.v1_open: every user of this machine may run commands by /api/v1/ as the user of this node")


class OpenDoor(NamedTuple):
    """Address of an open door, and the secret for it."""

    address: str
    secret: str

    def announcement(self, *, with_secret: bool) -> Sequence[str]:
        """Return the lines about it for the user who started the node."""
        return door_lines(self.address, self.secret, with_secret=with_secret)


@asynccontextmanager
async def http_door(
    node: Node,
    store: Store,
    semaphores: StoreOnDemand | None,
    settings: Settings,
    clock: Clock,
    *,
    service_of: ServiceOf,
    callbacks: Callbacks,
    metrics: Metrics,
    place: ClaimPlace | None = None,
) -> AsyncIterator[OpenDoor]:
    """Yield the open door of a node. It stays open while the node drains, so that `why` is answered.

    Its requests use connections of their own, so the node never waits for them: `service_of` makes their service.
    """
    doors = await store.for_doors()
    service = service_of(doors, None if semaphores is None else DoorOnDemand(semaphores), place=place)
    vitals, author_of = vitals_of(node, doors, service, settings, clock), author_said(who(None))
    http, secrets = settings.http, DoorSecret(settings.http, settings.state_dir, clock)
    people = Acting(service, author_of)
    page = _page(people, clock, http, secrets, lambda: Doubts(vitals.causes, store.faults()))
    kala = Acting(service, lambda _: "kala", allowed=allowed_by(http))
    if http.v1_open:
        check_open(http.interface, os.geteuid())
    app = create_app(
        service,
        clock,
        interface=http.interface,
        secret=secrets,
        author_of=author_of,
        health=lambda: _health(node),
        unready=lambda: vitals.unready,
        pages=[*page.routes(), *kala_routes(kala.service, http.v1_default_owner)],
        lost=page.lost,
        closed=page.closed,
        host_name=node.identity.host,
        public_url=http.public_url,
        accept=callbacks.accept,
        guests=callbacks.guests.bearer,
        formats=formats(clock),
        figures=lambda figures: metrics.text(figures, node.lease_left, vitals.broken, node.identity.blocking),
        allowed=allowed_by(http),
        rate=None if http.rate is None else parse_rate(http.rate, field="http.rate"),
        path_prefix=http.path_prefix or "",
        streams=http.streams,
        lenient=Lenient(open=(KALAS,) if http.v1_open else (), nameless=(KALAS,)),
    )
    door = door_of(AccessLog(app, clock) if http.access_log else app, http)
    await door.start()
    here, node.address = (http.below_prefix(each) for each in (door.url, http.public_url or door.url))
    callbacks.guests.open(here)
    callbacks.open(node.address, secrets()[0])
    try:
        with noted_door(settings.state_dir, here):
            async with vitals.watched(), followed(door.tls, http.tls_cert, http.tls_key):
                yield OpenDoor(here, secrets()[0])
    finally:
        await door.stop()


def _page(people: Acting, clock: Clock, http: HttpSettings, secrets: DoorSecret, doubts: Callable[[], Doubts]) -> Page:
    prefix = http.path_prefix or ""
    return Page(people.service, clock, prefix, access_for=people.access, key=lambda: secrets()[0], doubts=doubts)


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


def allowed_by(settings: HttpSettings) -> JobRestrictions:
    """Return the rights of jobs that come through the door of this process."""
    return JobRestrictions(
        own_user=own_account().name,
        roots=frozenset({"root", *(each.pw_name for each in pwd.getpwall() if each.pw_uid == 0)}),
        users=settings.job_users,
        commands=settings.job_commands,
        hosts=settings.job_hosts,
    )
