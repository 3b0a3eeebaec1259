"""The output of an attempt, of which the store keeps the first and the last bytes."""

from bisect import bisect_right
from collections.abc import Iterator

from tokimori.clock import Moment
from tokimori.model.run import Output, marks_in
from tokimori.schedules.zones import on_clocks
from tokimori.service.operation import Inside
from tokimori.service.runs.runs import Runs

TimedLine = tuple[Moment | None, str]
"""A line and when its first byte came; None: nobody knows."""


def whole(output: Output) -> bytes:
    """Return all stored bytes, with a line in place of the omitted ones."""
    return since(output, 0)


def since(output: Output, position: int) -> bytes:
    """Return the bytes after the first `position` ones, with a line in place of the omitted ones."""
    missed, kept = unread(output, position)
    in_head = len(output.head[position:])
    gap = f"\n… {missed} bytes left out …\n".encode() if missed > 0 else b""
    return kept[:in_head] + gap + kept[in_head:]


def unread(output: Output, position: int) -> tuple[int, bytes]:
    """Return the output after its first `position` bytes: how many bytes are lost, and the bytes that are known."""
    in_head = output.head[position:]
    tail_begins = output.size - len(output.tail)
    reached = max(position, len(output.head))
    missed = max(0, tail_begins - reached)
    return missed, in_head + output.tail[max(0, reached - tail_begins) :]


def timed_lines(output: Output, position: int = 0, *, unfinished: bool = True) -> tuple[list[TimedLine], int]:
    """Return the lines after the first `position` bytes, with one in place of those that are left out, and the new
    position. Without `unfinished` a line that has no end yet is left for later.
    """
    missed, kept = unread(output, position)
    in_head, end = len(output.head[position:]), len(kept) if unfinished else kept.rfind(b"\n") + 1
    place = output.size - len(kept) + in_head if missed else position
    before, rest = (kept[:in_head], kept[in_head:end]) if missed else (b"", kept[:end])
    marks = list(marks_in(output.times))
    found = list(_timed(before, position, marks))
    if missed and rest:
        found += _timed(f"… {missed} bytes left out …".encode(), place, marks)
    return [*found, *_timed(rest, place, marks)], output.size - len(kept) + end if kept else max(position, output.size)


def _timed(data: bytes, place: int, marks: list[tuple[int, Moment]]) -> Iterator[TimedLine]:
    for line in data.splitlines(keepends=True):
        before = bisect_right(marks, place, key=lambda mark: mark[0])
        at = marks[before - 1][1] if before else None
        yield from ((at, text) for text in line.decode(errors="replace").splitlines())
        place += len(line)


async def part_of(
    runs: Runs[Inside], output: Output, position: int, *, timestamps: bool, unfinished: bool = True
) -> tuple[bytes, int]:
    """Return the output after this position, with the time of each line on request, and the new position."""
    if timestamps:
        return await stamped(runs, output, position, unfinished=unfinished)
    return since(output, position), output.size


async def stamped(
    runs: Runs[Inside], output: Output, position: int = 0, *, unfinished: bool = True
) -> tuple[bytes, int]:
    """Return the output as text, each line after its time.

    A line of unknown time gets `~` and the start of its attempt.
    """
    lines, end = timed_lines(output, position, unfinished=unfinished)
    start: Moment | None = None
    if any(at is None for at, _ in lines):
        tries = (each.attempt for each in (await runs.get(output.run_id)).attempts)
        start = next((each.started for each in tries if each.number == output.attempt), None)
    unknown = "~" if start is None else f"~{_stamp(start)}"
    return "".join(f"{unknown if at is None else _stamp(at)} {text}\n" for at, text in lines).encode(), end


def _stamp(at: Moment) -> str:
    return on_clocks("UTC", at).isoformat("T", "milliseconds").replace("+00:00", "Z")
