"""Random bytes: as good as the machine's, and asked for seldom."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from tokimori.randomness import BLOCK, BLOCKS, Randomness


def test_the_machine_is_asked_once_for_many() -> None:
    """Each gets bytes of its own, of the length that it wants; what is long is fetched by itself."""
    asked = list[int]()

    def fetch(number: int) -> bytes:
        asked.append(number)
        return os.urandom(number)

    random = Randomness(fetch)
    found = [random(8) for _ in range(BLOCKS)]
    assert [len(each) for each in found] == [8] * BLOCKS
    assert len({*found}) == BLOCKS
    assert asked == [BLOCK * BLOCKS]
    assert len(random(BLOCK + 1)) == BLOCK + 1
    assert asked == [BLOCK * BLOCKS, BLOCK + 1]


def test_threads_get_different_bytes() -> None:
    """Also where what is kept runs out meanwhile."""
    random = Randomness()
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(lambda _: [random(BLOCK) for _ in range(1_000)], range(8))]
    assert len({each for some in found for each in some}) == 8_000


def test_a_process_that_was_forked_uses_no_bytes_of_its_parent() -> None:
    """Both have what was fetched before."""
    pids, fetched = iter([1, 1, 2, 1]), count(1)
    random = Randomness(lambda number: bytes([next(fetched)]) * number, lambda: next(pids))
    assert [random(2)[0] for _ in range(4)] == [1, 1, 2, 3]
