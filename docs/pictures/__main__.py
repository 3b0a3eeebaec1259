"""Takes the pictures, for `make pictures`: see `build/pictures/`. Names such as `now-*` take some of them alone."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from docs.pictures.browser import SECRET, served, take
from docs.pictures.history import lived
from docs.pictures.shrink import shrunk

FOLDER: Final = Path("build/pictures")
MANUAL: Final = Path(__file__).parent
SHOWN: Final = tuple(f"{name}-1440-light" for name in ("now", "jobs", "run", "job-trends", "plan"))
"""Pictures that README and the manual show, with few colours, beside this file."""
SERVE: Final = "--serve"


def say(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(arguments: Sequence[str]) -> int:
    """Take pictures, or serve the page of the company until Ctrl-C; return the exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    company = await lived(FOLDER.absolute(), say)
    if SERVE in arguments:
        async with served(company.service, company.clock, 8_090) as url:
            say(f"{url}?secret={SECRET}")
            await asyncio.Event().wait()
    faults = await take(company, FOLDER, arguments, say)
    for name in SHOWN:
        if (taken := FOLDER / f"{name}.png").exists():
            (MANUAL / taken.name).write_bytes(shrunk(taken.read_bytes()))
    for fault in faults:
        say(fault)
    await company.store.close()
    say(f"See {FOLDER}/. A store that is there is used again: remove it to live the month anew.")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except KeyboardInterrupt:
        sys.exit(0)
