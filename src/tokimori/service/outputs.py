"""Reading what an attempt wrote, of which the store keeps the first and the last bytes. Pure."""

from tokimori.model.run import Output


def whole(output: Output) -> bytes:
    """All that is kept, with a line where bytes are left out."""
    missing = output.size - len(output.head) - len(output.tail)
    gap = f"\n… {missing} bytes left out …\n".encode() if missing > 0 else b""
    return output.head + gap + output.tail


def unread(output: Output, position: int) -> tuple[int, bytes]:
    """What follows the first `position` bytes: how many bytes are lost, and those that are known."""
    in_head = output.head[position:]
    tail_begins = output.size - len(output.tail)
    reached = max(position, len(output.head))
    missed = max(0, tail_begins - reached)
    return missed, in_head + output.tail[max(0, reached - tail_begins) :]
