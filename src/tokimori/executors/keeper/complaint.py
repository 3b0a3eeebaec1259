"""Complaints of a keeper or a worker process on standard error, if no other channel is left."""

import os


def complain(text: str) -> None:
    """Write one line, behind our name, if standard error is still open.

    It does not use `sys.stderr`, which in a worker process is the output of a run.
    """
    try:
        os.write(2, f"tokimori {text}\n".encode())
    except OSError:
        pass
