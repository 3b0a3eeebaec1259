"""How the keeper tells the administrator what it can tell nobody else: on the node's standard error."""

import sys


def complain(text: str) -> None:
    """Write one line, if anybody still listens."""
    try:
        sys.stderr.write(f"tokimori keeper: {text}\n")
        sys.stderr.flush()
    except OSError:
        pass
