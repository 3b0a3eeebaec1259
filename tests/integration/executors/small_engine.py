"""An engine to be frozen and killed: it starts the commands that its arguments name, and tells what it hears.

python -m tests.integration.executors.small_engine FOLDER [bound:|free:]SHELL-TEXT…
"""

import asyncio
import sys
from pathlib import Path

from tests.integration.executors.workshop import Workshop, shell
from tokimori.executors.keeper.kernel import boottime
from tokimori.ports.executor import Ended, Report


def tell(report: Report) -> None:
    """One line for each report."""
    what = report.outcome if isinstance(report, Ended) else ""
    sys.stdout.write(f"{type(report).__name__} {report.run_id} {what}\n")
    sys.stdout.flush()


async def main(folder: Path, commands: list[str]) -> None:
    """Until killed."""
    workshop = Workshop(folder)
    await workshop.executor.open(tell)
    workshop.executor.renew(boottime())
    for number, text in enumerate(commands):
        kind, _, command = text.partition(":")
        workshop.start(f"{kind}-{number}", shell(command), kill_on_lost_lease=kind == "bound")
    while True:
        await asyncio.sleep(0.5)
        workshop.executor.renew(boottime())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
