"""`python -m tests.servers`: install the servers that the tests start, or say how (exit code 2)."""

import os
import subprocess
import sys

from tests.servers import postgres, redis

INSTALL = f"apt-get install {postgres.PACKAGES} {redis.PACKAGES}"


def main() -> int:
    """Whether all servers are there now."""
    if _are_there():
        return 0
    if os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in ("apt-get -q update", f"{INSTALL} -q -y --no-install-recommends"):
            subprocess.run(command.split(), check=False, stdout=subprocess.DEVNULL, env=quiet)
    if _are_there():
        return 0
    sys.stderr.write(f"The tests start PostgreSQL, PgBouncer and Redis, which are missing. As root: {INSTALL}\n")
    return 2


def _are_there() -> bool:
    found = (postgres.programs(), postgres.pooler_program(), redis.program())
    return None not in found


if __name__ == "__main__":
    sys.exit(main())
