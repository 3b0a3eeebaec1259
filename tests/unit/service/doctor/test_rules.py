"""Each rule about what may be wrong with a store, on readings that are made by hand."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.examples import NEW_YEAR, a_definition, a_job, a_run, seconds
from tokimori.clock import DAY, Moment
from tokimori.model.ids import JobId, Lane, NodeId, PermitId, RunId
from tokimori.model.job import JobState
from tokimori.model.lanes import SILENT_LABEL, Pause
from tokimori.model.notifier import NotifyOn, notifier_id
from tokimori.model.transitions import RunState
from tokimori.ports.nodes import NodeRecord, NodeState
from tokimori.ports.semaphores import Permit, Semaphore
from tokimori.ports.store import SchemaStatus
from tokimori.service.doctor.finding import Finding, Level, diagnosis, warning
from tokimori.service.doctor.reading import DoctorReading, JobsSeen, confirmed
from tokimori.service.doctor.rules import CHECKS, findings

SCHEMA = SchemaStatus(version=3, newest=3, pending=(), oldest=1)
NODE = NodeRecord(
    id=NodeId("n"), host="h", boot_id="b", pid=1, concurrency=1, version="1", started=NEW_YEAR, state=NodeState.ALIVE
)
RUN = a_run(node_id=NODE.id)
BLOCKED = a_run(id=RunId("waits"), state=RunState.BLOCKED)
JOB = a_job(a_definition(max_running=1))


def reading(**said: Any) -> DoctorReading:
    """A store with a node, where all is well, unless something else is said."""
    well: dict[str, Any] = {
        "now": NEW_YEAR,
        "machine_now": NEW_YEAR,
        "took": 0.0,
        "schema": SCHEMA,
        "nodes": (NODE,),
        "programs": (NODE,),
        "jobs": (JOB,),
    }
    found = {**well, **said}
    seen = JobsSeen(wanted={job.id for job in found["jobs"]})
    seen.add(found["jobs"])
    return DoctorReading(**{**found, "jobs": seen})


def permit(**said: Any) -> Permit:
    """A unit that the run holds."""
    of = {"id": PermitId("run/s"), "semaphore": "s", "node": NODE.id, "run_id": RUN.id, "weight": 1, "rank": 0}
    return Permit(**{**of, "token": 1, "since": NEW_YEAR, **said})


def semaphore(*holders: Permit, **said: Any) -> Semaphore:
    """One with these holders."""
    return Semaphore(**{"name": "s", "limit": 1, "used": len(holders), "waiting": 0, "holders": holders, **said})


def test_nothing_is_wrong() -> None:
    """Where all is well each check says so, in one line."""
    found = findings(reading())
    assert [each.check for each in found] == [check for check, _, _ in CHECKS]
    assert {(each.level, each.mend) for each in found} == {(Level.OK, None)}
    assert diagnosis(found).level is Level.OK


DEAD = replace(NODE, state=NodeState.DEAD)
TELLS = a_job(a_definition(notify={NotifyOn.FAILURE: ("ops",)}), id=JobId("tells"))
WRONG: Mapping[str, tuple[DoctorReading, str, Level, str]] = {
    "lost notifier": (
        reading(jobs=(JOB, TELLS), lost_notifiers=frozenset({notifier_id("ops")})),
        "notifiers",
        Level.WARN,
        "no notifier ops; these jobs name it, and notify nobody by it: tells",
    ),
    "slow": (reading(took=0.7), "store", Level.WARN, "took 0.7 s"),
    "off": (reading(machine_now=seconds(2)), "clock", Level.WARN, "differ by 2.0 s"),
    "far off": (reading(machine_now=seconds(-9)), "clock", Level.FAIL, "differ by 9.0 s"),
    "promise": (reading(promises=("it forgets",)), "promises", Level.WARN, "it forgets"),
    "no node": (reading(nodes=(DEAD,)), "nodes", Level.FAIL, "no node runs"),
    "silent": (reading(silent=(NODE,), listened=2.5), "nodes", Level.FAIL, "did not beat for 2.5 s"),
    "one silent": (
        reading(nodes=(NODE, replace(NODE, id=NodeId("m"))), silent=(NODE,), listened=2.5),
        "nodes",
        Level.WARN,
        "pid 1 on h",
    ),
    "blocked process": (
        reading(nodes=(replace(NODE, labels={SILENT_LABEL: "7 r 2030-01-01T00:00:00Z"}),)),
        "nodes",
        Level.WARN,
        "has not answered since 2030-01-01T00:00:00Z: run r blocks it",
    ),
    "versions": (
        reading(nodes=(NODE, replace(NODE, id=NodeId("m"), version="2"))),
        "nodes",
        Level.WARN,
        "2 versions run: 1, 2",
    ),
    "not fired": (
        reading(due=tuple(replace(JOB, id=JobId(f"j{n}"), next_due=seconds(-n)) for n in range(61, 66))),
        "fired",
        Level.FAIL,
        "due since 2029-12-31T23:58:55Z and not fired: j61, j62, j63 and 2 more",
    ),
    "ahead": (reading(ahead=(JobId("j"),)), "ahead", Level.FAIL, "by a clock that was ahead: j"),
    "orphan": (reading(running=(a_run(node_id=NodeId("gone")),)), "running", Level.FAIL, "run run of job"),
    "orphan of a dead node": (reading(nodes=(DEAD,), running=(RUN,)), "running", Level.FAIL, "run run of job"),
    "permit of an ended run": (reading(semaphores=(semaphore(permit()),)), "permits", Level.FAIL, "that does not run"),
    "permit of a dead program": (
        reading(semaphores=(semaphore(permit(run_id=None, node=NodeId("gone"))),)),
        "permits",
        Level.FAIL,
        "the program gone",
    ),
    "semaphores away": (reading(semaphores_fault="refused"), "permits", Level.FAIL, "can't be read: refused"),
    "lost wake": (
        reading(semaphores=(semaphore(waiting=2),), blocked=(replace(BLOCKED, blocked_on="semaphore:s"),)),
        "wakes",
        Level.FAIL,
        "2 wait for the semaphore s",
    ),
    "lost wake of a place": (reading(blocked=(BLOCKED,)), "wakes", Level.FAIL, "run waits of job"),
    "long held": (
        reading(held=(a_run(state=RunState.HELD, due=Moment(NEW_YEAR - 8 * DAY)),)),
        "held",
        Level.WARN,
        "over 7 days ago",
    ),
    "ready runs without a node": (
        reading(lanes=(Lane("mail|shop.send|"),)),
        "lanes",
        Level.FAIL,
        "(shop.send, queue mail) start nowhere",
    ),
    "jobs without a node": (
        reading(jobs=(replace(JOB, definition=a_definition(labels={"gpu": "yes"})),)),
        "lanes",
        Level.WARN,
        "of the jobs job no run would start",
    ),
    "parked": (reading(jobs=(replace(JOB, state=JobState.PARKED),)), "jobs", Level.WARN, "parked by a failure: job"),
    "paused": (reading(pauses=(Pause(queue="mail", since=NEW_YEAR),)), "pauses", Level.WARN, "queue mail is paused"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    """Its check says what, how bad it is and what to do; no other check is disturbed by it, but where it follows."""
    read, check, level, text = WRONG[name]
    wrong = [each for each in findings(read) if each.level is not Level.OK]
    found = [each for each in wrong if each.check == check]
    assert [each.level for each in found] == [level], wrong
    assert text in found[0].text
    assert found[0].mend
    assert {each.check for each in wrong} <= {check, "nodes"}


@pytest.mark.parametrize(
    "read",
    [
        reading(blocked=(BLOCKED,), running=(RUN,), lively=frozenset({RUN.id})),
        reading(blocked=(BLOCKED,), jobs=()),
        reading(semaphores=(semaphore(permit()),), lively=frozenset({RUN.id})),
        reading(semaphores=(semaphore(permit(run_id=None)),)),
        reading(semaphores=(semaphore(permit(), waiting=3),), lively=frozenset({RUN.id})),
        reading(held=(a_run(state=RunState.HELD),)),
        reading(jobs=(replace(JOB, state=JobState.PAUSED, definition=a_definition(labels={"gpu": "yes"})),)),
    ],
)
def test_what_is_in_order_is_no_fault(read: DoctorReading) -> None:
    """A run that waits behind one that runs, units in living hands, and jobs that nobody wants to run now."""
    assert {each.level for each in findings(read)} == {Level.OK}


@pytest.mark.parametrize("queue", ["*", "default"])
def test_a_paused_line_is_not_stuck(queue: str) -> None:
    """What is paused is not served: that is told as a pause, and not as a lost wake."""
    pause = Pause(queue=queue, since=NEW_YEAR)
    waits = replace(BLOCKED, blocked_on="semaphore:s")
    found = findings(reading(pauses=(pause,), blocked=(BLOCKED, waits), semaphores=(semaphore(waiting=1),)))
    assert {each.check for each in found if each.level is not Level.OK} == {"pauses"}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (replace(SCHEMA, version=None), "no tables"),
        (replace(SCHEMA, version=2, pending=("x",)), "works with 3"),
        (replace(SCHEMA, version=9, oldest=9), "knows 3"),
    ],
)
def test_a_schema_that_can_not_be_read(schema: SchemaStatus, text: str) -> None:
    """Nothing but that is said of a store whose tables this program does not know."""
    found = findings(reading(schema=schema, nodes=()))
    assert [each.check for each in found] == ["store", "clock", "schema", "promises"]
    assert text in found[2].text
    assert found[2].level is Level.FAIL


def test_what_is_under_way_is_no_fault() -> None:
    """What only one of two readings shows is left out; a run that ran in one of them may hold units."""
    late = replace(JOB, next_due=seconds(-90))
    first = reading(
        due=(late, replace(late, id=JobId("stuck"))),
        running=(a_run(node_id=NodeId("gone")), RUN),
        blocked=(BLOCKED,),
        semaphores=(semaphore(permit(), waiting=1), semaphore(name="t", waiting=1)),
        lanes=(Lane("a||"), Lane("b||")),
        lively=frozenset({RUN.id}),
    )
    second = reading(
        due=(replace(late, next_due=seconds(-70)), replace(late, id=JobId("stuck"))),
        running=(a_run(node_id=NodeId("gone"), token=7),),
        blocked=(replace(BLOCKED, id=RunId("new")),),
        semaphores=(semaphore(permit(since=seconds(1)), waiting=4), semaphore(name="t", waiting=0)),
        lanes=(Lane("b||"), Lane("c||")),
    )
    both = confirmed(first, second, 2.5)
    assert [job.id for job in both.due] == ["stuck"]
    assert (both.running, both.blocked, both.lanes) == ((), (), (Lane("b||"),))
    assert [(each.used, each.waiting, each.holders) for each in both.semaphores] == [(1, 1, ()), (0, 0, ())]
    assert both.lively == {RUN.id}
    assert both.silent == (NODE,)
    assert confirmed(first, replace_beat(second), 2.5).silent == ()
    assert confirmed(first, second, 0).silent == ()


def replace_beat(read: DoctorReading) -> DoctorReading:
    """The same a beat later."""
    return reading(nodes=(replace(read.nodes[0], beat=read.nodes[0].beat + 1),))


def test_the_worst_counts() -> None:
    """A warning is worse than nothing, and a failure worse than that."""
    one = warning("a", "b", "c")
    assert diagnosis([]).level is Level.OK
    assert diagnosis([one]).level is Level.WARN
    assert diagnosis([Finding(check="a", level=Level.FAIL, text="b"), one]).level is Level.FAIL
