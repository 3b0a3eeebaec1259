"""Kala's own cases of dependent jobs, of failures and of deletions, on a real node."""

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.integration.acceptance.conftest import PATIENCE, Workplace
from tokimori.errors import InvalidInput, NotFound, Refused
from tokimori.model.run import SkipReason

Fields = Mapping[str, Any]
OK: Fields = {"noop": True}
FAILS: Fields = {"command": "exit 3"}


def after(*parents: str, fields: Fields = OK) -> Fields:
    """The fields of a job that runs after these."""
    return {**fields, "parents": [{"job": parent} for parent in parents]}


def test_simple(workplace: Workplace) -> None:
    """A child runs once when its parent has succeeded, with its nominal time, and knows it."""
    workplace.client.jobs.add("simple", **OK)
    workplace.client.jobs.add("simple-child", **after("simple"))
    parent = workplace.run("simple", payload="p")
    assert workplace.states("simple-child") == [["succeeded"]]
    (child,) = workplace.runs("simple-child")
    assert (child.parent_id, child.nominal, child.payload) == (parent.id, parent.nominal, "p")


def test_unknown_parent(workplace: Workplace) -> None:
    """A job after one that there is not is refused."""
    with pytest.raises(InvalidInput, match="no job 'nobody'"):
        workplace.client.jobs.add("orphan", **after("nobody"))


def test_two_children(workplace: Workplace) -> None:
    """Both run, once each."""
    workplace.client.jobs.add("two", **OK)
    workplace.client.jobs.add("two-a", **after("two"))
    workplace.client.jobs.add("two-b", **after("two"))
    workplace.run("two")
    assert workplace.states("two-a", "two-b") == [["succeeded"]] * 2


def test_a_child_with_two_children(workplace: Workplace) -> None:
    """Its children run after it."""
    workplace.client.jobs.add("top", **OK)
    workplace.client.jobs.add("middle", **after("top"))
    workplace.client.jobs.add("below-a", **after("middle"))
    workplace.client.jobs.add("below-b", **after("middle"))
    workplace.run("top")
    assert workplace.states("middle", "below-a", "below-b") == [["succeeded"]] * 3


def chain(workplace: Workplace, name: str, *members: Fields) -> list[str]:
    """Jobs, each after the one before."""
    ids = [f"{name}-{number}" for number in range(len(members))]
    for number, fields in enumerate(members):
        workplace.client.jobs.add(ids[number], **(after(ids[number - 1], fields=fields) if number else fields))
    return ids


def test_a_chain_of_five(workplace: Workplace) -> None:
    """Each runs once, in order."""
    ids = chain(workplace, "chain", *[OK] * 5)
    workplace.run(ids[0])
    assert workplace.states(*ids) == [["succeeded"]] * 5
    begun = [run.started for job_id in ids for run in workplace.runs(job_id)]
    assert begun == sorted(begun, key=lambda moment: moment or 0)


def test_a_chain_with_a_failing_member_stops(workplace: Workplace) -> None:
    """What comes before the failure runs, what comes after does not."""
    ids = chain(workplace, "broken", OK, OK, FAILS, OK, OK)
    workplace.run(ids[0])
    assert workplace.states(*ids) == [["succeeded"], ["succeeded"], ["failed"], [], []]


def test_a_slow_member_delays_the_rest(workplace: Workplace) -> None:
    """What comes after a slow one begins when that has ended."""
    ids = chain(workplace, "slow", OK, {"command": "sleep 1"}, OK)
    workplace.run(ids[0])
    assert workplace.states(*ids) == [["succeeded"]] * 3
    (slow,), (last,) = workplace.runs(ids[1]), workplace.runs(ids[2])
    assert slow.started is not None
    assert slow.ended is not None
    assert last.started is not None
    assert last.started >= slow.ended >= slow.started + timedelta(seconds=1)


