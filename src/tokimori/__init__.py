"""Tokimori, keeper of time: a distributed job scheduler.

APPS
    Functions of a program become jobs. `tokimori worker shop:app` runs them, on as many machines as you like.

        import tokimori

        app = tokimori.App("shop")

        @app.job("0 3 * * *", time_zone="Europe/Paris", attempts=3)
        def report() -> str:
            return "made"

        @app.job(retry_delay="10s", max_running=4)
        async def deliver(order: int, *, express: bool = False) -> str:
            return f"order {order} is delivered"

    A request returns a handle of its run, and that the result, of the annotated type. Beside each call that waits
    there is one to await, with an `a` before its name.

        handle = deliver.enqueue(7, express=True)
        print(handle.state, handle.result(timeout="1m"))
        deliver.after("2h").enqueue(8)
        deliver.asked(key="order-9", unique="until_end", expires="1h").enqueue(9)

        async def sell(order: int) -> str:
            handle = await deliver.aenqueue(order)
            return await handle.aresult(timeout="1m")

        handles = deliver.enqueue_many(deliver.request(order) for order in range(9))
        print(tokimori.gather(handles))

        family = tokimori.all([deliver.request(order) for order in range(9)]).then(report.request())
        print(family.enqueue().result(timeout="5m"))

    More: App, JobFunction, Handle, RunFamily, as_completed, retry, Worker; `app.running()` within a web server, and
    `tokimori.testing` for tests.

CLIENTS
    All that the command line does: jobs, runs, queues, semaphores, events and the rest, on a store or at a node.

        with tokimori.open("sqlite:////var/lib/tokimori/tokimori.db") as client:
            client.jobs.add("backup", schedule="every day at 4:00", command="make backup", timeout="1h")
            run = client.jobs.trigger("backup")
            print(client.runs.wait(run.id, timeout="1h").state)

        async def pause() -> None:
            async with tokimori.open_async("https://tokimori.example?secret=...") as client:
                await client.jobs.pause("backup", "the disk is full")

    More: Client, AsyncClient, their parts (`help(client.jobs)`), and what these take and return.

TASKS
    A function knows its run, and says how that goes on.

        @app.job(attempts=5)
        def resize(names: list[str]) -> int:
            task = tokimori.current_task()
            for number, name in enumerate(names):
                task.progress(number / len(names), name)
                task.checkpoint(number)
            if task.attempt < 3 and not names:
                task.retry(after="5m")
            return len(names)

    More: Task, current_task, Permanent.

ERRORS
    Each is a TokimoriError with a stable `code`, and says `field`, `value` and what is `allowed`.

        try:
            deliver.enqueue(10).result(timeout=60)
        except tokimori.RunFailed as failure:
            print(failure.type, failure.error, failure.traceback)
        except tokimori.RunNotEnded as late:
            print(late.code, "the run goes on")
        except tokimori.StoreUnavailable as fault:
            print(fault.message, "ask again: a request with a key is safe to repeat")

    More: InvalidInput, Refused, NotFound, Conflict, Forbidden, StoreError.

`help(tokimori.NAME)` says more of each name, and the manual all.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokimori.apps.names import *  # noqa: F403  each is named there

__version__ = "0.1.0"
_NAMES = "tokimori.apps.names"
_SCHEDULES = ("every", "on")
"""They need nothing else of all this: a file that says a schedule is read at once."""

if not TYPE_CHECKING:  # a type checker sees the names themselves, and finds one that is misspelt

    def __getattr__(name: str) -> object:
        """Import the clients when one of their names is first used; `__all__` is one of these."""
        if name in _SCHEDULES:
            return getattr(import_module("tokimori.schedules.fluent"), name)
        names = import_module(_NAMES)
        if name == "__all__" and sys._getframe(1).f_globals.get("__name__") == "pydoc":
            raise AttributeError(name)  # else `help(tokimori)` is 14,000 lines: this module's text is the page
        if name not in ("__all__", *names.__all__):
            raise AttributeError(f"module 'tokimori' has no attribute {name!r}")
        return getattr(names, name)

    def __dir__() -> list[str]:
        own = [name for name in globals() if name.startswith("__") and name not in ("__dir__", "__getattr__")]
        return sorted([*own, *import_module(_NAMES).__all__])
