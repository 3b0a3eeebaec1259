"""What the company has besides jobs, and what its people did lately."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from docs.pictures.company import FREQUENT, NOW
from tokimori.clock import HOUR, Moment
from tokimori.errors import TokimoriError
from tokimori.model.build import Manifest, digest_of, frozen, pieces_of
from tokimori.model.task import BuildRecord
from tokimori.service.service import Service

Acting = Callable[[str], Service]
Deed = Callable[[Acting], Awaitable[object]]

HOLIDAYS: Final = ("2026-01-01", "2026-04-03", "2026-04-06", "2026-05-01", "2026-05-14", "2026-05-25", "2026-10-03")


async def add_things(service: Service) -> None:
    """Add what jobs name, and what teams have."""
    await service.calendars.add("germany", dates=[*HOLIDAYS, "12-25", "12-26"], description="Bank holidays, by year")
    await service.calendars.add("weekends", weekdays=["sat", "sun"], description="Nobody is in the office")
    await service.semaphores.set("warehouse", 1)
    await service.semaphores.set("bank-api", 4, "20/1m")
    await service.queues.set("mail", "60/1m")
    await service.jobs.add("notifier:ops", command="/opt/chat/bin/post --channel ops", notifier={"bundle": "5m"})
    await service.jobs.add("notifier:finance", command="/opt/chat/bin/post --channel finance", notifier={})
    await service.tokens.create("data-team", "operate", queues=["etl"])
    await service.tokens.create("grafana", "read", expires="90d")
    await service.tokens.create("ci-deploy", "operate", jobs=["shop-", "search-"])
    await _build(service, "invoice-pdf", "every 6 hours")
    shop = {
        "shop-sitemap": {"command": "/opt/shop/bin/sitemap", "schedule": "0 5 * * *", "owner": "shop"},
        "shop-reviews": {"command": "/opt/shop/bin/reviews --since 1d", "schedule": "30 6 * * *", "owner": "shop"},
    }
    await service.sets.apply("shop", shop)  # type: ignore[arg-type]


async def change_early(acting: Acting) -> None:
    """Change a schedule before the job has ever run."""
    await acting("tom").jobs.update("etl-orders-load", schedule="*/20 * * * *")
    await acting("ana").jobs.update("etl-orders-load", schedule="*/15 * * * *", misfire="skip")


async def _build(service: Service, name: str, schedule: str) -> None:
    content = frozen({"function.py": b"def function():\n    print('three invoices')\n"}, Manifest(task=name))
    pieces, digest = pieces_of(content), digest_of(content)
    for number, piece in enumerate(pieces):
        await service.tasks.put_piece(name, digest, number, piece)
    await service.tasks.build(
        name, BuildRecord(digest=digest, size=len(content), pieces=len(pieces), schedule=schedule)
    )


def interfere() -> Iterator[tuple[Moment, Deed]]:
    """Yield what people did, with its moment, in the order of time."""
    yield Moment(FREQUENT + HOUR), _pause
    yield Moment(NOW - 30 * HOUR), _change
    yield Moment(NOW - 26 * HOUR), _expect
    yield Moment(NOW - 7 * HOUR), _publish


async def _pause(acting: Acting) -> None:
    for job_id in ("mail-suppression-sync", "search-synonyms", "shop-price-rules"):
        await acting("maria").jobs.pause(job_id, "supplier moves its servers")


async def _change(acting: Acting) -> None:
    ana = acting("ana")
    await ana.jobs.update("ml-recommend-train", labels={"gpu": "yes"})
    await acting("tom").jobs.update("etl-orders-load", timeout=600)
    await ana.runs.mute(
        "exit 1: ERROR smtp: # too many connections from this host", "7d", "the provider raises our limit"
    )
    await ana.jobs.update("report-sla", description="Asked for by the board: see page 4 of the minutes.")


async def _expect(acting: Acting) -> None:
    ana = acting("ana")
    await ana.expectations.set("nas-snapshot", "2d", description="The NAS in the cellar reports each night")
    await ana.expectations.ping("nas-snapshot")
    await ana.expectations.set("office-router", "1d", description="Backup of its configuration")
    await ana.channels.publish("orders", {"id": 81_442, "total": "59.90"})


async def _publish(acting: Acting) -> None:
    await acting("shop").channels.publish("orders", {"id": 81_443, "total": "12.50"})
    try:
        await acting("ana").secrets.set("BANK_TOKEN", "a picture shows no secret", jobs=["billing-payouts"])
    except TokimoriError:  # here is no key
        return