def test_two_parents_of_the_same_child(workplace: Workplace) -> None:
    """The child runs once after each; one that joins all of one root runs once after both."""
    workplace.client.jobs.add("root", **OK)
    workplace.client.jobs.add("left", **after("root"))
    workplace.client.jobs.add("right", **after("root"))
    workplace.client.jobs.add("any", **after("left", "right"))
    workplace.client.jobs.add("all", **{**after("left", "right"), "join": "all"})
    workplace.run("root")
    assert workplace.states("left", "right", "any", "all") == [
        ["succeeded"],
        ["succeeded"],
        ["succeeded", "succeeded"],
        ["succeeded"],
    ]


def test_a_deleted_child(workplace: Workplace) -> None:
    """It does not run any more, and its parent is none the worse."""
    workplace.client.jobs.add("parent-of-gone", **OK)
    workplace.client.jobs.add("gone-child", **after("parent-of-gone"))
    workplace.client.jobs.delete("gone-child")
    assert workplace.run("parent-of-gone").state == "succeeded"
    assert workplace.runs("gone-child") == []


def test_a_disabled_child(workplace: Workplace) -> None:
    """It does not run, and the ledger says why; enabled again it runs after the next end."""
    workplace.client.jobs.add("parent-of-paused", **OK)
    workplace.client.jobs.add("paused-child", **after("parent-of-paused"))
    workplace.client.jobs.pause("paused-child")
    workplace.run("parent-of-paused")
    assert workplace.states("paused-child") == [[]]
    assert [(skip.count, skip.reason) for skip in workplace.client.jobs.skips("paused-child")] == [
        (1, SkipReason.PAUSED)
    ]
    workplace.client.jobs.resume("paused-child")
    workplace.run("parent-of-paused")
    assert workplace.states("paused-child") == [["succeeded"]]


def test_a_deleted_parent(workplace: Workplace) -> None:
    """By itself it stays; where that is asked for its child goes, too, but not one that has another parent."""
    workplace.client.jobs.add("doomed", **OK)
    workplace.client.jobs.add("survivor", **OK)
    workplace.client.jobs.add("doomed-child", **after("doomed"))
    workplace.client.jobs.add("shared-child", **after("doomed", "survivor"))
    with pytest.raises(Refused, match="doomed-child"):
        workplace.client.jobs.delete("doomed")
    workplace.client.jobs.delete("doomed", cascade=True)
    for job_id in ("doomed", "doomed-child"):
        with pytest.raises(NotFound):
            workplace.client.jobs.get(job_id)
    workplace.run("survivor")
    assert workplace.states("shared-child") == [["succeeded"]]


def test_a_deleted_job(workplace: Workplace) -> None:
    """It does not run any more, by its schedule or on demand, while others go on."""
    workplace.client.jobs.add("deleted", schedule="* * * * * *", **OK)
    workplace.client.jobs.delete("deleted")
    before = len(workplace.runs("deleted"))
    workplace.client.jobs.add("witness", schedule="* * * * * *", **OK)
    end = time.monotonic() + PATIENCE
    while len(workplace.runs("witness")) < 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    workplace.client.jobs.delete("witness")
    assert len(workplace.runs("deleted")) == before
    with pytest.raises(NotFound):
        workplace.client.jobs.trigger("deleted")


def test_the_on_failure_job(workplace: Workplace) -> None:
    """It runs after a failure, once the retries are used up, and not after a success."""
    workplace.client.jobs.add("mop", **OK)
    workplace.client.jobs.add("spills", command="exit $TOKIMORI_PAYLOAD", retry={"attempts": 2}, on_failure_job="mop")
    assert workplace.run("spills", payload="0").state == "succeeded"
    assert workplace.states("mop") == [[]]
    failed = workplace.run("spills", payload="3")
    assert (failed.state, failed.attempt) == ("failed", 2)
    assert workplace.states("mop") == [["succeeded"]]
    assert [run.parent_id for run in workplace.runs("mop")] == [failed.id]
