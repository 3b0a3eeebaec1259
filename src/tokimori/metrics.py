"""Counters of a node's work, and figures of the store on demand, in the text that Prometheus reads.

Each node counts its own work: the sum over all nodes is that of the cluster. Figures of the store are the same at each
node. Labels are bounded: words of ours, and at most `MOST_QUEUES` queues.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from tokimori.clock import SECOND, Moment
from tokimori.ports.executor import AttemptTask
from tokimori.ports.meter import outcome_of
from tokimori.ports.working import Change, Claimed, Verdict

LATENESS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
DURATIONS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0)
MEMORY = tuple(float(2**power) for power in range(24, 37, 2))
CALLS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Buckets:
    """Counts of values that were at most each bound; `total` is their sum. Everything happens on one loop."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value. One below zero, by clocks that differ, counts as zero."""
        value = max(0.0, value)
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulated(self) -> Iterator[tuple[str, int]]:
        """Yield each bound and the number of values up to it; the last bound has no end."""
        names = [*map(str, self._bounds), "+Inf"]
        yield from zip(names, accumulate(self._counts), strict=True)


MEDIA = CONTENT_TYPE_LATEST
MOST_QUEUES = 50
"""The queues with the most ready runs have a label of their own, all others are `other`."""


_NOTHING: Mapping[str, int] = MappingProxyType({})


class StoreFigures(Struct, frozen=True, kw_only=True):
    """Figures of a store: living nodes, live runs by state (up to 100 of each), the newest 1,000 ready ones by queue.

    `alarms`: at most 1,000 of them. `oldest_ready`: for how many seconds the run that was due first has been ready.
    `rates` are those for which the blocked runs wait, by name: the units that are taken, and the seconds until the line
    goes on.
    """

    nodes: int = 0
    runs: Mapping[str, int] = {}
    ready: Mapping[str, int] = {}
    oldest_ready: float = 0.0
    pauses: int = 0
    alarms: int = 0
    rates: Mapping[str, tuple[int, float]] = {}


