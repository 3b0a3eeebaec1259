"""The stores of other schedulers, as the HTTP door takes what was read from them."""

from collections.abc import Iterable
from functools import partial
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
from tokimori.clock import Clock

if TYPE_CHECKING:
    from tokimori.translators.moving import Entry


def readers(clock: Clock) -> Readers:
    """What reads them; imported when it is first used."""
    return Readers(
        partial(_koyomi, clock),
        _perfectsched,
        _keiji,
        _systemd,
        partial(_kala, clock),
        _kojo,
        partial(_apscheduler, clock),
        partial(_celery, clock),
    )


def _koyomi(clock: Clock, said: KoyomiRequest) -> Read:
    from tokimori.translators.koyomi import Koyomi, read_koyomi  # noqa: PLC0415  few nodes need it

    koyomi = Koyomi(said.time_zone, said.prefix, clock.now())
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


def _kala(clock: Clock, said: KalaRequest) -> Read:
    from tokimori.node.kala_jobs import entries_of  # noqa: PLC0415
    from tokimori.translators.families import in_pages  # noqa: PLC0415

    found = entries_of(list(said.jobs.values()), clock.now())
    return _read(entry for page in in_pages(found) for entry in page)


def _kojo(said: KojoRequest) -> Read:
    from tokimori.translators.kojo import placed_jobs, placed_types, read_types, read_waiting  # noqa: PLC0415

    types = placed_types(said.kojo_job_type)
    return _read([*read_types(types, said.command), *read_waiting(placed_jobs(said.kojo_job), types, said.command)])


def _apscheduler(clock: Clock, said: ApschedulerRequest) -> Read:
    from tokimori.translators.apscheduler import from_base64, read_apscheduler  # noqa: PLC0415

    return _read(read_apscheduler(map(from_base64, said.rows), clock.now(), said.parameters))


def _celery(clock: Clock, said: CeleryRequest) -> Read:
    from tokimori.translators.celery import OTHERS, read_celery  # noqa: PLC0415

    others = {kind: getattr(said, kind) for kind in OTHERS}
    return _read(read_celery(said.periodictask, others, clock.now(), said.parameters))


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
