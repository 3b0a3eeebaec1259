"""Pickles, read as data."""

import builtins
import collections
import datetime
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.errors import InvalidInput
from tokimori.translators import inert_pickle
from tokimori.translators.inert_pickle import Record, read_pickle

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner) | st.sets(st.integers(0, 99))
    ),
    max_leaves=20,
)
TEXTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class _Calls:
    """A value whose pickle calls something."""

    def __init__(self, called: Callable[..., Any], *arguments: object) -> None:
        self._what = called, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self._what


@given(PLAIN, st.integers(4, pickle.HIGHEST_PROTOCOL))
def test_plain_data_is_what_was_pickled(value: object, protocol: int) -> None:
    """Whatever holds no objects is read as it was."""
    assert read_pickle(pickle.dumps(value, protocol)) == value


@given(TEXTS, st.integers(0, 3))
def test_older_protocols_are_read_too(value: object, protocol: int) -> None:
    """They write bytes and sets as calls, and all else as it is."""
    assert read_pickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("called", "arguments"),
    [
        (os.system, ("touch {}",)),
        (subprocess.check_call, (["touch", "{}"],)),
        (builtins.eval, ("open({!r}, 'w')",)),
        (builtins.exec, ("open({!r}, 'w')",)),
        (builtins.open, ("{}", "w")),
        (builtins.__import__, ("antigravity",)),
    ],
)
def test_a_hostile_pickle_runs_nothing(
    protocol: int, called: Callable[..., Any], arguments: tuple[object, ...], tmp_path: Path
) -> None:
    """What Python would call on loading is a record of it, and nothing is called or imported."""
    trap = tmp_path / "trap"
    said = tuple(each.format(trap) if isinstance(each, str) else ["touch", str(trap)] for each in arguments)
    found = read_pickle(pickle.dumps(_Calls(called, *said), protocol))
    assert isinstance(found, Record)
    assert found.arguments == said
    assert not trap.exists()


def test_python_itself_would_have_run_it(tmp_path: Path) -> None:
    """The traps of these tests work: the same pickle, loaded by Python, does what it says."""
    trap = tmp_path / "trap"
    pickle.loads(pickle.dumps(_Calls(os.system, f"touch {trap}")))  # noqa: S301
    assert trap.exists()


def test_the_reader_does_not_know_pickle() -> None:
    """It imports no machine that could run one."""
    assert not hasattr(inert_pickle, "pickle")
    assert not hasattr(inert_pickle, "find_class")


def test_what_has_a_state_keeps_it() -> None:
    """Objects are records of their class, arguments, state and members."""
    ordered = read_pickle(pickle.dumps(collections.OrderedDict(a=1)))
    assert isinstance(ordered, Record)
    assert (ordered.name, ordered.items) == ("collections.OrderedDict", [("a", 1)])
    moment = read_pickle(pickle.dumps(datetime.timedelta(1, 2, 3)))
    assert isinstance(moment, Record)
    assert (moment.name, moment.arguments) == ("datetime.timedelta", (1, 2, 3))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "can't be read"),
        (b"not a pickle", "can't be read"),
        (b"\x80\x05N", "can't be read"),
        (b"N", "can't be read"),
        (b".", "can't be read"),
        (b"NN.", "can't be read"),
        (b"0.", "can't be read"),
        (b"h\x05.", "can't be read"),
        (b"e.", "can't be read"),
        (b"Nb.", "can't be read"),
        (b"(.", "can't be read"),
        (b"cos\nsystem\nNR.", "can't be read"),
        (b"I1\nI2\nR.", "can't be read"),
        (b"P1\n.", "asks for more"),
        (b"NQ.", "asks for more"),
        (b"\x82\x01.", "asks for more"),
        (b"\x97.", "asks for more"),
        (b"}(]Nu.", "can't be read"),
        (b"\x8b\x10\x00\x00\x00" + b"\x7f" * 16 + b".", "can't be read"),
        (b"L" + b"9" * 5000 + b"L\n.", "can't be read"),
        (b"N0" * 60_000 + b"N.", "steps"),
        (b"N" * (inert_pickle.MOST_BYTES + 1), "bytes"),
    ],
)
def test_what_is_no_data_is_refused(data: bytes, why: str) -> None:
    """Broken, endless and too long ones, and what asks for objects of others, are errors of the input."""
    with pytest.raises(InvalidInput, match=why):
        read_pickle(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_data_or_refused(data: bytes) -> None:
    """No bytes raise anything else."""
    try:
        read_pickle(data)
    except InvalidInput:
        pass


def test_what_python_would_hash_or_walk_for_ever_is_no_key() -> None:
    """A tuple of tuples, each twice in the next one, is read at once, and refused as a key."""
    doubled = b")" + b"2\x86" * 5_000
    assert isinstance(read_pickle(doubled + b"."), tuple)
    with pytest.raises(InvalidInput):
        read_pickle(b"}" + doubled + b"Ns.")


def test_a_number_of_memory_takes_no_memory() -> None:
    """`LONG_BINPUT` may name the place 2^32 - 1, for which Python's own machine makes a table."""
    assert read_pickle(b"Nr\xff\xff\xff\xff.") is None
