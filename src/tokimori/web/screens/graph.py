"""Families of jobs: what runs after what, with the last outcome of each."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.clock import DAY, SECOND, Moment
from tokimori.errors import NotFound, Refused
from tokimori.model.dependents import Edge, root_of
from tokimori.model.ids import JobId
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.graph import around, how
from tokimori.web.addresses import path
from tokimori.web.families import Node, families, picture
from tokimori.web.filters import words
from tokimori.web.job_rows import job_row
from tokimori.web.pictures import BARS, took
from tokimori.web.run_rows import LONGEST_SAID, cause
from tokimori.web.screen import Screen, Shown
from tokimori.web.visit import Visit
from tokimori.web.words import distance, duration

MOST_NAMED: Final = 20
"""So many jobs around a chosen one are named."""
SHOWN, MOST_DRAWN = 10, 300
"""So many families on a page, and so many edges of one that are drawn: of more those nearest to its first job."""
MOST_RELATED, MOST_LOOKED = 30, 100
"""So many edges are drawn around a run, and among so many runs of a job its relative is looked for."""
SIGNS: Final = {
    RunState.SUCCEEDED: ("green", "✓"),
    RunState.FAILED: ("bad", "!"),
    RunState.RUNNING: ("busy", "▸"),
    RunState.BLOCKED: ("amber", "⊘"),
    RunState.HELD: ("violet", "◆"),
    RunState.SKIPPED: ("q", "»"),
    RunState.CANCELLED: ("q", "×"),
    RunState.READY: ("q", "○"),
}


class Family(NamedTuple):
    """A family: its name, how it is drawn for a prefix of addresses, and the same as lines."""

    name: str
    jobs: int
    draw: Callable[[str], Markup]
    lines: Sequence[tuple[Node, str]]
    left_out: int


async def show(visit: Visit) -> Shown:
    """Return the families in which the words of the filter are, the largest first."""
    edges, looked = await visit.service.jobs.graph(), words(visit)
    found = await asyncio.to_thread(families, edges)
    found = [each for each in found if _has(each, looked)]
    skipped = next((place for place, each in enumerate(found) if str(_first(each)) == visit.one("after")), -1) + 1
    page = [_few(each) for each in found[skipped : skipped + SHOWN]]
    nodes = await _nodes(visit, {end for few, _ in page for edge in few for end in (edge.parent, edge.child)})
    rest = len(found) > skipped + SHOWN
    chosen = visit.one("job")
    nodes = {job: node._replace(to=visit.link(job=job), is_here=job == chosen) for job, node in nodes.items()}
    return {
        "families": [_family(few, left, nodes) for few, left in page],
        "side": None if chosen is None else await _side(visit, chosen, edges),
        "close": visit.link(job=None),
        "count": len(found),
        "jobs": len({end for each in found for edge in each for end in (edge.parent, edge.child)}),
        "more": visit.link(after=str(_first(found[skipped + SHOWN - 1]))) if rest else None,
        "first": visit.link(after=None) if visit.one("after") else None,
    }


async def _side(visit: Visit, chosen: str, edges: Sequence[Edge]) -> Mapping[str, object]:
    """Return what the panel beside the graph says of a job. Raises `NotFound`."""
    job = await visit.service.jobs.get(chosen)
    last = (await visit.service.runs.last([job.id], BARS, longest=LONGEST_SAID))[job.id]
    return {
        "job": job_row(visit, job, last, is_overdue=False),
        "last": last[0] if last else None,
        "ended": None if not last or last[0].ended is None else visit.time(last[0].ended, job.definition.time_zone),
        "cause": cause(last[0]) if last and last[0].state is RunState.FAILED else "",
        "before": [edge.parent for edge in edges if edge.child == job.id][:MOST_NAMED],
        "after": [edge.child for edge in edges if edge.parent == job.id][:MOST_NAMED],
    }


def _has(edges: Sequence[Edge], looked: Sequence[str]) -> bool:
    names = {end.casefold() for edge in edges for end in (edge.parent, edge.child)} if looked else set()
    return not looked or any(all(word in name for word in looked) for name in names)


def _first(edges: Sequence[Edge]) -> JobId:
    """Return the first job that runs after none."""
    return min({edge.parent for edge in edges} - {edge.child for edge in edges}, default=edges[0].parent)


def _few(edges: Sequence[Edge]) -> tuple[Sequence[Edge], int]:
    few = edges if len(edges) <= MOST_DRAWN else around(edges, _first(edges), MOST_DRAWN)
    return few, len(edges) - len(few)


async def _nodes(visit: Visit, jobs: set[JobId]) -> Mapping[JobId, Node]:
    """Return each of these jobs with its newest run."""
    ids, last = sorted(jobs), dict[JobId, Sequence[Run]]()
    for first in range(0, len(ids), 500):
        last |= await visit.service.runs.last(ids[first : first + 500], 1, longest=0)
    return {job: _node(visit, job, next(iter(last.get(job, ())), None), path("jobs", job)) for job in ids}


async def family_of(visit: Visit, run: Run) -> Family | None:
    """Return the runs before and after a run: those of one root, of the jobs that are nearest to its own."""
    try:
        edges = around(await visit.service.jobs.graph(run.job_id), run.job_id, MOST_RELATED)
    except (NotFound, Refused):
        return None
    known = {run.job_id: run}
    for is_up in (True, False):
        for each in (line := [run]):
            for edge in edges:
                here, there = (edge.child, edge.parent) if is_up else (edge.parent, edge.child)
                if here == each.job_id and there not in known and (found := await _related(visit, each, there, is_up)):
                    known[there] = found
                    line.append(found)
    nodes = {job: _node(visit, job, known.get(job), _to_run(known.get(job), job)) for edge in edges for job in edge[:2]}
    if not edges:
        return None
    word = "not made" if run.state in ENDS else "not made yet"
    nodes = {job: node if job in known else node._replace(word=word) for job, node in nodes.items()}
    return _family(edges, 0, {**nodes, run.job_id: nodes[run.job_id]._replace(is_here=True)})


async def _related(visit: Visit, run: Run, job: JobId, is_up: bool) -> Run | None:
    """Return the run of this job from which a run came, or to which its end led."""
    if not is_up and run.ended is None:
        return None
    end = run.ended or run.created
    since, until = Moment(0 if is_up else end - SECOND), Moment(run.created + SECOND if is_up else end + DAY)
    found = await visit.service.runs.list(job_id=job, since=since, until=until, limit=MOST_LOOKED, longest=0)
    mine = [each for each in found if root_of(each) == root_of(run)]
    return next((each for each in mine if run.id == each.parent_id or each.id == run.parent_id), next(iter(mine), None))


def _to_run(run: Run | None, job: JobId) -> str | None:
    return path("jobs", job) if run is None else path("runs", run.id)


def _node(visit: Visit, job: JobId, run: Run | None, to: str | None) -> Node:
    if run is None:
        return Node(job, to, "no run yet", "q", "◌", "")
    tone, sign = SIGNS.get(run.state, ("q", "◌"))
    length, at = took(run), run.ended or run.started or run.due
    is_good = length is not None and run.state is RunState.SUCCEEDED
    return Node(job, to, run.state.value, tone, sign, duration(length or 0) if is_good else distance(at, visit.now))


def _family(edges: Sequence[Edge], left_out: int, nodes: Mapping[JobId, Node]) -> Family:
    after: dict[JobId, list[str]] = {}
    for edge in sorted(edges):
        after.setdefault(edge.parent, [])
        after.setdefault(edge.child, []).append(f"{edge.parent} {how(edge)}")
    in_order = sorted(after.items(), key=lambda each: (bool(each[1]), each))
    lines = [(nodes[job], ", ".join(said)) for job, said in in_order]
    name = f"{_first(edges)} and {len(after) - 1} related" if len(after) > 1 else str(_first(edges))
    return Family(name, len(after), partial(picture, edges, nodes.__getitem__), lines, left_out)


SCREENS: Final = (Screen("/graph", "graph", "graph.html", show, leads=True),)
