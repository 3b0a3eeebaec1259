"""The graph of jobs that run after others, drawn as a tree of lines or as DOT for Graphviz. Pure."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest

from tokimori.errors import Refused
from tokimori.model.dependents import Edge
from tokimori.model.ids import JobId

MOST_EDGES = 10_000
"""Number of edges shown at once."""
SHOWN_ABOVE = "…"
"""The mark of a job whose children were drawn further up already."""


def check_few(edges: Sequence[Edge]) -> None:
    """Refuse more edges than one answer may show. Raises `Refused`."""
    if len(edges) > MOST_EDGES:
        raise Refused(
            f"{len(edges):,} times a job runs after another one, which is too much for one answer: "
            "`tokimori job graph ID` shows those before and after one",
            field="id",
            allowed="the id of a job",
        )


def direct(edges: Iterable[Edge], job_id: JobId) -> list[Edge]:
    """Return the edges from and to the job."""
    return [edge for edge in edges if job_id in (edge.parent, edge.child)]


def around(edges: Sequence[Edge], job_id: JobId, most: int = MOST_EDGES) -> list[Edge]:
    """Return the edges above and below this job, in order, however far away: of over `most` the nearest."""
    above = _by_distance(edges, job_id, lambda edge: (edge.child, edge.parent))
    below = _by_distance(edges, job_id, lambda edge: (edge.parent, edge.child))
    in_turn = chain.from_iterable(zip_longest(above, below))
    return sorted(islice((edge for edge in in_turn if edge is not None), most))


def _by_distance(edges: Iterable[Edge], start: JobId, ends: Callable[[Edge], tuple[JobId, JobId]]) -> Iterator[Edge]:
    """Yield the edges that are reached from the job, the nearest first. No job runs after itself: each comes once."""
    ways: dict[JobId, list[tuple[JobId, Edge]]] = {}
    for edge in edges:
        near, far = ends(edge)
        ways.setdefault(near, []).append((far, edge))
    seen, left = {start}, deque([start])
    while left:
        for far, edge in ways.get(left.popleft(), ()):
            yield edge
            if far not in seen:
                seen.add(far)
                left.append(far)


def tree(edges: Sequence[Edge]) -> list[str]:
    """Return a tree for each job without parents, its children indented below it. A job's children are drawn once."""
    children: dict[JobId, list[Edge]] = {}
    for edge in sorted(edges):
        children.setdefault(edge.parent, []).append(edge)
    roots = sorted(children.keys() - {edge.child for edge in edges})
    lines: list[str] = []
    shown: set[JobId] = set()
    for root in roots:
        lines += [root, *_branches(root, children, shown)]
    return lines


def _branches(root: JobId, children: dict[JobId, list[Edge]], shown: set[JobId]) -> Iterator[str]:
    """Yield the lines below a job, depth first. There is no recursion, as a chain may be longer than Python's stack."""
    stack = [(iter(children[root]), len(children[root]), "")]
    shown.add(root)
    while stack:
        edges, left, indent = stack.pop()
        edge = next(edges, None)
        if edge is None:
            continue
        stack.append((edges, left - 1, indent))
        is_last = left == 1
        below = children.get(edge.child, [])
        again = edge.child in shown and bool(below)
        yield f"{indent}{'└─' if is_last else '├─'} {edge.child} {how(edge)}{f' {SHOWN_ABOVE}' if again else ''}"
        if below and not again:
            shown.add(edge.child)
            stack.append((iter(below), len(below), indent + ("   " if is_last else "│  ")))


def how(edge: Edge) -> str:
    """Return the condition of an edge: `on success`, or `on success (all of 3)` if the child waits for all parents."""
    return f"on {edge.on}" + (f" (all of {edge.joins})" if edge.joins else "")


def dot(edges: Sequence[Edge], alone: JobId | None = None) -> str:
    """Return the graph in the language of Graphviz; `alone` is a job that is in it even if it has no edges."""
    nodes = {end for edge in edges for end in (edge.parent, edge.child)} | ({alone} if alone else set())
    lines = [f"  {_quoted(node)};" for node in sorted(nodes)]
    lines += [
        f"  {_quoted(edge.parent)} -> {_quoted(edge.child)} [label={_quoted(how(edge))}];" for edge in sorted(edges)
    ]
    return "\n".join(["digraph jobs {", *lines, "}", ""])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
