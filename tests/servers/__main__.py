"""`python -m tests.servers`: install the servers that the tests start, or say how (exit code 2)."""

import os
import subprocess
import sys

from tests.servers import postgres


def main() -> int:
    """Whether all servers are there now."""
    if _are_there():
        return 0
    if os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in ("apt-get -q update", f"{postgres.INSTALL} -q -y --no-install-recommends"):
            subprocess.run(command.split(), check=False, stdout=subprocess.DEVNULL, env=quiet)
    if _are_there():
        return 0
    sys.stderr.write(f"The tests start PostgreSQL and PgBouncer, which are missing. As root: {postgres.INSTALL}\n")
    return 2


def _are_there() -> bool:
    return postgres.programs() is not None and postgres.pooler_program() is not None


if __name__ == "__main__":
    sys.exit(main())
