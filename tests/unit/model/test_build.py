"""Builds are files that are named by their content: the same input is the same file, and no other passes for it."""

import io
import struct
import zipfile
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.laws import examples
from tokimori.errors import InvalidInput, Refused
from tokimori.model.build import (
    LARGEST,
    LARGEST_MANIFEST,
    MANIFEST,
    MOST_PIECES,
    PIECE,
    Manifest,
    check_build_name,
    content_of,
    digest_of,
    frozen,
    manifest_of,
    piece_name,
    pieces_of,
)
from tokimori.model.document import LARGEST_TEXT

FILES = {"function.py": b"def function(): ...\n", "data/a.txt": b"a", "__main__.py": b""}
BUILD = frozen({}, Manifest(task="t"))
NAMES = some.text("abc/._é", min_size=1, max_size=8)


@settings(max_examples=examples(40), deadline=None)
@given(files=some.dictionaries(NAMES, some.binary(max_size=50), max_size=6), order=some.randoms(use_true_random=False))
def test_the_same_files_are_the_same_build(files: dict[str, bytes], order: Random) -> None:
    """Whatever the order in which they are given, all bytes of it are the same."""
    manifest, names = Manifest(task="t"), list(files)
    order.shuffle(names)
    assert frozen({name: files[name] for name in names}, manifest) == frozen(files, manifest)


def test_a_build_is_known_on_every_machine() -> None:
    """Its digest depends on no clock, no machine and no version of a library."""
    assert digest_of(frozen(FILES, Manifest(task="t"))) == KNOWN


KNOWN = "d4605898ebe8e0984e14e11bd25575ef64b4e9744cbc58ab70d5e49d6030e113"


def test_a_build_is_another_one_if_anything_is() -> None:
    """Another content, another name, another task or another lock makes another digest."""
    first = digest_of(frozen(FILES, Manifest(task="t")))
    others = [
        frozen({**FILES, "function.py": b"def function(): pass\n"}, Manifest(task="t")),
        frozen({**FILES, "b.py": b""}, Manifest(task="t")),
        frozen(FILES, Manifest(task="u")),
        frozen(FILES, Manifest(task="t", lock=("a==1 --hash=sha256:0",))),
    ]
    assert len({first, *map(digest_of, others)}) == 5


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_pieces_are_put_together_again(size: int) -> None:
    """Each of them fits into a document, and together they are what was taken apart."""
    content = bytes(index % 251 for index in range(size))
    pieces = pieces_of(content)
    assert all(len(piece) <= LARGEST_TEXT for piece in pieces)
    assert content_of(pieces, digest_of(content)) == content
    assert len(pieces) <= MOST_PIECES


@pytest.mark.parametrize("pieces", [(), ("AAAA",), ("no base64!",), ("AA",)])
def test_what_was_changed_is_refused(pieces: tuple[str, ...]) -> None:
    """A piece that is another one, or gone, or no text of ours: the error names the build and what mends it."""
    with pytest.raises(Refused, match=r"is not what was built, and is not run.*tokimori task build") as refused:
        content_of(pieces, digest_of(b"content"))
    assert refused.value.value == digest_of(b"content")


def test_a_build_that_is_too_large_is_refused() -> None:
    """The error says how much is allowed."""
    with pytest.raises(InvalidInput, match="bytes"):
        frozen({"a": b"\0" * LARGEST}, Manifest(task="t"))


def test_a_build_says_its_manifest() -> None:
    """What a node has to know of it comes back as it was."""
    manifest = Manifest(task="t", lock=("a==1 --hash=sha256:0",), locked_for="Python 3.11")
    assert manifest_of(frozen(FILES, manifest)) == manifest


def zipped(text: bytes, name: str = MANIFEST, how: int = zipfile.ZIP_STORED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", how) as archive:
        archive.writestr(name, text)
    return written.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"no zip", zipped(b"{}"), zipped(b"{}", "other"), zipped(b"\xff"), zipped(b" " * (LARGEST_MANIFEST + 1))],
)
def test_what_is_no_build_is_refused(content: bytes) -> None:
    """Whatever stands in the store, it raises an error of ours."""
    with pytest.raises(Refused, match="build"):
        manifest_of(content)


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_small_file_does_not_become_a_large_one(how: int) -> None:
    """One that is compressed is refused before it is read: the size that it says may be a lie."""
    assert manifest_of(zipped(b'{"task":"t"}')) == Manifest(task="t")
    with pytest.raises(Refused, match="compressed"):
        manifest_of(zipped(b'{"task":"t"}', how=how))


@settings(deadline=None)
@given(changes=some.lists(some.tuples(some.integers(0, len(BUILD) - 1), some.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_build_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    """No other error leaves it: a node would never say how the run ended."""
    damaged = bytearray(BUILD)
    for place, byte in changes:
        damaged[place] = byte
    with suppress(Refused):
        manifest_of(bytes(damaged))


def test_a_build_that_says_more_than_there_is_is_refused() -> None:
    """Its manifest would go on behind the end of the file."""
    size = struct.pack("<LL", 12, 12)
    longer = struct.pack("<LL", 200_000, 200_000)
    with pytest.raises(Refused):
        manifest_of(zipped(b'{"task":"t"}').replace(size, longer))


@pytest.mark.parametrize(
    ("task", "digest"),
    [("", "0" * 64), ("../t", "0" * 64), ("t", ""), ("t", "0" * 63), ("t", "G" * 64), ("t", "0" * 64 + "\n")],
)
def test_what_names_no_build_is_refused(task: str, digest: str) -> None:
    """The error is of the field by which a job names it."""
    with pytest.raises(InvalidInput) as refused:
        check_build_name(task, digest)
    assert refused.value.field == "build"


def test_pieces_are_in_the_order_of_their_numbers() -> None:
    """Names are compared by their bytes."""
    names = [piece_name("t", "0" * 64, number) for number in range(MOST_PIECES)]
    assert names == sorted(names)
