"""Nodes: the processes that take part."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tokimori.errors import NotFound
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.service.service import Service
from tokimori.web.addresses import path
from tokimori.web.nouns import (
    Cell,
    Column,
    Noun,
    Row,
    Table,
    filters,
    has,
    job_cell,
    plain,
    run_cell,
    said,
    screens_of,
    state,
    when,
)
from tokimori.web.pictures import share
from tokimori.web.run_rows import run_rows
from tokimori.web.screen import Act, Field, Given, Receipt
from tokimori.web.screens.jobs import runs_in
from tokimori.web.screens.now import MOST, stuck
from tokimori.web.visit import Visit

GONE_SHOWN: Final = 20
_NAMES: Final = {"state": ("alive", "draining", "left", "dead"), "kind": ("node", "program")}
_COLUMNS: Final = (
    *(Column("State", "pc"), Column("Node", "pa"), Column("Places taken", "prog pf"), Column("Runs", "n pb")),
    *(Column("Labels", "wide w2"), Column("Up since", "n pd"), Column("Version", "w3"), Column("Pid", "n w3")),
)
_GONE: Final = (Column("State", "pc"), Column("Node", "pa"), Column("Was", "wide w2"), Column("When", "n pb"))
_LATE: Final = (Column("State", "pc"), Column("Job", "pa"), Column("Why", "wide pf"))
_RUNS: Final = (Column("Run", "pa"), Column("Job", "wide pf"), Column("For", "n pb"))


async def show(visit: Visit) -> Noun:
    """Return the list of nodes: those that take part, programs that hold permits, and those that went."""
    known = [each for each in await visit.service.nodes.list() if _matches(visit, each)]
    taken = Counter(run.node_id for run in await runs_in(visit.service, RunState.RUNNING))
    alive = [each for each in known if each.state is NodeState.ALIVE][:_MOST]
    gone = [each for each in known if each.state is not NodeState.ALIVE][:GONE_SHOWN]
    rows = [_row(visit, each, taken[each.id]) for each in alive]
    tables = [Table("Nodes", _COLUMNS, rows, "No node takes part, so nothing runs. This starts one:", "tokimori serve")]
    if alive and (waiting := await stuck(visit, await runs_in(visit.service, RunState.READY, limit=MOST))):
        cells = [(state("ready"), said(each.name, to=each.to), said(each.why, "why")) for each in waiting]
        late = [Row(f"ready {each[1].text}", each) for each in cells]
        tables.append(Table("Ready for over a minute", _LATE, late, head="Ready, and not taken for over a minute"))
    if gone:
        went = [_gone_row(visit, each) for each in gone]
        tables.append(Table("Nodes that went", _GONE, went, head=f"Gone, the last {len(gone)}"))
    return Noun(
        tables,
        warnings=[f"The store does not keep every promise: {each}." for each in visit.doubts.promises],
        filter=filters(visit, "Filter nodes", _NAMES),
        note="`tokimori doctor` checks the store, clocks and nodes. `tokimori serve` starts a node.",
    )


_MOST: Final = 200


def _matches(visit: Visit, each: NodeRecord) -> bool:
    is_of = visit.one("kind") in (None, "program" if each.is_program else "node")
    return is_of and visit.one("state") in (None, _state(each)) and has(visit, each.host, each.id, *_labels(each))


def _state(each: NodeRecord) -> str:
    return "draining" if each.drained and each.state is NodeState.ALIVE else each.state.value


def _labels(each: NodeRecord) -> Sequence[str]:
    return [f"{key}={value}" for key, value in sorted(each.labels.items())]


def _row(visit: Visit, each: NodeRecord, taken: int) -> Row:
    cells = (
        state(_state(each)),
        said(each.host, to=path("nodes", each.id)),
        Cell("program", "q") if each.is_program else Cell(picture=share(taken, each.concurrency, "places taken")),
        Cell() if each.is_program else said(f"{taken} of {each.concurrency}"),
        said(" ".join(_labels(each))),
        when(visit, each.started),
        said(each.version),
        said(each.pid),
    )
    return Row(f"node {each.id}", cells, () if each.is_program else _acts(each), each.id)


def _acts(each: NodeRecord) -> Sequence[str]:
    return ("nodes.resume" if each.drained else "nodes.drain",)


def _gone_row(visit: Visit, each: NodeRecord) -> Row:
    was = f"{'program' if each.is_program else 'node'} {each.version}, pid {each.pid}"
    lost = state("lost", "no beat") if each.state is NodeState.DEAD else state("finished", "left")
    return Row(f"node {each.id}", (lost, said(each.host, to=path("nodes", each.id)), said(was), when(visit, each.left)))


async def page(visit: Visit) -> Noun:
    """Return the page of a node, with what runs there."""
    wanted = visit.parts["node_id"]
    each = next((one for one in await visit.service.nodes.list() if one.id == wanted), None)
    if each is None:
        raise NotFound(f"there is no node {wanted!r}", field="id", value=wanted)
    running = [run for run in await runs_in(visit.service, RunState.RUNNING) if run.node_id == each.id][:_MOST]
    rows = [
        Row(f"run {run.id}", (run_cell(run.id), job_cell(run.job_id), said(run.took)))
        for run in await run_rows(visit, running)
    ]
    is_alive = each.state is NodeState.ALIVE
    facts = {
        **{"Host": said(each.host), "Pid": said(each.pid), "Id": said(each.id)},
        "Labels": said(" ".join(_labels(each))),
        "Runs at a time": said(each.concurrency or "none, it is a program"),
        "Version": said(each.version),
        ("Up since" if is_alive else "Went"): when(visit, each.started if is_alive else each.left),
    }
    return Noun(
        [Table("Runs now", _RUNS, rows, "Nothing runs here.", head="Runs now")],
        name=plain(each.host),
        says=(state(_state(each)),),
        acts=(*_acts(each), "nodes.stop") if is_alive and not each.is_program else (),
        on=each.id,
        facts=list(facts.items()),
    )


async def _drain(service: Service, node_id: str, given: Given) -> Receipt:
    nodes = await service.nodes.drain(node_id)
    return Receipt(f"{nodes[0].host if nodes else node_id} takes no new runs: what runs goes on")


async def _resume(service: Service, node_id: str, given: Given) -> Receipt:
    nodes = await service.nodes.resume(node_id)
    return Receipt(f"{nodes[0].host if nodes else node_id} takes runs again")


async def _stop(service: Service, node_id: str, given: Given) -> Receipt:
    nodes = await service.nodes.stop(node_id, now="now" in given)
    return Receipt(f"{nodes[0].host if nodes else node_id} is told to stop")


ACTS: Final = (
    Act("nodes.drain", "Drain", "drained", _drain, undo="nodes.resume"),
    Act("nodes.resume", "Resume", "resumed", _resume, undo="nodes.drain"),
    Act(
        "nodes.stop",
        "Stop",
        "stopped",
        _stop,
        fields=(Field("now", "Without waiting for its runs", kind="check"),),
        sure="Its runs get its grace to finish. Nothing starts it again from here.",
    ),
)
SCREENS: Final = screens_of("nodes", show, page, "{node_id}", names=_NAMES)
