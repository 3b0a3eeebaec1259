import asyncio
import threading

from tokimori.service.long_work import Aside


async def test_the_loop_goes_on_meanwhile() -> None:
    """What is computed for somebody does not hold the loop: the loop itself lets the work end here."""
    go = threading.Event()
    work = asyncio.create_task(Aside().compute(lambda: go.wait(20)))
    asyncio.get_running_loop().call_soon(go.set)
    assert await work


async def test_one_thing_at_a_time() -> None:
    """However many ask at once, one thread computes."""
    aside, inside = Aside(), threading.Semaphore(1)

    def work() -> bool:
        alone = inside.acquire(blocking=False)
        if alone:
            inside.release()
        return alone

    assert all(await asyncio.gather(*(aside.compute(work) for _ in range(20))))
