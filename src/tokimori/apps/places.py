"""Places of a worker process: a run that waits for another one leaves it a place to run in."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from tokimori.errors import Refused


class Places:
    """Places of a worker process.

    Runs that wait for other runs may hold all but one of them. The last place keeps each process able to begin the runs
    that are waited for.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = Lock()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def waiting(self, run_id: str, waits_for: str) -> Iterator[None]:
        """Count the run among those that wait, while the context lasts. Raises `Refused` for the last place."""
        with self._lock:
            if run_id not in self._waiting and len(self._waiting) + 1 >= self._number:
                raise Refused(
                    f"the run {run_id} can't wait for the run {waits_for}, which may need the last free place of this "
                    f"worker process: runs that wait hold {len(self._waiting)} of {self._number}",
                    field="run",
                    value=waits_for,
                    allowed="more places (app.concurrency); or a job that names the other one in `parents`",
                )
            self._waiting[run_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting[run_id] -= 1
                if not self._waiting[run_id]:
                    del self._waiting[run_id]
