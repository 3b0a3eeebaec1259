"""What a blocked run waits for, in words."""

from tokimori.model.run import Run
from tokimori.model.semaphores import KEY_LINE, semaphore_of
from tokimori.model.transitions import RunState


def waits_for(run: Run) -> str | None:
    """In whose line a blocked run stands, in words; None for any other."""
    if run.state is not RunState.BLOCKED:
        return None
    semaphore = semaphore_of(run.blocked_on)
    if semaphore is not None:
        return f"units of the semaphore {semaphore}"
    if run.blocked_on == KEY_LINE:
        return f"a run of the key {run.concurrency_key!r} to end: as many run as max_running_per_key allows"
    return "a run of its job to end: as many run as max_running allows"
