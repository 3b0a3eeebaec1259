"""Log lines about the code of an app: once for each code, however often it is loaded."""

import logging

log = logging.getLogger(__name__)

SLOW_IMPORT = 10.0
"""Seconds after which somebody who waits for an app to be imported is told why nothing happens, again and again."""


class Telling:
    """Lines said so far. `unable`: why no function starts now, empty if they do.

    `generation` is that of the newest code, `told_in` that of the code of which was said that none is started.
    """

    def __init__(self) -> None:
        self.unable = ""
        self._found: tuple[str, ...] = ()
        self.told_in: int | None = None
        self._slow_in: int | None = None

    def found(self, *found: str) -> None:
        """Return why the last process failed, and what it wrote, which is for the log alone."""
        self._found = found or self._found

    def cannot(self, generation: int) -> bool:
        """No function is started; whether that, or why, is new."""
        why = self._found[0] if self._found else ""
        if (generation, why) == (self.told_in, self.unable):
            return False
        if generation != self.told_in:
            said = ": ".join(self._found)
            log.error("no function is started here, and none is claimed, until a process of the app lives: %s", said)
        self.told_in, self.unable = generation, why
        return True

    def can(self) -> bool:
        """They are started; whether that is new."""
        if self.told_in is None:
            return False
        self.told_in, self.unable = None, ""
        log.warning("functions are started again, and claimed")
        return True

    def imports(self, app: str, generation: int, *, others: bool) -> None:
        """Report that the newest code is importing for long; `others`: processes with older code go on meanwhile."""
        self.found(f"the app {app!r} is still being imported")
        if others and generation != self._slow_in:
            self._slow_in = generation
            log.warning("the new code is still being imported; the processes with the code of before go on")
