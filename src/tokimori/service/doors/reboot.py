"""Jobs with the schedule `@reboot`, which run when a machine starts."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from tokimori.clock import SECOND
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.ids import Lane
from tokimori.model.job import Job
from tokimori.model.lanes import lane_of
from tokimori.model.policies import Misfire
from tokimori.model.run import Run
from tokimori.ports.store import Jobs
from tokimori.schedules.schedule import Reboot
from tokimori.service.jobs.writer import schedule_for
from tokimori.service.service import Service
from tokimori.service.store_calls import all_jobs


async def trigger_reboot(
    store: Jobs, service: Service, host: str, boot_id: str, serves: Callable[[Lane], bool], *, up: float = 0
) -> Sequence[Run]:
    """Trigger every `@reboot` job whose lane the node of this host serves, once for each boot of a host.

    `up`: seconds since the boot. A job that skips missed occurrences waits for the first boot after it was added, as
    does one imported from cron.
    """
    runs: list[Run] = []
    booted = await service.db.now() - int(up * SECOND)
    async for job in all_jobs(store, idle=True):
        is_late = job.created > booted and job.definition.misfire is Misfire.SKIP
        if not is_late and _is_for_a_start(job) and serves(lane_of(job.definition)):
            with suppress(NotFound, Refused):  # deleted or paused meanwhile
                runs.append(await service.jobs.trigger(job.id, f"reboot:{host}:{boot_id}"))
    return runs


def _is_for_a_start(job: Job) -> bool:
    """Return whether the job runs when a machine starts. A job whose zone is unknown here is left to other nodes."""
    try:
        return isinstance(schedule_for(job), Reboot)
    except InvalidInput:
        return False
