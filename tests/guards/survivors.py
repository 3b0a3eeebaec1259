"""What `make mutants` has found that no test misses, and why none has to: see decision 50."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Survivor:
    """In the package's `file`, `text` may become `mutant`."""

    file: str
    text: str
    mutant: str
    reason: str


SURVIVORS: tuple[Survivor, ...] = (
    Survivor(
        "stores/rules/admission.py",
        "return self._joins(key, LinePlace(run.rank, run.id, 1)",
        "return self._joins(key, LinePlace(run.rank, run.id, 2)",
        "of a run that may join a line only rank and id are compared; what it wants was judged before",
    ),
    Survivor(
        "stores/rules/admission.py",
        "place = LinePlace(run.rank, run.id, weight)",
        "place = LinePlace(run.rank, run.id, None)",
        "the same",
    ),
    Survivor(
        "stores/rules/new_runs.py",
        "for planned, run_id in zip(plan.runs, ids, strict=True):",
        "for planned, run_id in zip(plan.runs, ids, strict=False):",
        "a check against slips of ours: every caller makes an id for each run",
    ),
    Survivor(
        "stores/rules/settling.py",
        'SettleFacts("", facts.node_id, facts.token, by, change.token)',
        'SettleFacts("running", facts.node_id, facts.token, by, change.token)',
        "a second change with that token was applied already, and one with another token is refused for it",
    ),
)
