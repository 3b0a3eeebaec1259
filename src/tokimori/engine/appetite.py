"""Appetite: how many jobs a node reads at once. A definition may have half a megabyte: of large ones few are read."""

from collections.abc import Iterable

from tokimori.model.encoding import encode_definition
from tokimori.model.job import Job
from tokimori.ports.working import LARGE

FIRST, GROWTH = 50, 10
"""So many jobs are read at first, as nobody knows how large they are; and so many times more where they are small."""


class Appetite:
    """Number of jobs to read at once: more of small ones, `most` at most; of large ones as many as bring `LARGE`
    bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = min(FIRST, most)

    def note(self, jobs: Iterable[Job]) -> None:
        """Note the jobs that were read."""
        size = number = 0
        for number, job in enumerate(jobs, 1):
            size += len(encode_definition(job.definition))
            if size >= LARGE:
                self.limit = number
                return
        if number >= self.limit:
            self.limit = min(self._most, GROWTH * self.limit)
