"""The output of an attempt, of which the store keeps the first and the last bytes. Pure."""

from tokimori.model.run import Output


def whole(output: Output) -> bytes:
    """All bytes that are kept, with a line in place of those that are left out."""
    missing = output.size - len(output.head) - len(output.tail)
    gap = f"\n… {missing} bytes left out …\n".encode() if missing > 0 else b""
    return output.head + gap + output.tail


def unread(output: Output, position: int) -> tuple[int, bytes]:
    """The output after its first `position` bytes: how many bytes are lost, and the bytes that are known."""
    in_head = output.head[position:]
    tail_begins = output.size - len(output.tail)
    reached = max(position, len(output.head))
    missed = max(0, tail_begins - reached)
    return missed, in_head + output.tail[max(0, reached - tail_begins) :]
