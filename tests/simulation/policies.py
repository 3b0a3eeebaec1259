"""The policies of DESIGN §4 and §5 once more, in the plainest words; and whatever was decided, held against them.

What is known of a decision does not come from whoever made it: the store notes how many runs were active whenever it
told somebody of a job, and what it took.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tokimori.clock import SECOND, Moment
from tokimori.model.ids import JobId, RunId
from tokimori.model.job import Definition, JobState, limit_of
from tokimori.model.policies import Misfire, Overlap
from tokimori.model.run import Run, Skip

RUN = "run"
Ledger = Mapping[Moment, str]
"""What became of each occurrence: `run`, or the reason of its skip."""


class Fate(NamedTuple):
    """What becomes of occurrences, and whether the scheduled runs from before are cancelled for them."""

    ledger: Ledger
    replaces: bool


def fate(definition: Definition, due: Sequence[Moment], now: Moment, active: int) -> Fate:
    """What becomes of all the occurrences that are to be decided now, while so many runs of their job are active."""
    now = Moment(now - round(definition.delay * SECOND))
    oldest = min(due, default=now) if definition.grace is None else now - round(definition.grace * SECOND)
    told = {moment: "grace" for moment in due if moment < oldest}
    late = now - round(definition.late_after * SECOND)
    missed = [moment for moment in due if oldest <= moment < late]
    young = [moment for moment in due if moment >= max(oldest, late)]
    runs: list[Moment] = []
    replaces = False
    match definition.misfire:
        case Misfire.ALL:
            runs += missed
        case Misfire.LATEST:
            told |= dict.fromkeys(missed[:-1], "misfire")
            young = missed[-1:] + young
        case Misfire.SKIP:
            told |= dict.fromkeys(missed, "misfire")
    for moment in young:
        busy, limit = len(runs) + (0 if replaces else active), limit_of(definition)
        if not limit or busy < limit:
            runs.append(moment)
        elif definition.on_overlap is Overlap.SKIP:
            told[moment] = "overlap"
        elif definition.on_overlap is Overlap.REPLACE:
            told |= dict.fromkeys(runs, "overlap")
            runs, replaces = [moment], replaces or active > 0
        elif definition.max_waiting is None or busy < limit + definition.max_waiting:
            runs.append(moment)
        else:
            told[moment] = "full"
    return Fate(told | dict.fromkeys(runs, RUN), replaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The store has taken that all occurrences of a job after `start`, up to and including `end`, are decided.

    `planned`: by a plan, made at `now` by the clock of whoever made it; otherwise by an edit or a resumption.
    `definition`, `state`: the job's until then. `actives`: how many runs were active, each time that somebody was told
    of the job in this state. `standing`: the scheduled runs that were active as it was taken, at virtual second `at`.
    """

    job_id: JobId
    definition: Definition
    state: JobState
    start: Moment
    end: Moment
    now: Moment
    planned: bool
    actives: frozenset[int]
    standing: tuple[RunId, ...]
    at: float

    def fates(self, due: Sequence[Moment]) -> list[Fate]:
        """All that may become of these occurrences."""
        if self.planned:
            return [fate(self.definition, due, self.now, active) for active in sorted(self.actives)]
        # An edit decides all by the old definition first: of an enabled job nothing is left for it.
        return [Fate({} if self.state is JobState.ENABLED else dict.fromkeys(due, self.state.value), replaces=False)]


@dataclass(frozen=True, slots=True)
class Judged:
    """What was decided otherwise than the policies say; and by which decision each run was replaced, at what second."""

    faults: Sequence[str]
    replaced: Mapping[RunId, float]


def judged(moments: Sequence[Moment], ledger: Ledger, decisions: Iterable[Decision]) -> Judged:
    """One decision of a job after the other, in their order; `ledger` is what became of the job's occurrences."""
    faults: list[str] = []
    replaced: dict[RunId, float] = {}
    for each in decisions:
        due = [moment for moment in moments if each.start < moment <= each.end]
        found = {moment: ledger.get(moment, "nothing") for moment in due}
        fates = each.fates(due)
        fitting = [one for one in fates if one.ledger == found]
        if not fitting:
            wanted = " or ".join(str(dict(one.ledger)) for one in fates)
            faults.append(f"{each.job_id}: at {each.now} it became {found}, by its policies {wanted}")
        elif all(one.replaces for one in fitting):
            replaced |= {run_id: replaced.get(run_id, each.at) for run_id in each.standing}
    return Judged(faults, replaced)


def ledger_of(moments: Sequence[Moment], runs: Iterable[Run], skips: Iterable[Skip]) -> Ledger:
    """What the store says of a job's occurrences."""
    ledger = {run.nominal: RUN for run in runs if run.origin.startswith("s:")}
    for skip in skips:
        ledger |= {moment: skip.reason.value for moment in moments if skip.first <= moment <= skip.last}
    return ledger
