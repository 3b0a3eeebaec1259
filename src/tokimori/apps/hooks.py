"""Hooks: what is called before and after each function, in the thread that runs it.

So far those are what the libraries ask for that a program has loaded. Django keeps a connection for each thread, and
closes one that is broken or too old only between two requests: here that is between two functions.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

Hook = Callable[[], object]
DJANGO = "django.db"
"""The module without which there are none."""


def hooks() -> tuple[Hook, ...]:
    """Return what is to be called now: a function may have loaded a library meanwhile."""
    if DJANGO not in sys.modules:
        return ()
    db, conf = (cast("Any", sys.modules.get(f"django.{name}")) for name in ("db", "conf"))
    if conf is None or not conf.settings.configured:
        return ()
    hook: Hook | None = getattr(db, "close_old_connections", None)  # none while it is being imported
    return () if hook is None else (hook,)


def called_async(hook: Hook) -> Awaitable[object]:
    """Call a hook in the thread in which Django does what coroutines await."""
    from asgiref.sync import sync_to_async  # noqa: PLC0415  a part of Django

    called: Awaitable[object] = sync_to_async(hook, thread_sensitive=True)()
    return called
