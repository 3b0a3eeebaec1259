"""Families of jobs as layered graphs: which are together, where each job stands, and the picture. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from markupsafe import Markup

from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId
from tokimori.spelling import amount
from tokimori.web.words import written

HIGH, ROW = 42, 56
"""The height of a node, and how far rows are apart."""
MOST_ABREAST: Final = 2
"""Number of jobs that have room beside each other in a narrow column."""
MOST_PASSED: Final = 6
"""An edge over more columns goes straight."""


class Way(NamedTuple):
    """The direction of a picture: how wide a node is, its letters, and how far a node is from the next one."""

    down: bool
    wide: int
    letters: int
    step: int

    def spot(self, layer: int, row: float) -> tuple[int, int]:
        """Return the place of a node: `row` counts within its layer."""
        if self.down:
            return round((self.wide + 12) * row), self.step * layer + 2
        return self.step * layer, round(2 + ROW * row + (ROW - HIGH) / 2)

    def layer(self, spot: tuple[int, int]) -> int:
        """Return the layer in which a node stands."""
        return spot[1 if self.down else 0] // self.step

    def leaves(self, spot: tuple[int, int]) -> tuple[int, int]:
        """Return the point at which edges leave a node."""
        x, y = spot
        return (x + self.wide // 2, y + HIGH) if self.down else (x + self.wide, y + HIGH // 2)

    def enters(self, spot: tuple[int, int]) -> tuple[int, int]:
        """Return the point at which edges reach a node."""
        x, y = spot
        return (x + self.wide // 2, y) if self.down else (x, y + HIGH // 2)

    def curve(self, at: tuple[int, int], to: tuple[int, int]) -> str:
        """Return the way from a point to another one, which begins and ends along the direction."""
        (x, y), (left, above) = at, to
        if self.down:
            return f"C{x} {(y + above) / 2} {left} {(y + above) / 2} {left} {above}"
        return f"C{(x + left) / 2} {y} {(x + left) / 2} {above} {left} {above}"


ACROSS: Final = Way(down=False, wide=178, letters=24, step=208)
"""Four columns fit 1,024 pixels."""
DOWN: Final = Way(down=True, wide=142, letters=19, step=72)
"""Two nodes fit the side of a page."""


class Node(NamedTuple):
    """A job as the picture shows it: where it leads, a word, a tone and a sign of its last outcome, and more of it.

    `is_here`: the page is about it.
    """

    id: JobId
    to: str
    word: str
    tone: str
    sign: str
    more: str
    is_here: bool = False


def families(edges: Sequence[Edge]) -> Sequence[Sequence[Edge]]:
    """Return the edges of each family, of jobs that are connected: the largest first."""
    towards_head: dict[JobId, JobId] = {}
    """Each job with one that is nearer to the head of its family, which is with itself (union-find)."""

    def head_of(job: JobId) -> JobId:
        while (nearer := towards_head.setdefault(job, job)) != job:
            towards_head[job] = towards_head[nearer]  # each look-up shortens the way of the next one
            job = towards_head[job]
        return job

    for edge in edges:
        towards_head[head_of(edge.parent)] = head_of(edge.child)
    found: dict[JobId, list[Edge]] = {}
    for edge in edges:
        found.setdefault(head_of(edge.parent), []).append(edge)
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


def is_slim(edges: Sequence[Edge]) -> bool:
    """Return whether a family has room in a narrow column."""
    return max(len(column) for column in layers(edges)) <= MOST_ABREAST


def picture(edges: Sequence[Edge], node_of: Callable[[JobId], Node], root: str, way: Way = ACROSS) -> Markup:
    """Return a family as a picture. Edges that were not taken are dotted; addresses begin with `root`."""
    columns = layers(edges)
    most = max(len(column) for column in columns)
    right, below = way.spot(len(columns) - 1, most - 1)
    spots = {
        job: way.spot(layer, row + (most - len(column)) / 2)
        for layer, column in enumerate(columns)
        for row, job in enumerate(column)
    }
    drawn = [*_edges(edges, spots, node_of, way)]
    jobs = [job for column in columns for job in column if "\n" not in job]
    drawn += [_node(node_of(job), spots[job], root, way) for job in jobs]
    label = f"{amount(len(jobs), 'job')}, from {node_of(columns[0][0]).id}"
    wide, high = right + way.wide + 4, below + ROW - 5
    sizes = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    return Markup(  # noqa: S704  numbers, and texts that are escaped
        f'<svg {sizes} role="group" aria-label="{written(label)}">{"".join(drawn)}</svg>'
    )


def _edges(
    edges: Sequence[Edge], spots: Mapping[JobId, tuple[int, int]], node_of: Callable[[JobId], Node], way: Way
) -> Iterator[str]:
    for edge in sorted(edges):
        begins, ends = spots[edge.parent], spots[edge.child]
        tone, is_made = node_of(edge.parent).tone, (node_of(edge.child).to or "").startswith("/runs/")
        leads_on = {"success": tone == "green", "failure": tone == "bad"}.get(edge.on.value, tone in ("green", "bad"))
        says = f"<title>{written(f'{node_of(edge.child).id} after {node_of(edge.parent).id}, on {edge.on}')}</title>"
        at, (x, y) = way.leaves(begins), way.enters(ends)
        path = f"M{at[0]} {at[1]}"
        for passed in _passed(edge.parent, edge.child, way.layer(begins), way.layer(ends)):
            path += way.curve(at, way.enters(spots[passed]))
            at = way.leaves(spots[passed])
            path += f"L{at[0]} {at[1]}"
        path += way.curve(at, (x, y - 4) if way.down else (x - 4, y))
        yield f'<path class="s q{"" if is_made or leads_on else " dash"}" d="{path}">{says}</path>'
        yield f'<path class="f q" d="M{x} {y}l{"-3.5-6h7" if way.down else "-6-3.5v7"}z"/>'
        if edge.on.value != "success":
            place = f'class="halo" x="{x + 6}" y="{y - 8}"' if way.down else f'class="e halo" x="{x - 8}" y="{y - 6}"'
            yield f"<text {place}>on {written(edge.on.value)}</text>"


def _node(node: Node, spot: tuple[int, int], root: str, way: Way) -> str:
    (x, y), here = spot, " sel" if node.is_here else ""
    name = node.id if len(node.id) <= way.letters else f"{node.id[: way.letters - 1]}…"
    tone = "" if node.tone == "q" else f"{node.tone} t"
    texts = (
        f'<rect class="node{here}" x="{x}" y="{y}" width="{way.wide}" height="{HIGH}" rx="6"/>'
        f'<rect class="f {node.tone}" x="{x}" y="{y}" width="4" height="{HIGH}" rx="2"/>'
        f'<text class="k" x="{x + 13}" y="{y + 17}">{written(name)}</text>'
        f'<text class="{tone}" x="{x + 13}" y="{y + 33}">{node.sign} {written(node.word)}'
        f'<tspan class="sub"> {written(node.more)}</tspan></text>'
    )
    title = f"<title>{written(f'{node.id}: {node.word} {node.more}'.strip())}</title>"
    soft = " data-soft" if "?" in node.to else ""  # it stays on this screen
    return f'<a{soft} href="{written(root + node.to)}">{title}{texts}</a>'
