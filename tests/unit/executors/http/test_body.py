"""What is kept of an answer's body."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import SystemClock
from tokimori.executors.http.request import KEPT, MOST, Body
from tokimori.model.ids import RunId

R = RunId("r")


@given(st.lists(st.integers(1, 12), max_size=6), st.integers(0, 2))
def test_no_part_shows_what_is_hidden(lengths: list[int], times: int) -> None:
    """A service that answers with the secret that it was sent, in parts of any size."""
    text, body = b"it was " + b"value-of-it" * times + b", in-value", Body(SystemClock(), ("value-of-it",))
    for length in lengths:
        body.add(text[:length])
        text = text[length:]
        assert b"value-of-it" not in body.so_far(R, 1).tail
    body.add(text)
    shown = "it was " + "***" * times + ", in-value"
    assert body.result() == shown
    output = body.output(R, 1)
    assert output is not None
    assert (output.head, output.tail, output.size) == (shown.encode(), b"", len(shown))


def test_what_is_hidden_is_read_all_the_same() -> None:
    """The bound is on what a service sends, and a value that lies across the bytes that are kept is hidden, too."""
    body = Body(SystemClock(), ("value-of-it",))
    body.add(b"x" * (KEPT - 5) + b"value-of-it" + b"y" * KEPT)
    output = body.output(R, 1)
    assert output is not None
    assert output.head == b"x" * (KEPT - 5) + b"***yy"
    body.add(b"value-of-it" * (MOST // 11))
    assert body.full
    assert body.size < MOST
