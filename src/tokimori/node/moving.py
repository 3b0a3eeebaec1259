"""The stores of other schedulers, as the HTTP door takes what was read from them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tokimori.api.moving import (
    ApschedulerRequest,
    CeleryRequest,
    Found,
    KalaRequest,
    KeijiRequest,
    KojoRequest,
    KoyomiRequest,
    PerfectSchedRequest,
    Read,
    Readers,
    SystemdRequest,
)
from tokimori.clock import SystemClock

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry


def readers() -> Readers:
    """What reads them; imported when it is first used."""
    return Readers(_koyomi, _perfectsched, _keiji, _systemd, _kala, _kojo, _apscheduler, _celery)


def _koyomi(said: KoyomiRequest) -> Read:
    from tokimori.translators.koyomi import Koyomi, read_koyomi  # noqa: PLC0415  few nodes need it

    koyomi = Koyomi(said.time_zone, said.prefix, SystemClock().now())
    return _read(read_koyomi(said.jobs, said.job_times, said.semaphores, koyomi))


def _perfectsched(said: PerfectSchedRequest) -> Read:
    from tokimori.translators.perfectsched import PerfectSched, read_perfectsched  # noqa: PLC0415

    return _read(read_perfectsched(said.rows, PerfectSched(said.table, said.retry_wait)))


def _keiji(said: KeijiRequest) -> Read:
    from tokimori.translators.keiji import Keiji, read_keiji  # noqa: PLC0415

    return _read(read_keiji(said.task_models, Keiji(said.time_zone)))


def _systemd(said: SystemdRequest) -> Read:
    from tokimori.translators.systemd import Systemd, read_systemd  # noqa: PLC0415

    return _read(read_systemd(said.files, Systemd(said.time_zone, said.host, said.user)))


def _kala(said: KalaRequest) -> Read:
    from tokimori.node.kala_jobs import entries_of  # noqa: PLC0415
    from tokimori.translators.families import in_pages  # noqa: PLC0415

    return _read(entry for page in in_pages(entries_of(list(said.jobs.values()))) for entry in page)


def _kojo(said: KojoRequest) -> Read:
    from tokimori.translators.kojo import placed_jobs, placed_types, read_types, read_waiting  # noqa: PLC0415

    types = placed_types(said.kojo_job_type)
    return _read([*read_types(types, said.command), *read_waiting(placed_jobs(said.kojo_job), types, said.command)])


def _apscheduler(said: ApschedulerRequest) -> Read:
    from tokimori.translators.apscheduler import from_base64, read_apscheduler  # noqa: PLC0415

    return _read(read_apscheduler(map(from_base64, said.rows), SystemClock().now(), said.parameters))


def _celery(said: CeleryRequest) -> Read:
    from tokimori.translators.celery import OTHERS, read_celery  # noqa: PLC0415

    others = {kind: getattr(said, kind) for kind in OTHERS}
    return _read(read_celery(said.periodictask, others, SystemClock().now(), said.parameters))


def _read(entries: "Iterable[Entry]") -> Read:
    """The entries by what became of them. Of two with one id the second one is refused."""
    from tokimori.translators.moving import LeftOut, Moved, Refused, told_apart  # noqa: PLC0415

    found = list(told_apart(entries, {}))
    return Read(
        [
            Found(each.job_id, each.definition, each.start, each.runs_remaining, each.warnings)
            for each in found
            if isinstance(each, Moved)
        ],
        [each for each in found if isinstance(each, Refused)],
        [each for each in found if isinstance(each, LeftOut)],
    )
