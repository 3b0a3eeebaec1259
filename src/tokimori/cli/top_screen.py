"""The screen of `tokimori top`: nodes, what runs, what comes next and what failed, within the terminal's size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from tokimori.cli.table import At, Id, Short, drawn
from tokimori.cli.table import State as StateCell
from tokimori.cli.terminal import TerminalOutput
from tokimori.clock import Moment
from tokimori.logs.controls import visible

_DOWN, _UP, _YES = frozenset({"j", "\x1b[B"}), frozenset({"k", "\x1b[A"}), frozenset({"y", "Y"})
QUIT = frozenset({"q", "\x03", "\x04"})
"""Keys that leave it: q, Ctrl-C, Ctrl-D."""


class Verb(StrEnum):
    """Orders for the chosen run."""

    CANCEL = "cancel"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Subject:
    """A run on the screen, and its job."""

    run: str
    job: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order for a run, or for its job."""

    verb: Verb
    subject: Subject

    def __str__(self) -> str:
        of = f"run {self.subject.run}" if self.verb is Verb.CANCEL else f"job {self.subject.job}"
        return f"{self.verb} {of}"


@dataclass(frozen=True, slots=True)
class State:
    """State of the screen beside the store: the `chosen` run, the order that is `asked` about, the run that is
    `followed`, and the last message (`told`).
    """

    chosen: str | None = None
    asked: Order | None = None
    followed: str | None = None
    told: str = ""


_ORDERS: Mapping[str, Verb] = MappingProxyType({"c": Verb.CANCEL, "p": Verb.PAUSE})


def pressed(state: State, key: str, subjects: Sequence[Subject]) -> tuple[State, Order | None]:
    """Return the state after a key, and an order that is to be carried out: only one that was asked about and
    confirmed.
    """
    if state.asked is not None:
        asked = replace(state, asked=None, told="")
        return (asked, state.asked) if key in _YES else (replace(asked, told="nothing was done"), None)
    subject = chosen(state, subjects)
    if subject is None:
        return state, None
    if key in _DOWN or key in _UP:
        place = subjects.index(subject) + (1 if key in _DOWN else -1)
        return replace(state, chosen=subjects[max(0, min(place, len(subjects) - 1))].run, told=""), None
    if key == "f":
        return replace(state, followed=None if state.followed == subject.run else subject.run, told=""), None
    verb = _ORDERS.get(key)
    return (state if verb is None else replace(state, asked=Order(verb, subject), told="")), None


def chosen(state: State, subjects: Sequence[Subject]) -> Subject | None:
    """Return the run that is chosen; the first one where that one has ended."""
    return next((each for each in subjects if each.run == state.chosen), subjects[0] if subjects else None)


def keys_in(typed: str) -> list[str]:
    """Return the keys of what a terminal has sent: an arrow is three characters."""
    keys: list[str] = []
    left = typed
    while left:
        length = 3 if left.startswith("\x1b[") else 1
        keys.append(left[:length])
        left = left[length:]
    return keys


if TYPE_CHECKING:
    from rich.console import Console

    from tokimori.model.job import Job
    from tokimori.model.run import Run
    from tokimori.ports.nodes import NodeRecord

_KEYS = "↑↓ choose · f follow · c cancel the run · p pause its job · q quit"
_FEW = 5
"""So many rows of the smaller tables."""
_FRAME = 12
"""Lines for headings, blank lines, keys and what is told."""
_BAR = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenContent:
    """Result of one look at the store. `output`: the end of what the followed run wrote."""

    now: Moment
    zone: str
    nodes: "Sequence[NodeRecord]"
    running: "Sequence[Run]"
    upcoming: "Sequence[tuple[Job, Moment]]"
    failed: "Sequence[Run]"
    output: bytes | None = None

    @property
    def subjects(self) -> list[Subject]:
        """Return the runs among which one is chosen."""
        return [Subject(run.id, run.job_id) for run in self.running]


def screen(console: "Console", seen: ScreenContent, state: State, height: int) -> str:
    """Return the lines, at most as many as the height."""
    with console.capture() as captured:
        for line in _parts(console, seen, state, height):
            console.print(line)
    lines = captured.get().splitlines()[: height - 2]
    asked = f"{state.asked}? [y/N]" if state.asked is not None else state.told
    return "\n".join([*lines, "", visible(asked) or _KEYS][:height])


def _parts(console: "Console", seen: ScreenContent, state: State, height: int) -> Iterator[str]:
    room = max(_FEW, height - _FRAME - min(len(seen.nodes), _FEW) - min(len(seen.upcoming), _FEW))
    yield f"[bold]{_count(seen.nodes, 'node')}[/bold]"
    _draw(console, seen, ("NODE", "STATE", "HOST", "PID", "STARTED"), [_node(each, seen) for each in seen.nodes[:_FEW]])
    yield f"\n[bold]{_count(seen.running, 'running run')}[/bold]"
    selected = chosen(state, seen.subjects)
    here = None if selected is None else selected.run
    rows = [
        (
            ">" if run.id == here else " ",
            Short(run.id),
            run.job_id,
            _progress(run),
            At(run.started, ""),
        )
        for run in seen.running[: max(_FEW, room // 2)]
    ]
    _draw(console, seen, ("", "RUN", "JOB", "PROGRESS", "STARTED"), rows)
    if state.followed is not None:
        yield f"\n[bold]run {state.followed} wrote[/bold]"
        for line in _tail(seen.output, _FEW):
            console.print(line, markup=False, no_wrap=True, overflow="ellipsis", crop=True)
    yield "\n[bold]next[/bold]"
    coming = [(At(moment, job.definition.time_zone), job.id) for job, moment in seen.upcoming[:_FEW]]
    _draw(console, seen, ("DUE", "JOB"), coming)
    yield "\n[bold]failed lately[/bold]"
    failed = [(Short(run.id), run.job_id, At(run.ended, ""), run.exit_code, run.error) for run in seen.failed]
    _draw(console, seen, ("RUN", "JOB", "ENDED", "EXIT", "REASON"), failed[: max(_FEW, room // 2)])


def _draw(console: "Console", seen: ScreenContent, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        drawn(console, columns, rows, ("PID",), seen.now)


def _count(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"


def _node(node: "NodeRecord", seen: ScreenContent) -> tuple[object, ...]:
    return (
        Id(node.id),
        StateCell("drained" if node.drained else node.state.value),
        node.host,
        node.pid,
        At(node.started, seen.zone),
    )


def _progress(run: "Run") -> str:
    """Return a bar, as far as the run has told."""
    fraction = run.details.progress
    if fraction is None:
        return "-"
    full = round(fraction * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {fraction:.0%} {run.details.progress_text or ''}".rstrip()


def _tail(output: bytes | None, lines: int) -> list[str]:
    """Return the last lines, without anything that controls the terminal."""
    from rich.text import Text

    if not output:
        return ["(nothing yet)"]
    passed = TerminalOutput()
    text = (passed.feed(output) + passed.finish()).decode()
    return Text.from_ansi(text).plain.splitlines()[-lines:]
