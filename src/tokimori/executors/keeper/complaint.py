"""Complaints of a keeper or a worker process on standard error, which nobody else can receive."""

import os


def complain(text: str) -> None:
    """Write one line, behind our name, if anybody still listens.

    Not by `sys.stderr`: in a worker process that is the output of the very run of which this may tell.
    """
    try:
        os.write(2, f"tokimori {text}\n".encode())
    except OSError:
        pass
