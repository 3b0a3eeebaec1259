"""Go's gob, read as data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs.gob import Struct, written
from tokimori.errors import InvalidInput
from tokimori.translators.gob import read_gob

POINT = bytes.fromhex("1fff8103010105506f696e7401ff82000102010158010400010159010400000007ff82012c014200")
"""The example of Go's own documentation: `type Point struct { X, Y int }`, with 22 and 33."""


def test_the_example_of_gos_documentation() -> None:
    """The bytes in the documentation of `encoding/gob` are the point of which it speaks."""
    assert read_gob(POINT) == {"X": 22, "Y": 33}


def test_every_kind_of_a_job() -> None:
    """Texts, numbers, truth values, lists, maps, structs, and times as bytes."""
    value = {
        "Name": "r\u00e9port",
        "Disabled": True,
        "Retries": 300,
        "JobType": -5,
        "ParentJobs": ["a", "b"],
        "Headers": {"A": ["1", "2"], "B": []},
        "Metadata": {"Count": 70_000},
        "NextRunAt": b"\x01time",
    }
    inner = Struct("Metadata", {"Count": "uint"})
    job = Struct(
        "Job",
        {
            "Name": "string",
            "Disabled": "bool",
            "Retries": "uint",
            "JobType": "int",
            "ParentJobs": ["string"],
            "Headers": {"string": ["string"]},
            "Metadata": inner,
            "NextRunAt": "time",
        },
    )
    assert read_gob(written(job, value)) == value


def test_zero_values_are_not_written() -> None:
    """Go leaves out what is zero, empty or false."""
    assert read_gob(written(Struct("Job", {"Name": "string", "Retries": "uint"}), {"Retries": 1})) == {"Retries": 1}


@given(st.binary(max_size=300))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    """No bytes raise anything but an error of the input."""
    for each in (data, POINT[: len(data) % len(POINT)] + data):
        try:
            read_gob(each)
        except InvalidInput:
            pass


@pytest.mark.parametrize(
    "data",
    [b"", POINT[:-1], POINT[1:], b"\x02\x04\xff", b"\x00" * 20, b"\xf8" + b"\xff" * 8, b"\x05\xff\x81\x02\xff\x82"],
)
def test_broken_ones_are_refused(data: bytes) -> None:
    """What ends too early, or names types that are not there."""
    with pytest.raises(InvalidInput, match="gob: it can't be read"):
        read_gob(data)


def test_a_type_that_holds_itself_has_an_end() -> None:
    """A list of lists of itself is read to a depth, and lists count no more members than there are bytes."""
    endless = bytes.fromhex("0cff810201024c01ff820001ff8200") + b"\xff\x82\x00" + b"\x01" * 200
    with pytest.raises(InvalidInput):
        read_gob(endless)
