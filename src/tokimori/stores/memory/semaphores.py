"""Named semaphores for people and programs, in memory."""

from itertools import islice

from tokimori.clock import Moment
from tokimori.model.claim_rate import ClaimRate
from tokimori.model.ids import NodeId, PermitId
from tokimori.ports import semaphores as port
from tokimori.ports.nodes import NodeState
from tokimori.ports.semaphores import MOST_COUNTED, MOST_HOLDERS, Permit, Semaphore, UnitRequest
from tokimori.stores.memory import lines
from tokimori.stores.memory.lines import made, rated_of
from tokimori.stores.memory.tables import SemaphoreRow, Tables
from tokimori.stores.rules.claiming import joining
from tokimori.stores.rules.errors import check_lowered, existing, in_use, no_semaphore
from tokimori.stores.rules.rates import Turns


def put_semaphore(tables: Tables, name: str, limit: int, now: Moment, rate: ClaimRate | None = None) -> None:
    weights = [lines.place_of(tables, row, name).weight for row in lines.runs_in_line(tables, name)]
    weights += [permit.weight for permit in lines.programs_in_line(tables, name)]
    check_lowered(name, limit, max(weights, default=0), rate)
    row = tables.semaphores.setdefault(name, SemaphoreRow())
    row.limit, row.rate, row.turns = limit, rate, Turns()
    lines.serve_semaphore(tables, name)


def list_semaphores(tables: Tables, *, after: str = "", limit: int = 1000) -> list[Semaphore]:
    names = (name for name in sorted(tables.semaphores) if name > after)
    return [get_semaphore(tables, name) for name in islice(names, limit)]


def get_semaphore(tables: Tables, name: str) -> Semaphore:
    row = existing(tables.semaphores.get(name), no_semaphore(name))
    held = [each for each in tables.permits.values() if each.semaphore == name and each.token is not None]
    waiting = len(lines.runs_in_line(tables, name)) + len(lines.programs_in_line(tables, name))
    return Semaphore(
        name=name,
        limit=row.limit,
        used=lines.used_units(tables, name),
        waiting=min(waiting, MOST_COUNTED),
        holders=tuple(sorted(held, key=lambda permit: (permit.since, permit.id))[:MOST_HOLDERS]),
        rate=row.rate,
        taken=0 if (rated := rated_of(tables, name)) is None else rated.window.used,
        wakes=row.turns.wakes,
    )


def delete_semaphore(tables: Tables, name: str) -> None:
    if any(permit.semaphore == name for permit in tables.permits.values()) or lines.runs_in_line(tables, name):
        raise in_use(name)
    row = tables.semaphores.pop(name, SemaphoreRow())
    tables.taken.pop(name, None)
    tables.newest_token = max(tables.newest_token, row.granted)


def acquire(tables: Tables, request: UnitRequest, now: Moment) -> port.Answer:
    node = tables.nodes.get(request.node)
    if node is None or node.state is not NodeState.ALIVE:
        return port.NodeGone()
    if request.id not in tables.permits:
        _join(tables, request, now)
    permit = tables.permits[request.id]
    if permit.token is None and lines.grant_programs(tables, request.semaphore):
        lines.wake_runs(tables, request.semaphore)
        permit = tables.permits[request.id]
    if permit.token is None and tables.semaphores[request.semaphore].rate is not None:
        lines.wake_runs(tables, request.semaphore)
    return port.InLine(ahead=_ahead(tables, permit)) if permit.token is None else port.Grant(token=permit.token)


def _join(tables: Tables, request: UnitRequest, now: Moment) -> None:
    known = tables.semaphores.get(request.semaphore)
    limit, place = joining(request, None if known is None else known.limit, now)
    made(tables, request.semaphore, limit)
    tables.permits[request.id] = place


def _ahead(tables: Tables, place: Permit) -> int:
    programs = sum(
        (each.rank, each.id) < (place.rank, place.id) for each in lines.programs_in_line(tables, place.semaphore)
    )
    runs = sum(row.run.rank < place.rank for row in lines.runs_in_line(tables, place.semaphore))
    return min(programs + runs, MOST_COUNTED)


def release(tables: Tables, permit: PermitId, node: NodeId, now: Moment) -> bool:
    held = tables.permits.get(permit)
    if held is None or held.node != node or held.run_id is not None:
        return False
    del tables.permits[permit]
    lines.serve_semaphore(tables, held.semaphore)
    return True
