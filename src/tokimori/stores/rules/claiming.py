"""Claims: runs and permits after a claim, and the first runs of many lanes."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import Bug
from tokimori.model.ids import Lane, NodeId, RunId, Token
from tokimori.model.run import Run
from tokimori.model.semaphores import DEFAULT_LIMIT
from tokimori.model.transitions import RunMove, move
from tokimori.ports.semaphores import Answer, Grant, InLine, NodeGone, Permit, UnitRequest, permit_of
from tokimori.stores.rules.errors import check_same_limit, check_weight

MOST_EXAMINED = 1_000
"""Ready runs that one claim may send to the line of a full job before it stops until the next claim."""


def first_runs(heads: Iterable[tuple[int, RunId, Lane]], each: int, most: int) -> tuple[list[RunId], bool]:
    """Return the first runs of all, at most `most`, by the first `each` of every lane, and if there are more.

    It returns fewer if an unread run of a lane may come before the next one.
    """
    of, first, ordered = Counter[Lane](), list[RunId](), sorted(heads)
    for _, run_id, lane in ordered[:most]:
        first.append(run_id)
        of[lane] += 1
        if of[lane] == each:
            return first, True
    return first, len(ordered) > most


def claimed_run(run: Run, node: NodeId) -> Run:
    """Return a ready run after its claim."""
    return replace(
        run,
        state=move(run.state, RunMove.CLAIM),
        token=Token(run.token + 1),
        attempt=run.attempt + 1,
        node_id=node,
        pid=None,
        started=None,
        exit_code=None,
        signal=None,
        error=None,
        cpu=None,
        memory=None,
    )


def run_permit(run: Run, name: str, weight: int, now: Moment) -> Permit:
    """Return the permit of a run for a semaphore after its claim."""
    return Permit(
        id=permit_of(run.id, name),
        semaphore=name,
        node=NodeId(run.node_id or ""),
        run_id=run.id,
        weight=weight,
        rank=run.rank,
        token=run.token,
        since=now,
    )


def answer_of(answer: str, number: int, request: UnitRequest) -> Answer:
    """Return a program's answer, from the server's word and its number. Raises `Refused`."""
    match answer:
        case "gone":
            return NodeGone()
        case "granted":
            return Grant(token=number)
        case "waiting":
            return InLine(ahead=number)
        case _:
            check_same_limit(request.semaphore, request.limit, number)
            check_weight(request.semaphore, request.weight, number)
            raise Bug(f"{request} was answered with {answer!r} and {number}")


def joining(request: UnitRequest, limit: int | None, now: Moment) -> tuple[int, Permit]:
    """Return the limit of a semaphore (None: to be made), and the place of a program that asks for units.

    Raises `Refused` if the program names another limit, or wants more.
    """
    if limit is not None:
        check_same_limit(request.semaphore, request.limit, limit)
    limit = limit or request.limit or DEFAULT_LIMIT
    check_weight(request.semaphore, request.weight, limit)
    place = Permit(
        id=request.id,
        semaphore=request.semaphore,
        node=request.node,
        run_id=None,
        weight=request.weight,
        rank=request.rank,
        token=None,
        since=now,
    )
    return limit, place
