"""Completion of a command line by a shell: ids of the store, and zones."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from tokimori.cli.session import in_service
from tokimori.errors import TokimoriError

if TYPE_CHECKING:
    from tokimori.service.service import Service

_MOST = 100


def job_ids(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of jobs that begin so."""

    async def act(service: "Service") -> Sequence[str]:
        return [job.id for job in await service.jobs.list(prefix=incomplete or None, limit=_MOST)]

    return _found(act)


def run_ids(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of the newest runs that begin so."""

    async def act(service: "Service") -> Sequence[str]:
        found = await service.runs.list(limit=_MOST, longest=0)
        return [run.id for run in found if run.id.startswith(incomplete)]

    return _found(act)


def zones(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return names of time zones that begin so, in any case."""
    from zoneinfo import available_timezones

    return sorted(name for name in available_timezones() if name.lower().startswith(incomplete.lower()))


def _found(act: Callable[["Service"], Awaitable[Sequence[str]]]) -> list[str]:
    """Return the names that `act` finds; none if the store does not answer, since a shell shows no errors."""
    try:
        return list(in_service(act))
    except TokimoriError:
        return []
