"""`make pictures`: what is drawn, and the company that is drawn."""

import struct
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

from docs.pictures.browser import paths
from docs.pictures.company import NOW, Turn, parts, play
from docs.pictures.history import Company
from docs.pictures.shrink import _chunk, _chunks, _paeth, shrunk
from docs.pictures.things import add_things
from tokimori.web.screens.registry import SCREENS


def test_every_screen_has_a_picture() -> None:
    """Each with a name of its own, so that a new screen is looked at, too."""
    found = paths(defaultdict(lambda: "x"))
    assert len(found) == len(SCREENS) - 3  # two ask before an act, and without a key there is no secret
    assert len(set(found)) == len(set(found.values())) == len(found)
    assert all("{" not in path for path in found.values())


def test_a_run_goes_the_same_way_each_time() -> None:
    """Pictures differ by what has changed."""
    assert play(Turn("etl-orders-load", NOW, NOW), 34) == play(Turn("etl-orders-load", NOW, NOW), 34)


async def test_its_jobs_are_valid(tmp_path: Path) -> None:
    """What is declared of the company is accepted by the service."""
    company = Company(tmp_path)
    await company.store.open()
    await company.store.migrate()
    await add_things(company.acting("ana"))
    for part in parts():
        await company.acting("ana").jobs.add(part.job_id, **part.fields)
    assert len(await company.service.jobs.list(limit=1000)) == 60 + 2 + 2 + 1
    await company.store.close()


@pytest.mark.parametrize("kind", range(5))
def test_a_picture_with_few_colours_is_the_same(kind: int) -> None:
    """Each filter of PNG is undone; the palette has the colours that there were."""
    pixels = [bytes([10 * x, 20 * y, 30]) for y in range(3) for x in range(4)]
    rows = [b"".join(pixels[4 * y : 4 * y + 4]) for y in range(3)]
    body = b"".join(
        bytes([kind]) + _filtered(kind, row, above) for row, above in zip(rows, [bytes(12), *rows], strict=False)
    )
    parts = ((b"IHDR", struct.pack(">IIBBBBB", 4, 3, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(body)), (b"IEND", b""))
    small = shrunk(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts))
    (palette,), (data,) = _chunks(small, b"PLTE"), _chunks(small, b"IDAT")
    lines = zlib.decompress(data)
    places = [lines[5 * y + 1 + x] for y in range(3) for x in range(4)]
    assert [palette[3 * place : 3 * place + 3] for place in places] == pixels


def _filtered(kind: int, row: bytes, above: bytes) -> bytes:
    left, corner = bytes(3) + row, bytes(3) + above
    guesses = ((0, a, b, (a + b) // 2, _paeth(a, b, c)) for a, b, c in zip(left, above, corner, strict=False))
    return bytes((value - guess[kind]) & 255 for value, guess in zip(row, guesses, strict=True))
