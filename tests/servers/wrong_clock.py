"""A server whose clock is wrong: a library that is loaded into its process adds to it what stands in a file.

libfaketime does so too, and calls itself for ever in servers that measure while they begin (jemalloc's do).
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSTALL = "apt-get install gcc libc6-dev"
_SOURCE = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *wrong;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WRONG_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) wrong = found;
    if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (!failed && wrong && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *wrong;
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class WrongClock:
    """How wrong the wall clock is of programs that are started within `begun`."""

    def __init__(self) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            sys.exit(f"The tests need a compiler: {INSTALL}")
        self._folder = Path(tempfile.mkdtemp(prefix="tokimori-clock-", dir="/tmp"))
        self._folder.chmod(0o755)
        library, self._file = self._folder / "wrong_clock.so", self._folder / "seconds"
        line = [compiler, "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(library)]
        subprocess.run(line, input=_SOURCE, text=True, check=True)
        self._file.write_bytes(struct.pack("l", 0))
        self._variables = {"LD_PRELOAD": str(library), "WRONG_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        """From now on it is wrong by so many seconds."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("l", seconds))

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Programs that are started meanwhile have this clock."""
        os.environ.update(self._variables)
        try:
            yield
        finally:
            for name in self._variables:
                del os.environ[name]

    def remove(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._folder)
