"""Small pictures for the manual: a screen has few colours, and the 256 most frequent of them are enough."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

MOST_COLOURS = 256


def shrunk(png: bytes) -> bytes:
    """Return a picture of Chromium (8 bits a channel, without alpha) as one with a palette."""
    width, height, channels = _size(png)
    rows = list(_rows(zlib.decompress(b"".join(_chunks(png, b"IDAT"))), width * channels, height, channels))
    counts = Counter[bytes]()
    for row in rows:
        counts.update(row[at : at + 3] for at in range(0, len(row), channels))
    palette = _palette([colour for colour, _ in counts.most_common()])
    places = {colour: place for place, colour in enumerate(palette)}
    near: dict[bytes, int] = {}  # colours that are alike go to the same one
    for colour in counts:
        if colour not in places:
            like = bytes(value >> 3 for value in colour)
            if like not in near:
                near[like] = min(range(len(palette)), key=lambda place: _distance(palette[place], colour))
            places[colour] = near[like]
    lines = (bytes(places[row[at : at + 3]] for at in range(0, len(row), channels)) for row in rows)
    body = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", body), (b"IEND", b""))
    return png[:8] + b"".join(_chunk(kind, data) for kind, data in parts)


def _palette(often: Sequence[bytes]) -> Sequence[bytes]:
    """Return the colours of the palette: the most frequent of each kind, as a rare sign keeps its own, and others."""
    kinds: dict[bytes, bytes] = {}
    for colour in often:
        kinds.setdefault(bytes(value >> 5 for value in colour), colour)
    return list(dict.fromkeys([*kinds.values(), *often]))[:MOST_COLOURS]


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _size(png: bytes) -> tuple[int, int, int]:
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    if depth != 8 or kind not in (2, 6):
        raise ValueError("the picture is not one of Chromium")
    return width, height, 3 if kind == 2 else 4


def _chunks(png: bytes, wanted: bytes) -> Iterator[bytes]:
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == wanted:
            yield png[at + 8 : at + 8 + length]
        at += 12 + length


def _rows(data: bytes, length: int, height: int, step: int) -> Iterator[bytes]:
    """Yield the rows without the filters of PNG (section 9 of its specification)."""
    above = bytes(length)
    for number in range(height):
        at = number * (length + 1)
        above = _unfiltered(data[at], data[at + 1 : at + 1 + length], above, step)
        yield above


def _unfiltered(kind: int, line: bytes, above: bytes, step: int) -> bytes:
    row = bytearray(line)
    for at in range(len(row) if kind else 0):
        left = row[at - step] if at >= step else 0
        up = above[at]
        corner = above[at - step] if at >= step else 0
        row[at] = (row[at] + (0, left, up, (left + up) // 2, _paeth(left, up, corner))[kind]) & 255
    return bytes(row)


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))
