"""Places of a worker process: a run that waits for another one leaves it a place to run in."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from tokimori.errors import Refused

_MORE = "more places (app.concurrency); or a job that names the other one in `parents`"


class Places:
    """Places of a worker process.

    Runs that wait for other runs may hold all but one of them. The last place keeps each process able to begin the runs
    that are waited for.
    """

    def __init__(self, number: int, allowed: str = _MORE) -> None:
        self._number, self._allowed = number, allowed
        self._lock = Lock()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def waiting(self, run_id: str, *waits_for: str) -> Iterator[None]:
        """Count the run among those that wait, while the context lasts.

        Raises `Refused` for the last place, and for a run that waits for itself.
        """
        if run_id in waits_for:
            raise Refused(
                f"the run {run_id} can't wait for its own end",
                field="run",
                value=run_id,
                allowed="another run: `tokimori.current_task().run_id` is the one that is running",
            )
        with self._lock:
            if run_id not in self._waiting and len(self._waiting) + 1 >= self._number:
                raise Refused(
                    f"the run {run_id} can't wait for the run {waits_for[0]}, which may need the last free place of "
                    f"this worker process: runs that wait hold {len(self._waiting)} of {self._number}",
                    field="run",
                    value=waits_for[0],
                    allowed=self._allowed,
                )
            self._waiting[run_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting[run_id] -= 1
                if not self._waiting[run_id]:
                    del self._waiting[run_id]
