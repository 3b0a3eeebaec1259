"""End of a worker process and its last output, in words for people. Pure."""

from tokimori.executors.keeper import wire
from tokimori.executors.outcomes import signal_name

_MOST_SAID = 4000


def how_it_ended(ended: wire.ProcessEnded) -> str:
    """Return its exit code or its signal, and who sent that."""
    if ended.cause in (wire.EndCause.NOT_STARTED, wire.EndCause.SHORT):
        return ended.error
    status = ended.status or 0
    by = {wire.EndCause.LEASE: ", its node's lease ran out", wire.EndCause.STOP: ", its node ended it"}
    words = f"exit code {status}" if status >= 0 else f"signal {-status}, {signal_name(-status)}"
    return words + by.get(wire.EndCause(ended.cause), "")


def last_words(ended: wire.ProcessEnded) -> str:
    """Return the end of what it wrote itself, outside of its runs."""
    return said(wire.to_bytes(ended.tail) or wire.to_bytes(ended.head))


def said(data: bytes) -> str:
    """Return the end of this output."""
    return data[-_MOST_SAID:].decode(errors="replace").strip()
