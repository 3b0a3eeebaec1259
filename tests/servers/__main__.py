"""`python -m tests.servers`: install the servers and the browser that the tests start, or say how (exit code 2)."""

import os
import shutil
import subprocess
import sys

from tests.servers import browser, mariadb, postgres, redis


def main() -> int:
    """Whether all of them are there now."""
    if not _missing():
        return 0
    if os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in ("apt-get -q update", f"{_install()} -q -y --no-install-recommends"):
            subprocess.run(command.split(), check=False, stdout=subprocess.DEVNULL, env=quiet)
    if not _missing():
        return 0
    sys.stderr.write(f"The tests start programs which are missing. As root: {_install()}\n")
    return 2


def _missing() -> list[str]:
    """The packages of what is not there."""
    packages = []
    if postgres.programs() is None or postgres.pooler_program() is None:
        packages.append(postgres.PACKAGES)
    if not mariadb.is_there():
        packages.append(mariadb.PACKAGES)
    if redis.program() is None:
        packages.append(redis.PACKAGES)
    if shutil.which("systemd-analyze") is None:
        packages.append("systemd")
    if browser.program() is None:
        packages.append(browser.PACKAGES)
    return packages


def _install() -> str:
    return f"apt-get install {' '.join(_missing())}"


if __name__ == "__main__":
    sys.exit(main())
