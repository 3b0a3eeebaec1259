"""The formats of others, as the HTTP door takes and gives them: crontabs, Kubernetes' CronJobs, TOML."""

from collections.abc import Mapping, Sequence

from tokimori.api.exchange import CrontabRequest, Formats, KubernetesRequest, Named, Read
from tokimori.clock import Clock
from tokimori.model.job import Job
from tokimori.node.moving import readers

_TEXT = "text"
"""The name of what is read, in messages: it is no file."""


def formats(clock: Clock) -> Formats:
    """What reads and writes them; imported when it is first used."""
    return Formats(_read_crontab, _read_kubernetes, _write_crontab, _write_toml, readers(clock))


def _read_crontab(said: CrontabRequest) -> Read:
    from tokimori.translators.crontab import Crontab, read_crontab  # noqa: PLC0415  few nodes need it

    crontab = Crontab(
        file=_TEXT,
        zone=said.time_zone,
        owner=said.user or _TEXT,
        system=said.system,
        run_as=said.user,
        host=said.host,
    )
    return Read(read_crontab(said.text, crontab), {})


def _read_kubernetes(said: KubernetesRequest) -> Read:
    from tokimori.translators.kubernetes import read_manifest  # noqa: PLC0415

    found = read_manifest(said.text, file=_TEXT, zone=said.time_zone).jobs
    suspended = {job.job_id: "suspended in Kubernetes" for job in found if job.suspended}
    return Read([(job.job_id, job.definition) for job in found], suspended)


def _write_crontab(jobs: Sequence[Job], zone: str, system: bool) -> tuple[str, Mapping[str, str]]:
    from tokimori.translators.crontab_export import write_crontab  # noqa: PLC0415

    exported = write_crontab(jobs, zone=zone, system=system)
    return exported.text, exported.left_out


def _write_toml(jobs: Sequence[Mapping[str, object]], set_name: str | None, resources: Named) -> str:
    from tokimori.translators.toml_export import write_toml  # noqa: PLC0415

    return write_toml(jobs, set_name, resources)
