"""What is measured, and the arithmetic of comparing it: paired ratios, their median, and whether a target is met."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

TOKIMORI = "Tokimori"

Figures = Mapping[str, float]
"""The figure for each quantity, by its name."""
Round = Mapping[str, Figures]
"""What one round measured, by contender."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that is measured. `more`: a larger figure is the better one."""

    name: str
    unit: str
    more: bool = False


class Spread(NamedTuple):
    """The middle and the ends of several figures."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        """Of at least one figure."""
        return cls(median(figures), min(figures), max(figures))


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Tokimori's figure is to be this many times as good as that contender's."""

    quantity: str
    than: str
    times: float

    def __str__(self) -> str:
        return f"{self.quantity}: at least {self.times:g}× {self.than}"


@dataclass(frozen=True, slots=True)
class AtMost:
    """Tokimori's figure is to be no more than this."""

    quantity: str
    bound: float

    def __str__(self) -> str:
        return f"{self.quantity}: at most {self.bound:g}"


Target = AtLeast | AtMost


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measurement with all its contenders: `measure(n)` makes round `n` and answers with everybody's figures.

    `most_rounds`: more of them would tell nothing new. `absent`: contenders that this machine has not, and why.
    """

    title: str
    quantities: Sequence[Quantity]
    targets: Sequence[Target]
    measure: Callable[[int], Round]
    most_rounds: int = 100
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """A question to all contenders. `trials(quick)` says how it is put; quick: smaller, and so less to be trusted."""

    name: str
    title: str
    trials: Callable[[bool], Sequence[Trial]]


@dataclass(frozen=True, slots=True)
class Result:
    """A trial and all its rounds."""

    trial: Trial
    rounds: Sequence[Round]

    @property
    def contenders(self) -> list[str]:
        """Tokimori, then the others as the first round names them."""
        return sorted(self.rounds[0], key=lambda name: name != TOKIMORI)

    def figures(self, contender: str, quantity: Quantity) -> Spread:
        """What was measured."""
        return Spread.of([figures[contender][quantity.name] for figures in self.rounds])

    def ratio(self, contender: str, quantity: Quantity) -> Spread:
        """How many times as good as the contender Tokimori was: each round compared within itself."""
        return Spread.of([_times_as_good(figures, contender, quantity) for figures in self.rounds])

    def reached(self, target: Target) -> float:
        """The median that the target is about."""
        quantity = next(each for each in self.trial.quantities if each.name == target.quantity)
        match target:
            case AtLeast(than=than):
                return self.ratio(than, quantity).median
            case AtMost():
                return self.figures(TOKIMORI, quantity).median

    def met(self, target: Target) -> bool:
        """Whether the target is reached."""
        match target:
            case AtLeast(times=times):
                return self.reached(target) >= times
            case AtMost(bound=bound):
                return self.reached(target) <= bound


def _times_as_good(figures: Round, contender: str, quantity: Quantity) -> float:
    ours, theirs = figures[TOKIMORI][quantity.name], figures[contender][quantity.name]
    better, worse = (ours, theirs) if quantity.more else (theirs, ours)
    return better / worse if worse else float("inf")
