"""The types of events, from the states of runs and from what operations declare."""

from collections.abc import Iterator, Mapping

from docs.made.markdown import REFERENCE, code, table, text
from tokimori.model.audit import BECAME, PARTS_OF_SETS
from tokimori.model.transitions import ENDS, RunState
from tokimori.service.operation import MADE, Operation, members_in
from tokimori.service.service import PARTS

PAGE = REFERENCE / "event-types.md"
RUNS = {
    RunState.SUCCEEDED: "a run has ended well",
    RunState.FAILED: "a run has ended, and is not tried again",
    RunState.CANCELLED: "a run was cancelled, before it started or after",
    RunState.SKIPPED: "a run that existed was dropped before it started",
}
BESIDE = {
    "job.parked": "a failure has stopped a job; the engine does this by itself",
    "node.drained": "a node was told to take no more runs (`*`: all nodes)",
    "node.resumed": "a node was told to take runs again",
    "node.stopped": "a node was told to stop",
    "changes.left_out": "a program that opens the store changed more than is recorded one by one",
    "audit.*": "all else in the audit log, by its method, for who may read that: `audit.jobs.request`",
    "gap": "in a stream alone: some events before the next one are not kept any more",
}


def page() -> str:
    """Return the page."""
    return text(_lines())


def declared() -> Mapping[str, list[str]]:
    """Return the events that operations declare, or a set makes of its parts, each with the operations that make it."""
    found: dict[str, list[str]] = {}
    for part in PARTS:
        for name, each in members_in(part).items():
            if isinstance(each, Operation) and each.event:
                became = ("added", "changed") if each.event == MADE else (each.event,)
                for event in became:
                    found.setdefault(f"{each.of or part.word}.{event}", []).append(f"{part.noun}.{name}")
    for kind in ("job", *PARTS_OF_SETS.values()):
        for event in BECAME.values():
            found.setdefault(f"{kind}.{event}", []).append("sets.apply")
    return found


def _lines() -> Iterator[str]:
    yield from (
        "# Types of events",
        "",
        "Written by `make docs` from the code. [Events](events.md) says how to hear of them.",
        "",
        "## Runs",
        "",
    )
    yield from table(
        ("event", "what has happened"), [(code(f"run.{each}"), RUNS[each]) for each in RunState if each in ENDS]
    )
    yield from ("", "## Changes", "", "An event comes after the operation has changed something.", "")
    rows = [(code(event), ", ".join(map(code, made_by))) for event, made_by in sorted(declared().items())]
    yield from table(("event", "operation"), rows)
    yield from ("", "`set.applied` and `jobs.imported` are told as an event of each thing that they changed.")
    yield from ("", "## Beside these", "")
    yield from table(("event", "what has happened"), [(code(event), meaning) for event, meaning in BESIDE.items()])
