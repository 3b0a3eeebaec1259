"""How a keeper or a worker process tells the administrator what it can tell nobody else: on its standard error."""

import os


def complain(text: str) -> None:
    """Write one line, behind our name, if anybody still listens.

    Not by `sys.stderr`: in a worker process that is the output of the very run of which this may tell.
    """
    try:
        os.write(2, f"tokimori {text}\n".encode())
    except OSError:
        pass
