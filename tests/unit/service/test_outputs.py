"""Reading outputs of which the middle is not kept."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.model.ids import RunId
from tokimori.model.run import Output
from tokimori.service.outputs import unread, whole


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
