"""Families of jobs as layered graphs: which are together, where each job stands, and the picture. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId
from tokimori.web.words import written

WIDE, HIGH, STEP, ROW, TOP = 178, 42, 208, 56, 24
"""Sizes of a node, how far columns (four fit 1,024 pixels) and rows are apart, and the place of a family's name."""
MOST_LETTERS: Final = 24
MOST_PASSED: Final = 6
"""An edge over more columns goes straight."""


class Node(NamedTuple):
    """A job as the picture shows it: where it leads, a word, a tone and a sign of its last outcome, and more of it.

    `is_here`: the page is about it.
    """

    id: JobId
    to: str | None
    word: str
    tone: str
    sign: str
    more: str
    is_here: bool = False


def families(edges: Sequence[Edge]) -> Sequence[Sequence[Edge]]:
    """Return the edges of each family, of jobs that are connected: the largest first."""
    head: dict[JobId, JobId] = {}

    def of(job: JobId) -> JobId:
        while head.setdefault(job, job) != job:
            head[job] = head[head[job]]
            job = head[job]
        return job

    for edge in edges:
        head[of(edge.parent)] = of(edge.child)
    found: dict[JobId, list[Edge]] = {}
    for edge in edges:
        found.setdefault(of(edge.parent), []).append(edge)
    return sorted(found.values(), key=lambda each: (-len(each), min(each)))


def layers(edges: Sequence[Edge]) -> Sequence[Sequence[JobId]]:
    """Return the jobs of a family in columns: each behind all of its parents, and near to them.

    Names of several lines are places that an edge to a later column passes.
    """
    parents: dict[JobId, list[JobId]] = {}
    children: dict[JobId, list[JobId]] = {}
    for parent, child in dict.fromkeys((edge.parent, edge.child) for edge in sorted(edges)):
        parents.setdefault(child, []).append(parent)
        children.setdefault(parent, []).append(child)
    jobs = sorted({*parents, *children})
    left = {job: len(parents.get(job, ())) for job in jobs}
    between: dict[JobId, list[JobId]] = {}
    ready, depth = [job for job in jobs if not left[job]], dict.fromkeys(jobs, 0)
    while ready:
        job = ready.pop()
        for child in children.get(job, ()):
            depth[child] = max(depth[child], depth[job] + 1)
            left[child] -= 1
            ready += [child] if not left[child] else []
    columns: list[list[JobId]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for child, before in parents.items():
        for number, parent in enumerate(before):
            passed = _passed(parent, child, depth[parent], depth[child])
            for where, spot in enumerate(passed, depth[parent] + 1):
                columns[where].append(spot)
            between |= {spot: [near_to] for near_to, spot in pairwise((parent, *passed))}
            before[number] = passed[-1] if passed else parent
    parents |= between
    for job in jobs:
        columns[depth[job]].append(job)
    place: dict[JobId, float] = {}
    for column in columns:
        near: dict[JobId, float] = {}
        for job in column:
            above = [place[each] for each in parents.get(job, ()) if each in place]
            near[job] = sum(above) / len(above) if above else 0.0
        column.sort(key=lambda job: (near[job], job))
        place |= {job: row - (len(column) - 1) / 2 for row, job in enumerate(column)}
    return columns


def _passed(parent: JobId, child: JobId, first: int, last: int) -> Sequence[JobId]:
    """Return the names of the places that an edge passes between two columns; none if these are far from each other."""
    far = last - first
    return [JobId(f"{parent}\n{child}\n{number}") for number in range(1, far)] if far <= MOST_PASSED else []


def picture(edges: Sequence[Edge], node_of: Callable[[JobId], Node], root: str) -> Markup:
    """Return a family from left to right. Edges that were not taken are dotted; addresses begin with `root`."""
    columns = layers(edges)
    most = max(len(column) for column in columns)
    wide, high = STEP * (len(columns) - 1) + WIDE + 4, ROW * most + 4
    spots = {
        job: (STEP * x, round(2 + ROW * (row + (most - len(column)) / 2) + (ROW - HIGH) / 2))
        for x, column in enumerate(columns)
        for row, job in enumerate(column)
    }
    drawn = [*_edges(edges, spots, node_of)]
    jobs = [job for column in columns for job in column if "\n" not in job]
    drawn += [_node(node_of(job), spots[job], root) for job in jobs]
    label = f"{len(jobs)} jobs, from {node_of(columns[0][0]).id}"
    return Markup(  # noqa: S704  numbers, and texts that are escaped
        f'<svg width="{wide}" height="{high}" role="group" aria-label="{written(label)}">{"".join(drawn)}</svg>'
    )


def _edges(
    edges: Sequence[Edge], spots: Mapping[JobId, tuple[int, int]], node_of: Callable[[JobId], Node]
) -> Iterator[str]:
    for edge in sorted(edges):
        (left, above), (right, below) = spots[edge.parent], spots[edge.child]
        x, y, to, end = left + WIDE, above + HIGH // 2, right - 4, below + HIGH // 2
        tone, is_made = node_of(edge.parent).tone, (node_of(edge.child).to or "").startswith("/runs/")
        leads_on = {"success": tone == "green", "failure": tone == "bad"}.get(edge.on.value, tone in ("green", "bad"))
        passed = _passed(edge.parent, edge.child, left // STEP, right // STEP)
        says = f"<title>{written(f'{node_of(edge.child).id} after {node_of(edge.parent).id}, on {edge.on}')}</title>"
        way, at = f"M{x} {y}", (x, y)
        for over, down in [spots[each] for each in passed]:
            way += f"{_curve(at, (over, down + HIGH // 2))}h{WIDE}"
            at = (over + WIDE, down + HIGH // 2)
        way += _curve(at, (to, end))
        yield f'<path class="s q{"" if is_made or leads_on else " dash"}" d="{way}">{says}</path>'
        yield f'<path class="f q" d="M{right} {end}l-6-3.5v7z"/>'
        if edge.on.value != "success":
            yield f'<text class="e halo" x="{right - 8}" y="{end - 6}">on {written(edge.on.value)}</text>'


def _curve(at: tuple[int, int], to: tuple[int, int]) -> str:
    middle = (at[0] + to[0]) / 2
    return f"C{middle} {at[1]} {middle} {to[1]} {to[0]} {to[1]}"


def _node(node: Node, spot: tuple[int, int], root: str) -> str:
    x, y = spot
    name = node.id if len(node.id) <= MOST_LETTERS else f"{node.id[: MOST_LETTERS - 1]}…"
    tone = "" if node.tone == "q" else f"{node.tone} t"
    texts = (
        f'<rect class="node{" sel" if node.is_here else ""}" x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6"/>'
        f'<rect class="f {node.tone}" x="{x}" y="{y}" width="4" height="{HIGH}" rx="2"/>'
        f'<text class="k" x="{x + 13}" y="{y + 17}">{written(name)}</text>'
        f'<text class="{tone}" x="{x + 13}" y="{y + 33}">{node.sign} {written(node.word)}'
        f'<tspan class="sub"> {written(node.more)}</tspan></text>'
    )
    title = f"<title>{written(f'{node.id}: {node.word} {node.more}'.strip())}</title>"
    inner = f"{title}{texts}"
    if node.to is None:
        return f"<g>{inner}</g>"
    soft = " data-soft" if "?" in node.to else ""  # it stays on this screen
    return f'<a{soft} href="{written(root + node.to)}">{inner}</a>'
