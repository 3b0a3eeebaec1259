"""The app whose functions are measured."""

import time

import tokimori

app = tokimori.App("bench")


@app.job()
def nothing() -> None:
    """A no-op."""


@app.job()
def burn(seconds: float) -> None:
    """Use a core for so long."""
    burn_cpu(seconds)


@app.job()
def moment(number: int) -> float:
    """Return the moment at which it ends."""
    return time.time()


def burn_cpu(seconds: float) -> None:
    """So many seconds of CPU of the calling thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
