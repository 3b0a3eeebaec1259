"""A node whose scheduling loop stops: `python -m tests.programs.frozen_node FILE`; all else is as with `serve`.

As soon as the file is there, the loop waits for ever for what never comes if it says `hang`; if it says `hold`, it lets
nobody else have the process for half a minute.
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from tokimori.cli.output import announce
from tokimori.clock import SystemClock
from tokimori.config.settings import load_settings
from tokimori.engine.firing import Firing
from tokimori.node.wiring import serve

step: Any = Firing.step


def is_faulty(file: Path) -> bool:
    """Whether the loop is to hang from now on."""
    if not file.exists():
        return False
    if file.read_text() == "hold":
        time.sleep(30)
    return True


async def live(file: Path) -> int:
    """Take part, until the file is there."""

    async def frozen(firing: Firing, *args: Any, **kwargs: Any) -> Any:
        if is_faulty(file):
            await asyncio.sleep(3600)
        return await step(firing, *args, **kwargs)

    Firing.step = frozen  # type: ignore[assignment, method-assign]
    settings = load_settings({"http.port": 0}, os.environ, cwd=Path.cwd()).settings
    return await serve(settings, announce, SystemClock(), shows_secret=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(live(Path(sys.argv[1]))))
