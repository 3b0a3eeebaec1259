"""The jobs of an app: another app of the same store may have one of the same id, and its runs are that one's code."""

from collections.abc import Callable
from contextlib import suppress

from tokimori.client.asynchronous import Way
from tokimori.errors import NotFound, Refused


class OwnJobs:
    """Jobs of an app, each of which is looked at once before its first run is requested here.

    `function_of` says under which name workers know the function of a job of the app.
    """

    def __init__(self, function_of: Callable[[str], str]) -> None:
        self._function_of = function_of
        self._met: set[str] = set()

    async def meet(self, way: Way, job_id: str) -> None:
        """Check that the job is not another app's. Raises `Refused`. One that is not in the store yet is met later."""
        if job_id in self._met:
            return
        with suppress(NotFound):
            job = await way(lambda client: client.jobs.get(job_id))
            if job.function is not None and job.function != self._function_of(job_id):
                _check_other(job_id, job.function)
            self._met.add(job_id)


def _check_other(job_id: str, function: str) -> None:
    """Refuse the form in which apps name the functions of their jobs; any other one was given by hand."""
    app = function.removesuffix(f".{job_id}")
    if app != function:
        message = f"the job {job_id!r} is that of the app {app!r}, whose code its runs carry out: nothing was requested"
        allowed = f"another id (@app.job(id=…)), or `tokimori job delete {job_id}` if the app {app} is gone"
        raise Refused(message, field="id", value=job_id, allowed=allowed)
