"""What engine and keeper say to each other."""

from hypothesis import given
from hypothesis import strategies as st

from tokimori.executors.keeper.wire import (
    NOTICES,
    ORDERS,
    EndCause,
    Frames,
    Lease,
    Notice,
    Order,
    OutputGrew,
    ProcessEnded,
    ProcessStarted,
    Ready,
    Shutdown,
    Start,
    Stop,
    encode,
    to_bytes,
    to_text,
)

numbers = st.integers(0, 2**31)
moments = st.floats(0, 1e9)
texts = st.text(st.characters(), max_size=20)
words = texts.map(lambda text: text.encode("utf-8", "replace").decode())
starts = st.builds(
    Start,
    number=numbers,
    argv=st.lists(texts, max_size=3),
    env=st.dictionaries(texts, texts, max_size=3),
    cwd=texts,
    log=texts,
    account=st.none(),
    stdin=st.none() | texts,
    timeout=st.none() | moments,
    grace=moments,
    lease_bound=st.booleans(),
    max_cpu=st.none() | moments,  # no NaN, which equals nothing
)
orders = st.one_of(starts, st.builds(Stop, numbers, moments), st.builds(Lease, moments, moments), st.just(Shutdown()))
notices = st.one_of(
    st.builds(Ready, numbers),
    st.builds(ProcessStarted, numbers, numbers, moments),
    st.builds(OutputGrew, numbers, numbers, words),
    st.builds(
        ProcessEnded, numbers, moments, st.none() | numbers, st.sampled_from(EndCause), texts, numbers, words, words
    ),
)


@given(st.lists(st.lists(orders, max_size=4), max_size=4), st.integers(1, 64))
def test_orders_arrive_however_they_are_cut(batches: list[list[Order]], size: int) -> None:
    """Orders come out as they went in, one after the other, whatever pieces the socket makes of them."""
    stream = b"".join(encode(batch) for batch in batches)
    frames: Frames[Order] = Frames(ORDERS)
    heard = [order for at in range(0, len(stream), size) for order in frames.feed(stream[at : at + size])]
    assert heard == [order for batch in batches for order in batch]


@given(st.lists(notices, max_size=6))
def test_notices_arrive(batch: list[Notice]) -> None:
    """Notices come out as they went in."""
    frames: Frames[Notice] = Frames(NOTICES)
    assert frames.feed(encode(batch)) == batch


def test_text_that_is_no_unicode_arrives() -> None:
    """An argument that stands for arbitrary bytes is carried unharmed."""
    order = Start(1, ["\udcff"], {}, "/", "log", (1, 2, [3]), None, None, 1.0, False)
    frames: Frames[Order] = Frames(ORDERS)
    (heard,) = frames.feed(encode([order]))
    assert isinstance(heard, Start)
    assert heard.argv == ["\udcff"]
    assert heard.account is not None
    assert tuple(heard.account) == (1, 2, [3])


@given(st.binary(max_size=200))
def test_bytes_arrive(data: bytes) -> None:
    """Any output can stand in a message."""
    assert to_bytes(to_text(data)) == data
