"""What a node counts, as Prometheus reads it."""

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.examples import NEW_YEAR, a_task, seconds
from tokimori.metrics import MOST_QUEUES, Metrics, StoreFigures, bounded
from tokimori.model.ids import Incarnation, JobId, NodeId, RunId, Token
from tokimori.model.run import Attempt
from tokimori.model.target import Noop
from tokimori.model.transitions import RunState
from tokimori.ports.working import Change, Verdict

TASK = a_task(Noop())
CHANGE = Change(
    run_id=RunId("run"),
    job_id=JobId("job"),
    incarnation=Incarnation(1),
    owner=NodeId("node"),
    token=Token(1),
    state=RunState.SUCCEEDED,
    due=NEW_YEAR,
    rank=0,
    failures=0,
    lost=0,
    started=NEW_YEAR,
    ended=seconds(2),
)
FAILED = Attempt(
    run_id=RunId("run"),
    number=1,
    token=Token(1),
    outcome="failed",
    node_id=NodeId("node"),
    started=NEW_YEAR,
    ended=NEW_YEAR,
)


def _told(metrics: Metrics, standing: StoreFigures | None = None) -> dict[tuple[str, ...], float]:
    text = metrics.text(standing or StoreFigures(), 4.5).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_only_first_attempts_are_late() -> None:
    """A later one waits for its retry."""
    metrics = Metrics()
    metrics.started([TASK, replace(TASK, attempt=2)], seconds(3))
    told = _told(metrics)
    assert told["tokimori_start_lateness_seconds_count",] == 1
    assert told["tokimori_start_lateness_seconds_sum",] == 3
    assert told["tokimori_start_lateness_seconds_bucket", "2.5"] == 0
    assert told["tokimori_start_lateness_seconds_bucket", "5.0"] == 1


def test_ends_are_counted_by_outcome_if_the_store_took_them() -> None:
    """Others are counted by what the store said instead."""
    metrics = Metrics()
    changes = [CHANGE, replace(CHANGE, attempt=FAILED), CHANGE, CHANGE]
    metrics.settled(changes, [Verdict.APPLIED, Verdict.APPLIED, Verdict.LOST, Verdict.ALREADY_APPLIED])
    told = _told(metrics)
    assert (told["tokimori_attempts_total", "succeeded"], told["tokimori_attempts_total", "failed"]) == (1, 1)
    assert told["tokimori_refused_ends_total", "lost"] == told["tokimori_refused_ends_total", "already applied"] == 1
    assert told["tokimori_attempt_duration_seconds_sum",] == 4


def test_costs_are_counted_if_they_are_known() -> None:
    """An attempt of which nothing is known changes no figure."""
    metrics = Metrics()
    changes = [replace(CHANGE, cpu=1_500_000, memory=20_000_000), replace(CHANGE, cpu=0), CHANGE]
    metrics.settled(changes, 3 * [Verdict.APPLIED])
    told = _told(metrics)
    assert (told["tokimori_attempt_cpu_seconds_sum",], told["tokimori_attempt_cpu_seconds_count",]) == (1.5, 2)
    assert told["tokimori_attempt_memory_bytes_sum",] == 20_000_000
    assert told["tokimori_attempt_memory_bytes_bucket", "16777216.0"] == 0
    assert told["tokimori_attempt_memory_bytes_count",] == 1


def test_calls_are_counted_by_their_name() -> None:
    """How long each took."""
    metrics = Metrics()
    metrics.count_call("claim", 0.02)
    metrics.count_call("tick", 0.002)
    told = _told(metrics)
    assert told["tokimori_store_call_seconds_sum", "claim"] == 0.02
    assert told["tokimori_store_call_seconds_count", "tick"] == 1


def test_what_the_store_holds_is_told_as_it_stands() -> None:
    """With the lease of the node."""
    told = _told(Metrics(), StoreFigures(nodes=3, runs={"ready": 7}, ready={"mail": 7}, oldest_ready=1.5, pauses=2))
    assert told["tokimori_nodes_alive",] == 3
    assert told["tokimori_runs", "ready"] == told["tokimori_ready_runs", "mail"] == 7
    assert (told["tokimori_oldest_ready_seconds",], told["tokimori_pauses",]) == (1.5, 2)
    assert told["tokimori_lease_left_seconds",] == 4.5


def test_what_does_not_hold_is_told_by_its_check() -> None:
    """With the number of alarms, and worker processes that do not answer."""
    text = Metrics().text(StoreFigures(alarms=4), 1, {"fired": 2, "wakes": 0}, ["r1", "r1"]).decode()
    told = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert told["tokimori_alarms",] == 4
    assert told["tokimori_silent_worker_processes", "r1"] == 2
    assert (told["tokimori_broken_invariants", "fired"], told["tokimori_broken_invariants", "wakes"]) == (2, 0)


def test_labels_are_bounded() -> None:
    """However many queues there are, the largest have a label of their own."""
    found = bounded({f"q{n:03}": n for n in range(200)})
    assert len(found) == MOST_QUEUES + 1
    assert found["q199"] == 199
    assert sum(found.values()) == sum(range(200))
    assert "other" not in bounded({"one": 1})


def test_a_queue_can_not_break_the_text() -> None:
    """Its name is a label like any other."""
    name = 'a"b\\c\nd'
    assert _told(Metrics(), StoreFigures(ready={name: 1}))["tokimori_ready_runs", name] == 1
