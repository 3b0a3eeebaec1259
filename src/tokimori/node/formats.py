"""Foreign formats, as the HTTP door takes and gives them."""

from collections.abc import Mapping, Sequence

from tokimori.api.exchange import Formats, Named
from tokimori.clock import Clock
from tokimori.formats.door import ImportPaths
from tokimori.model.job import Job


def formats(clock: Clock) -> Formats:
    """Return what reads and writes them; most of it is imported when it is first used."""
    return Formats(_write_crontab, _write_toml, lambda service: ImportPaths(service, clock).operations())


def _write_crontab(jobs: Sequence[Job], zone: str, system: bool) -> tuple[str, Mapping[str, str]]:
    from tokimori.translators.crontab_export import write_crontab  # noqa: PLC0415  few nodes need it

    exported = write_crontab(jobs, zone=zone, system=system)
    return exported.text, exported.left_out


def _write_toml(jobs: Sequence[Mapping[str, object]], set_name: str | None, resources: Named) -> str:
    from tokimori.translators.toml_export import write_toml  # noqa: PLC0415

    return write_toml(jobs, set_name, resources)
