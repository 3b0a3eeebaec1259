"""From schedules to runs."""

from collections.abc import Sequence

from tokimori.clock import Moment
from tokimori.model.decide import Due, Plan, PlannedRun
from tokimori.model.ids import RunId
from tokimori.model.job import Job, JobState
from tokimori.model.run import Run
from tokimori.ports.planning import ALL, Share
from tokimori.stores.readable import readable
from tokimori.stores.redis.connections import Connections
from tokimori.stores.redis.hashes import due_of, job_of, skip_pairs
from tokimori.stores.redis.runs import born_map
from tokimori.stores.rules.births import born
from tokimori.stores.rules.plans import REPLACED, Cursor, was_applied


async def due(db: Connections, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
    """See `Planning.due`."""

    async def page(after: Job | None) -> list[Due]:
        return [
            due_of(each)
            for each in await db.run("due", now=now, limit=limit, after=_place(after), part=share.part, of=share.of)
        ]

    return await readable(page, limit)


def _place(job: Job | None) -> str | None:
    return None if job is None else str(job.incarnation)


async def apply(db: Connections, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
    """See `Planning.apply`."""
    answers = await db.run("apply", plans=[_plan_map(plan, ids, now) for plan, ids in plans], reason=REPLACED, now=now)
    return [_took_effect(plan, answer) for (plan, _), answer in zip(plans, answers, strict=True)]


def _plan_map(plan: Plan, ids: Sequence[RunId], now: Moment) -> dict[str, object]:
    return {
        "job": plan.job_id,
        "inc": str(plan.incarnation),
        "version": plan.version,
        "fired_from": plan.fired_from,
        "fired_through": plan.fired_through,
        "next_due": plan.next_due,
        "state": plan.state,
        "anchor": plan.anchor,
        "runs_remaining": plan.runs_remaining,
        "tzdata": plan.tzdata,
        "replaces": plan.replaces,
        "runs": [born_map(_run(plan, planned, id_, now)) for planned, id_ in zip(plan.runs, ids, strict=True)],
        "skips": skip_pairs(plan.skips),
    }


def _run(plan: Plan, planned: PlannedRun, run_id: RunId, now: Moment) -> Run:
    return Run(
        id=run_id,
        job_id=plan.job_id,
        incarnation=plan.incarnation,
        origin=planned.origin,
        nominal=planned.nominal,
        due=planned.due,
        state=born(planned.due, now),
        priority=planned.priority,
        rank=planned.rank,
        lane=planned.lane,
        created=now,
        tzdata=plan.tzdata,
        concurrency_key=plan.concurrency_key,
    )


def _took_effect(plan: Plan, answer: int | tuple[str | None, str | None, str | None, int]) -> bool:
    """A refused plan is answered with what tells whether it is refused because it took effect before."""
    if isinstance(answer, int):
        return True
    version, fired_through, state, first_run_exists = answer
    if version is None or fired_through is None or state is None:
        cursor = None
    else:
        cursor = Cursor(plan.incarnation, int(version), Moment(int(fired_through)), JobState(state))
    return was_applied(plan, cursor, first_run_exists=bool(first_run_exists))


async def outdated(db: Connections, tzdata: str, limit: int) -> list[Job]:
    """See `Planning.outdated`."""

    async def page(after: Job | None) -> list[Job]:
        since = None if after is None else after.tzdata
        answer = await db.run("outdated", tzdata=tzdata, limit=limit, since=since, after=_place(after))
        return [job_of(each) for each in answer]

    return await readable(page, limit)


async def promote(db: Connections, now: Moment, limit: int) -> int:
    """See `Planning.promote`."""
    return int(await db.run("promote", now=now, limit=limit))
