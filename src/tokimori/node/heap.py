"""The heap of a node, and how often Python's garbage collector looks through it."""

import gc

YOUNG, YOUNG_LOOKS = 20_000, 50
"""So many new objects more than were freed bring on a look through them (Python: 700), so many of these one through
what they have left (Python: 10). What two claims bring is 10,000: nearly all of it is freed without any look, and each
of these cost time in the loop, together 7 % of what a no-op took the node."""


def spare_the_collector() -> None:
    """What is loaded by now stays, what comes is mostly freed without the collector: its looks hold up the loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_LOOKS)
