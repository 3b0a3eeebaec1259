"""Families of jobs: related jobs are imported together, or not at all. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tokimori.translators.entries import Entry, Moved, Refused

MOST_TOGETHER = 1_000
"""Jobs of a page; a family may be larger."""


def in_pages(entries: Iterable[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield the entries in pages, families together; a job with a missing relative is refused."""
    found = list(entries)
    kept = {each.job_id: each for each in found if isinstance(each, Moved)}
    yield [each for each in found if not isinstance(each, Moved)] + list(_without_orphans(kept))
    page: list[Entry] = []
    for family in _families(kept):
        if page and len(page) + len(family) > MOST_TOGETHER:
            yield page
            page = []
        page += family
    yield page


def _without_orphans(kept: dict[str, Moved]) -> Iterator[Refused]:
    """Remove the jobs whose parents or failure jobs are missing, and their families."""
    bound: dict[str, list[Moved]] = {}
    for each in kept.values():
        for other in _bound_to(each):
            bound.setdefault(other, []).append(each)
    missing = deque(other for other in bound if other not in kept)
    while missing:
        other = missing.popleft()
        for each in bound.pop(other, ()):
            if kept.pop(each.job_id, None) is not None:
                yield Refused(each.place, f"it is bound to the job {other!r}, which does not come with it")
                missing.append(each.job_id)


def _bound_to(job: Moved) -> Iterator[str]:
    yield from (parent.job for parent in job.definition.parents)
    if job.definition.on_failure_job is not None:
        yield job.definition.on_failure_job


def _families(kept: Mapping[str, Moved]) -> Iterator[list[Moved]]:
    left = dict(kept)
    beside: dict[str, list[str]] = {job_id: [] for job_id in kept}
    for each in kept.values():
        for other in _bound_to(each):
            beside[each.job_id].append(other)
            beside[other].append(each.job_id)
    while left:
        family, edge = [], [next(iter(left))]
        while edge:
            if (found := left.pop(edge.pop(), None)) is not None:
                family.append(found)
                edge += beside[found.job_id]
        yield family
