"""Families of jobs: what runs after what, with the last outcome of each."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.errors import NotFound, Refused
from tokimori.model.dependents import Edge
from tokimori.model.expectation import Alarm
from tokimori.model.ids import JobId, RunId
from tokimori.model.run import Run
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.jobs.graph import around, how
from tokimori.service.runs.family_reading import MOST_RUNS, FamilyMember
from tokimori.web.addresses import path
from tokimori.web.families import ACROSS, DOWN, Node, families, is_slim, layers, picture
from tokimori.web.filters import words
from tokimori.web.job_rows import job_row, overdue
from tokimori.web.pictures import BARS, took
from tokimori.web.run_rows import LONGEST_SAID, whole_cause
from tokimori.web.screen import Screen, Shown
from tokimori.web.visit import Visit
from tokimori.web.words import distance, duration, short

MOST_NAMED: Final = 20
"""Number of jobs named around a chosen one."""
SHOWN, MOST_DRAWN = 10, 300
"""Number of families on a page, and of drawn edges of one: those nearest to its first job, if it has more."""
MOST_RELATED: Final = 30
"""Number of edges drawn around a run."""
MOST_FANNED: Final = 8
"""Number of these from one run, or to one: the picture stays about as high as a window."""
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
    """A family: its name, how it is drawn for a prefix of addresses, and the same as lines.

    `is_slim`: its picture goes down, and has room at the side of a page.
    """

    name: str
    jobs: int
    draw: Callable[[str], Markup]
    lines: Sequence[tuple[Node, str]]
    left_out: int
    is_slim: bool = False


async def show(visit: Visit) -> Shown:
    """Return the families in which the words of the filter are, the largest first."""
    edges, looked = await visit.service.jobs.graph(), words(visit)
    found = await asyncio.to_thread(families, edges)
    found = [each for each in found if _has(each, looked)]
    skipped = next((place for place, each in enumerate(found) if str(_first(each)) == visit.one("after")), -1) + 1
    page = [_few(each) for each in found[skipped : skipped + SHOWN]]
    late = await overdue(visit)
    nodes = await _nodes(visit, {end for few, _ in page for edge in few for end in (edge.parent, edge.child)}, late)
    rest = len(found) > skipped + SHOWN
    chosen = visit.one("job")
    nodes = {job: node._replace(to=visit.link(job=job), is_here=job == chosen) for job, node in nodes.items()}
    return {
        "families": [_family(few, left, nodes) for few, left in page],
        "side": None if chosen is None else await _side(visit, chosen, edges, late),
        "close": visit.link(job=None),
        "count": len(found),
        "jobs": len({end for each in found for edge in each for end in (edge.parent, edge.child)}),
        "more": visit.link(after=str(_first(found[skipped + SHOWN - 1]))) if rest else None,
        "first": visit.link(after=None) if visit.one("after") else None,
    }


async def _side(visit: Visit, chosen: str, edges: Sequence[Edge], late: Collection[JobId]) -> Mapping[str, object]:
    """Return the values of the panel of a job. Raises `NotFound`."""
    job = await visit.service.jobs.get(chosen)
    last = (await visit.service.runs.last([job.id], BARS, longest=LONGEST_SAID))[job.id]
    return {
        "job": job_row(visit, job, last, is_overdue=job.id in late),
        "last": last[0] if last else None,
        "ended": None if not last or last[0].ended is None else visit.time(last[0].ended, job.definition.time_zone),
        "cause": whole_cause(last[0]) if last and last[0].state is RunState.FAILED else "",
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


async def _nodes(visit: Visit, jobs: set[JobId], late: Mapping[JobId, Alarm]) -> Mapping[JobId, Node]:
    """Return each of these jobs with its newest run: when it ended, or since when the job is overdue."""
    ids, last = sorted(jobs), dict[JobId, Sequence[Run]]()
    for first in range(0, len(ids), 500):
        last |= await visit.service.runs.last(ids[first : first + 500], 1, longest=0)
    nodes = {job: _node(visit, job, next(iter(last.get(job, ())), None), path("jobs", job)) for job in ids}
    for job in late.keys() & nodes.keys():
        since = distance(visit.now, late[job].expected_by).removeprefix("in ")
        nodes[job] = nodes[job]._replace(word="overdue", tone="bad", sign="◷", more=f"for {since}")
    return nodes


async def family_of_job(visit: Visit, job_id: JobId) -> Family | None:
    """Return the jobs before and after a job, of many the nearest; None if there are none."""
    every = await visit.service.jobs.graph(job_id)
    edges = every if len(every) <= MOST_DRAWN else around(every, job_id, MOST_DRAWN)
    if not edges:
        return None
    nodes = dict(await _nodes(visit, {end for edge in edges for end in edge[:2]}, await overdue(visit)))
    nodes[job_id] = nodes[job_id]._replace(is_here=True)
    return _family(edges, len(every) - len(edges), nodes)


async def family_of(visit: Visit, run: Run) -> tuple[Family | None, Sequence[str]]:
    """Return the runs before and after a run, made and to come, of many the nearest; and the acts on all of them."""
    try:
        found = await visit.service.runs.family(run.id)
    except (NotFound, Refused):
        return None, ()
    every = [
        Edge(JobId(before), JobId(each.name), each.on, each.joins, each.job_id)
        for each in found
        for before in each.after
    ]
    few = _fanned(every, run.id, {each.name: each.state for each in found})
    edges = every if len(every) == len(few) <= MOST_RELATED else around(few, JobId(run.id), MOST_RELATED)
    if not any(JobId(run.id) in edge[:2] for edge in edges):  # a reader may see others of it alone
        return None, ()
    of_job = Counter(each.job_id for each in found)
    ends = {end for edge in edges for end in edge[:2]}
    members = [each for each in found if each.name in ends]
    nodes = {JobId(each.name): _member(visit, each, alone=of_job[each.job_id] == 1) for each in members}
    nodes[JobId(run.id)] = nodes[JobId(run.id)]._replace(is_here=True)
    live = any(each.run is not None and each.state not in ENDS for each in found)
    slim = is_slim(edges)
    family = _family(edges, len(every) - len(edges), nodes)
    draw = partial(picture, edges, nodes.__getitem__, way=DOWN if slim else ACROSS)
    names = dict(family.lines)
    spawned = {
        child: f"spawned by {nodes[JobId(each.name)].id}"
        for each in members
        if each.run is not None and each.run.details.spawned is not None
        for child in each.run.details.spawned.ids(each.run.id, 0, MOST_RUNS)
    }
    lines = [(node, spawned.get(RunId(name), names[node] and f"after {names[node]}")) for name, node in nodes.items()]
    return family._replace(draw=draw, lines=lines, is_slim=slim), (
        "runs.cancel_family" if live else "runs.retry_family",
    )


def _fanned(edges: Sequence[Edge], here: RunId, states: Mapping[str, RunState]) -> Sequence[Edge]:
    """Return the edges; of a run with many children or parents only some: those of failed and live runs first."""

    def rank(state: RunState | None) -> int:
        """Return 0 for a failed run, 1 for a live one, and 2 for others that have ended."""
        if state is RunState.FAILED:
            return 0
        return 2 if state in ENDS else 1

    def order(edge: Edge) -> tuple[bool, int, Edge]:
        return JobId(here) not in edge[:2], sum(rank(states.get(end)) for end in edge[:2]), edge

    seen, kept = Counter[tuple[JobId, bool]](), list[Edge]()
    for edge in sorted(edges, key=order):
        if max(seen[edge.parent, True], seen[edge.child, False]) < MOST_FANNED:
            seen.update(((edge.parent, True), (edge.child, False)))
            kept.append(edge)
    return kept


def _member(visit: Visit, each: FamilyMember, *, alone: bool) -> Node:
    if each.run is None:
        word = "not made" if each.state in ENDS else "not made yet"
        return Node(each.job_id, path("jobs", each.job_id), word, "q", "◌", "")
    name = each.job_id if alone else JobId(f"{each.job_id} {short(each.name)}")
    node, length = _node(visit, name, each.run, path("runs", each.name)), took(each.run)
    return node if length is None or each.run.state is not RunState.SUCCEEDED else node._replace(more=duration(length))


def _node(visit: Visit, job: JobId, run: Run | None, to: str) -> Node:
    if run is None:
        return Node(job, to, "no run yet", "q", "◌", "")
    tone, sign = SIGNS.get(run.state, ("q", "◌"))
    at = run.ended or run.started or run.due
    is_open = run.state not in ENDS and at <= visit.now
    more = f"for {duration(visit.now - at)}" if is_open else distance(at, visit.now)
    return Node(job, to, run.state.value, tone, sign, more)


def _family(edges: Sequence[Edge], left_out: int, nodes: Mapping[JobId, Node]) -> Family:
    after: dict[JobId, list[str]] = {}
    for edge in sorted(edges):
        after.setdefault(edge.parent, [])
        after.setdefault(edge.child, []).append(f"{nodes[edge.parent].id} {how(edge)}")
    in_order = [job for column in layers(edges) for job in column if job in after]
    lines = [(nodes[job], ", ".join(after[job])) for job in in_order]
    first = nodes[_first(edges)].id
    name = f"{first} and {len(after) - 1} related" if len(after) > 1 else first
    return Family(name, len(after), partial(picture, edges, nodes.__getitem__), lines, left_out)


SCREENS: Final = (Screen("/graph", "graph", "graph.html", show, leads=True),)