class Metrics:
    """Counts the work of one node: see `Meter`. Everything happens on its loop."""

    def __init__(self) -> None:
        self._claimed = 0
        self._outcomes: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._lateness = Buckets(LATENESS)
        self._durations = Buckets(DURATIONS)
        self._cpu, self._memory = Buckets(DURATIONS), Buckets(MEMORY)
        self._calls: dict[str, Buckets] = {}

    def claimed(self, runs: Sequence[Claimed]) -> None:
        """See `Meter`."""
        self._claimed += len(runs)

    def started(self, tasks: Sequence[AttemptTask], now: Moment) -> None:
        """See `Meter`. A later attempt is not late: it waits for its retry."""
        for task in tasks:
            if task.attempt == 1:
                self._lateness.add((now - task.due) / SECOND)

    def settled(self, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> None:
        """See `Meter`."""
        for change, verdict in zip(changes, verdicts, strict=True):
            if verdict is not Verdict.APPLIED:
                self._refused[verdict.value] += 1
                continue
            self._outcomes[outcome_of(change)] += 1
            if change.started is not None:
                self._durations.add((change.ended - change.started) / SECOND)
            if change.cpu is not None:
                self._cpu.add(change.cpu / SECOND)
            if change.memory is not None:
                self._memory.add(change.memory)

    def count_call(self, call: str, seconds: float) -> None:
        """See `Meter`."""
        buckets = self._calls.get(call)
        if buckets is None:
            self._calls[call] = buckets = Buckets(CALLS)
        buckets.add(seconds)

    def text(
        self,
        figures: StoreFigures,
        lease_left: float,
        broken: Mapping[str, int] = _NOTHING,
        silent: Iterable[str] = (),
    ) -> bytes:
        """Return all figures. `lease_left`: for how many seconds the node may still begin work without another beat.

        `broken`: how many findings each check of what must always hold has. `silent`: of each worker process that does
        not answer the run, or runs, that block it.
        """
        registry = CollectorRegistry()
        meaning = "What must always hold and does not, by check of the doctor, as this node sees it."
        checks = _labelled(GaugeMetricFamily("tokimori_broken_invariants", meaning, labels=["check"]), broken)
        why = "Worker processes of this node that do not answer, at most 8, by the run, or runs, that block them."
        blocked = GaugeMetricFamily("tokimori_silent_worker_processes", why, labels=["run"])
        families = [*self._own(lease_left), checks, _labelled(blocked, Counter(silent)), *_of_store(figures)]
        registry.register(_Families(families))
        return generate_latest(registry)

    def _own(self, lease_left: float) -> Iterator[Metric]:
        yield _counted("claimed_runs", "Runs that this node has claimed.", self._claimed)
        yield _labelled(
            CounterMetricFamily("tokimori_attempts", "Attempts that have ended, by outcome.", labels=["outcome"]),
            self._outcomes,
        )
        yield _labelled(
            CounterMetricFamily("tokimori_refused_ends", "Ends that the store did not take.", labels=["verdict"]),
            self._refused,
        )
        yield _histogram("start_lateness_seconds", "From due to the start of the first attempt.", {(): self._lateness})
        yield _histogram("attempt_duration_seconds", "From the start to the end of attempts.", {(): self._durations})
        yield _histogram("attempt_cpu_seconds", "What processors worked for attempts, if known.", {(): self._cpu})
        yield _histogram("attempt_memory_bytes", "Memory of attempts at its peak, if known.", {(): self._memory})
        calls: dict[tuple[str, ...], Buckets] = {(call,): buckets for call, buckets in self._calls.items()}
        yield _histogram("store_call_seconds", "How long calls of the engine took.", calls, ["call"])
        yield _gauge("lease_left_seconds", "How long the node may begin work without another beat.", lease_left)


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_store(figures: StoreFigures) -> Iterator[Metric]:
    yield _gauge("nodes_alive", "Nodes that live.", figures.nodes)
    yield _gauge("pauses", "Pauses of queues.", figures.pauses)
    yield _gauge("alarms", "What should have ended well and has not; 1000 or more.", figures.alarms)
    yield _gauge(
        "oldest_ready_seconds", "How long the first of the newest 1000 ready runs has waited.", figures.oldest_ready
    )
    words = (
        "Units that are taken of a rate for which runs wait: NAME, job:ID or queue:NAME.",
        "Seconds until it goes on.",
    )
    taken, goes_on = (
        GaugeMetricFamily(f"tokimori_rate_{name}", text, labels=["rate"])
        for name, text in zip(("taken", "goes_on_seconds"), words, strict=True)
    )
    for rate, (units, seconds) in figures.rates.items():
        taken.add_metric([rate], units)
        goes_on.add_metric([rate], seconds)
    yield from (taken, goes_on)
    counted = "Runs that have not ended, by state; 100 (ready ones: 1000) or more."
    runs = GaugeMetricFamily("tokimori_runs", counted, labels=["state"])
    yield _labelled(runs, figures.runs)
    ready = GaugeMetricFamily("tokimori_ready_runs", "Of the newest 1000 ready runs, by queue.", labels=["queue"])
    yield _labelled(ready, bounded(figures.ready))


def bounded(queues: Mapping[str, int]) -> Mapping[str, int]:
    """Return the queues with the most, and all others as one."""
    most = sorted(queues, key=lambda name: (-queues[name], name))
    rest = sum(queues[name] for name in most[MOST_QUEUES:])
    return {name: queues[name] for name in most[:MOST_QUEUES]} | ({"other": rest} if rest else {})


def _counted(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"tokimori_{name}", text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tokimori_{name}", text, value=value)


def _labelled(
    family: CounterMetricFamily | GaugeMetricFamily, counts: Mapping[str, int]
) -> CounterMetricFamily | GaugeMetricFamily:
    for label, count in counts.items():
        family.add_metric([label], count)
    return family


def _histogram(
    name: str, text: str, of: Mapping[tuple[str, ...], Buckets], labels: Sequence[str] = ()
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"tokimori_{name}", text, labels=labels)
    for values, buckets in of.items():
        family.add_metric(list(values), list(buckets.cumulated()), buckets.total)
    return family
