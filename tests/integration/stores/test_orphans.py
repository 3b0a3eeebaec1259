"""Runs that programs add in transactions of their own to a job that is deleted before these end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.stores.actors import NOW, a_request, add_job, later
from tests.contract.stores.conftest import STORES, forget
from tests.integration.client.shops import Shop, by_psycopg, by_pymysql
from tests.servers import mariadb, postgres
from tokimori.client.transactions import add_within
from tokimori.model.transitions import RunState

SHOPS: dict[str, tuple[Callable[[str], Shop], Callable[[Path], str], str]] = {
    "postgres": (by_psycopg, postgres.loans.url_of, "'{}'"),
    "mariadb": (by_pymysql, mariadb.loans.url_of, "'[]'"),
}
"""A program, where the store is, and how it writes that there are no names."""


@pytest.mark.parametrize("kind", SHOPS)
async def test_an_orphan_behind_a_move_ends_too(kind: str, tmp_path: Path) -> None:
    """The runs of a deleted job have been cancelled up to some origin when one comes that is before it."""
    store: Any = STORES[kind](tmp_path)
    await store.open()
    await store.migrate()
    by, url_of, nothing = SHOPS[kind]
    shop, job = by(url_of(tmp_path)), await add_job(store)
    shop.execute("SELECT 1 FROM tokimori_jobs")
    run = replace(a_request(job), state=RunState.WAITING, lane=None)
    assert add_within(shop.connection, run, await store.outside()) == run.id
    await store.delete_job(job.id, NOW)
    shop.execute(
        "INSERT INTO tokimori_moves (incarnation, origin, woken, names, reason, since) "
        f"VALUES ({job.incarnation}, 'z', 0, {nothing}, 'the job was deleted', 0)"
    )
    shop.commit()
    shop.close()
    assert await store.promote(later(2), 10) == 1
    await store.finish_moves()
    assert (await store.get_run(run.id)).state is RunState.CANCELLED
    await store.close()
    forget(kind, tmp_path)
