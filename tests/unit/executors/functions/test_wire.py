"""Frames between the engine and a worker process."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.clock import Moment
from tokimori.executors.functions.wire import (
    MOST_MESSAGES,
    MOST_SAID,
    Begin,
    End,
    Frames,
    FromWorker,
    FunctionEnded,
    FunctionGrew,
    Leave,
    ToWorker,
    frame,
)
from tokimori.executors.keeper.output import EDGE
from tokimori.executors.reported import MOST_TEXT

BEGIN = Begin(
    number=1, handler="f", run_id="r", job_id="j", attempt=1, token=2, scheduled_at=Moment(3), due_at=Moment(4)
)
MESSAGES: list[Any] = [BEGIN, End(number=1, why="x", lost=True), Leave()]
ANSWERS: list[Any] = [
    FunctionGrew(number=1, size=3, tail=b"abc"),
    FunctionEnded(number=1, began=1.5, at=2.5, end="succeeded", text="{}", size=3, head=b"\xff\x00a"),
]


@given(st.lists(st.integers(1, 50), max_size=20))
def test_frames_arrive_whole_in_any_pieces(cuts: list[int]) -> None:
    """However the bytes are cut, the messages are those that were sent, in order."""
    data = frame(MESSAGES[:2]) + frame(MESSAGES[2:])
    frames: Frames[Any] = Frames(ToWorker)
    found = []
    for cut in [*cuts, len(data)]:
        piece, data = data[:cut], data[cut:]
        found += frames.feed(piece)
    assert found == MESSAGES


def test_answers_come_back_as_they_were() -> None:
    """Bytes of any kind are kept."""
    frames: Frames[Any] = Frames(FromWorker)
    assert frames.feed(frame(ANSWERS)) == ANSWERS


def a_frame(said: Any) -> bytes:
    """Anything as a frame."""
    body = msgspec.msgpack.encode(said)
    return len(body).to_bytes(4, "big") + body


def test_many_messages_are_several_frames() -> None:
    """A process that has much to say is understood: no frame has more messages than are taken at once."""
    frames: Frames[Any] = Frames(FromWorker)
    assert frames.feed(frame(ANSWERS * MOST_MESSAGES)) == ANSWERS * MOST_MESSAGES


def test_large_messages_are_several_frames() -> None:
    """Runs that end together with much output are understood: no frame is larger than a process may say at once."""
    ended = FunctionEnded(
        number=1, began=1.5, at=2.5, end="failed", text="é" * MOST_TEXT, head=b"x" * EDGE, tail=b"y" * EDGE
    )
    frames: Frames[Any] = Frames(FromWorker)
    frames.most = MOST_SAID
    assert frames.feed(frame([ended] * 300)) == [ended] * 300


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02\xc1\xc1",
        frame(MESSAGES),
        (100_016).to_bytes(4, "big") + b"\x91\x82\xa4type\xa5noted\xa1x" + b"\x91" * 100_001,
        a_frame([{"type": "noted", "number": 1}] * (MOST_MESSAGES + 1)),
        a_frame([{"type": "noted", "number": 1, "progress": float("nan")}]),
        a_frame([{"type": "noted", "number": 1, "checkpoint": "x" * (MOST_TEXT + 1)}]),
        a_frame([{"type": "grew", "number": 1, "size": 2**63, "tail": b""}]),
        a_frame([{"type": "grew", "number": 1, "size": 1, "tail": b"x" * (EDGE + 1)}]),
    ],
)
def test_what_is_no_frame_of_ours_is_refused(data: bytes) -> None:
    """A length beyond all measure, no MessagePack, orders where answers are expected, more than anybody has to say."""
    frames: Frames[Any] = Frames(FromWorker)
    with pytest.raises((ValueError, msgspec.DecodeError)):
        frames.feed(data)
