"""Advice on threads that only wait for each other, for Python's interpreter has one lock. Pure.

Sixteen threads that burn CPU get no more done than one of them, and hand on the lock up to 200 times a second. The next
one is often woken on the core of the last one, while another core idles: that took a tenth of two cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LEAST, MOST = 0.6, 1.2
"""So much of a core is used by a process whose threads share one lock, if they have no other work than what needs it:
less where the machine is busy, and more only by what works without the lock."""
OWN = 0.3
"""So much of that at least its functions use: else something else in the process burns CPU, which does not rest."""
FAIR = 0.5
"""A thread burns CPU if it used so much of an equal share; all others wait for something else."""
WORSE = 0.75
"""Where fewer threads have used only so much of what all of them did, all are let go again."""
HOLDS = 0.1, 1.6
"""Seconds until it is tried again with fewer: each time that this was worse twice as long, up to the second number."""
PROBES = 0.25, 1.0
"""Seconds after which one more is tried beside one that burns CPU, as it may work without the lock: each time that this
was in vain twice as long, up to the second number."""
LATELY = 0.2
"""Seconds for which what was seen counts."""


@dataclass(frozen=True, slots=True)
class Use:
    """Work of one thread for a while: CPU used (seconds), and whether it took something new."""

    cpu: float
    took: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """Threads that shall take nothing more, and how many others shall wake; None: as many as can be."""

    rest: frozenset[int] = frozenset()
    wake: int | None = None


class Contention:
    """Is asked again and again, while some of what there is to do waits for a thread."""

    def __init__(self) -> None:
        self._before = 0.0
        """The share of a core that was used before fewer were let go."""
        self._hold = HOLDS[0]
        self._rested_at = self._contended_at = self._asked_at = float("-inf")
        self._hold_until = self._probe_at = 0.0
        self._pause, self._probes = PROBES[0], False
        """Seconds between two probes, and whether the last one is under way."""

    def lately(self, at: float) -> bool:
        """Return whether more threads would only have waited for the lock a moment ago."""
        return at - self._contended_at < LATELY

    def advise(self, share: float, own: float, uses: Sequence[Use], at: float) -> Advice:
        """Return advice, from the share of a core that the process has used, and from each thread's work.

        `own` is the part of it that all threads of functions have used, those that wait for work now included.

        A thread that took nothing is at something long, and can make no room. Where none of the others burns CPU one
        more is woken, and one for each thread that uses little: what waits for them may be such, too.
        """
        asked, self._asked_at = at - self._asked_at < LATELY, at
        self._compare(share, at)
        contended = at >= self._hold_until and LEAST <= share <= MOST and own >= OWN * share
        if not (contended and asked):
            self._pause, self._probes = PROBES[0], False
            self._probe_at = min(self._probe_at, at + self._pause)
        if not contended:
            self._contended_at = float("-inf")
            return Advice()
        self._contended_at = at
        if not asked:
            return Advice(wake=1)
        fair = FAIR * sum(use.cpu for use in uses) / max(1, len(uses))
        burning = [number for number, use in enumerate(uses) if use.took and use.cpu >= fair]
        if len(burning) > 1:
            self._pause = min(2 * self._pause, PROBES[1]) if self._probes else self._pause
            self._probe_at, self._probes = at + self._pause, False
            self._before, self._rested_at = share, at
            return Advice(rest=frozenset(burning[1:]), wake=0)
        one_more = not burning or at >= self._probe_at
        if one_more:
            self._probe_at, self._probes = at + self._pause, True
        return Advice(wake=one_more + sum(use.cpu < fair for use in uses))

    def _compare(self, share: float, at: float) -> None:
        """With fewer less may be used: then what they do needs more than the lock."""
        if at - self._rested_at < LATELY:
            worse = share < WORSE * self._before
            self._hold_until = at + self._hold if worse else at
            self._hold = min(2 * self._hold, HOLDS[1]) if worse else HOLDS[0]
        self._rested_at = float("-inf")
