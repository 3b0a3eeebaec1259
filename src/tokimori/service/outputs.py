"""The output of an attempt, of which the store keeps the first and the last bytes. Pure."""

from tokimori.model.run import Output


def whole(output: Output) -> bytes:
    """Return all bytes that are kept, with a line in place of those that are left out."""
    return since(output, 0)


def since(output: Output, position: int) -> bytes:
    """Return the bytes after the first `position` ones, with a line in place of those that are left out."""
    missed, kept = unread(output, position)
    in_head = len(output.head[position:])
    gap = f"\n… {missed} bytes left out …\n".encode() if missed > 0 else b""
    return kept[:in_head] + gap + kept[in_head:]


def unread(output: Output, position: int) -> tuple[int, bytes]:
    """Return the output after its first `position` bytes: how many bytes are lost, and the bytes that are known."""
    in_head = output.head[position:]
    tail_begins = output.size - len(output.tail)
    reached = max(position, len(output.head))
    missed = max(0, tail_begins - reached)
    return missed, in_head + output.tail[max(0, reached - tail_begins) :]
