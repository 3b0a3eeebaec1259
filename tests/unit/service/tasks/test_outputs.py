"""Reading outputs of which the middle is not kept."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import Moment
from tokimori.executors.keeper.output import Times
from tokimori.model.ids import RunId
from tokimori.model.run import Output, times_since
from tokimori.service.tasks.outputs import timed_lines, unread, whole


def kept(written: bytes, head: int, tail: int) -> Output:
    """What a store keeps of these bytes."""
    first = written[:head]
    rest = written[head:]
    return Output(run_id=RunId("r"), attempt=1, size=len(written), head=first, tail=rest[-tail:] if tail else b"")


@given(st.binary(max_size=30), st.integers(0, 12), st.integers(0, 12), st.integers(0, 30))
def test_unread_bytes_are_those_behind_the_position(written: bytes, head: int, tail: int, position: int) -> None:
    """What is lost and what is known make up all that follows the position, and the known end is the true one."""
    position = min(position, len(written))
    missed, new = unread(kept(written, head, tail), position)
    assert missed + len(new) == len(written) - position
    end = min(tail, len(written) - max(position, head)) if len(written) > max(position, head) else 0
    assert new.endswith(written[len(written) - end :])
    assert missed or new == written[position:]


@given(st.binary(max_size=30), st.integers(0, 12), st.integers(0, 12))
def test_a_whole_output_says_how_much_is_left_out(written: bytes, head: int, tail: int) -> None:
    """Nothing is added to an output that is all there; else the gap is counted."""
    shown = whole(kept(written, head, tail))
    missing = len(written) - head - tail
    assert shown == written if missing <= 0 else f"… {missing} bytes left out …".encode() in shown


def timed(*pieces: bytes, head: int = 100, tail: int = 100) -> Output:
    """An output of which each piece came a second after the one before."""
    times, size = Times(), 0
    for number, piece in enumerate(pieces):
        times.mark(size, number)
        size += len(piece)
    found = kept(b"".join(pieces), head, tail)
    told = times_since(Moment(0), times.encoded())
    return Output(run_id=found.run_id, attempt=1, size=size, head=found.head, tail=found.tail, times=told)


def seconds(lines: list[tuple[Moment | None, str]]) -> list[tuple[float | None, str]]:
    return [(None if at is None else at / 1_000_000, text) for at, text in lines]


def test_each_line_has_the_time_of_its_first_byte() -> None:
    """Wherever pieces and what is kept are cut, and though a byte is no UTF-8."""
    output = timed(b"a\nb", b"c\nd\xff\n", b"e", b"\r\nf", head=6)
    assert timed_lines(output) == (timed_lines(timed(b"a\nb", b"c\nd\xff\n", b"e", b"\r\nf"))[0], output.size)
    assert seconds(timed_lines(output)[0]) == [(0, "a"), (0, "bc"), (1, "d\ufffd"), (2, "e"), (3, "f")]
    assert seconds(timed_lines(output, 5)[0]) == [(1, "d\ufffd"), (2, "e"), (3, "f")]


def test_a_line_without_an_end_waits() -> None:
    """The position stays before it, and from there it comes whole."""
    lines, position = timed_lines(timed(b"a\n", b"b"), unfinished=False)
    assert (seconds(lines), position) == ([(0, "a")], 2)
    assert timed_lines(timed(b"a\n", b"b"), position, unfinished=False) == ([], 2)
    assert seconds(timed_lines(timed(b"a\n", b"b", b"c\n"), position, unfinished=False)[0]) == [(1, "bc")]


def test_lines_behind_a_gap_have_their_own_time() -> None:
    """A line says how much is left out; a running attempt has its end only."""
    pieces = [b"%d\n" % number for number in range(10)]
    assert seconds(timed_lines(timed(*pieces, head=4, tail=4))[0]) == [
        (0, "0"),
        (1, "1"),
        (8, "… 12 bytes left out …"),
        (8, "8"),
        (9, "9"),
    ]
    running = timed(*pieces, head=0, tail=4)
    assert timed_lines(running, unfinished=False)[1] == running.size
    assert seconds(timed_lines(running, 18)[0]) == [(9, "9")]


def test_lines_that_nobody_timed_have_no_time() -> None:
    """As of workers elsewhere, and of a store of before."""
    assert timed_lines(kept(b"a\nb\n", 9, 9))[0] == [(None, "a"), (None, "b")]
