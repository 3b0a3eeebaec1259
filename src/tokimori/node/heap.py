"""The heap of a node, and how often Python's garbage collector looks through it."""

import gc

YOUNG = 10_000
"""The collector looks through new objects when there are so many of them (Python 3.11: 700). A claim brings some 5,000,
nearly all of which are freed without it: to look through them took 7 % of what a no-op takes the node. But garbage in
cycles waits for it: with 20,000 what 1,200 broken uploads of 0.9 MB left took up to 127 MB."""
YOUNG_LOOKS = 50
"""After so many of these looks it looks through what they have left, too (Python 3.11: 10)."""


def spare_the_collector() -> None:
    """Keep loaded objects from the collector, and let it look rarely: its looks hold up the loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_LOOKS)
