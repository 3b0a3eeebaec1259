"""Jobs with the schedule `@reboot`, which run when a machine starts."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.ids import Lane
from tokimori.model.job import Job
from tokimori.model.lanes import lane_of
from tokimori.model.run import Run
from tokimori.ports.store import Jobs
from tokimori.schedules.schedule import Reboot
from tokimori.service.asking import all_jobs
from tokimori.service.jobs import JobService, schedule_for


async def trigger_reboot(
    store: Jobs, service: JobService, host: str, boot_id: str, serves: Callable[[Lane], bool]
) -> Sequence[Run]:
    """Ask for a run of every `@reboot` job whose lane the node of this host serves: once for each boot of a host."""
    runs: list[Run] = []
    async for job in all_jobs(store, idle=True):
        if _is_for_a_start(job) and serves(lane_of(job.definition)):
            with suppress(NotFound, Refused):  # deleted or paused meanwhile
                runs.append(await service.trigger(job.id, f"reboot:{host}:{boot_id}"))
    return runs


def _is_for_a_start(job: Job) -> bool:
    """Whether it runs when a machine starts. One in a zone that this machine does not know is left to others."""
    try:
        return isinstance(schedule_for(job), Reboot)
    except InvalidInput:
        return False
