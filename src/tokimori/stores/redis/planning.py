"""Due jobs, plans, promotions and paused queues: scripts."""

from collections.abc import Sequence

import msgspec

from tokimori.clock import Moment
from tokimori.model.decide import REPLACED, Due, Plan
from tokimori.model.ids import RunId
from tokimori.model.job import Job, JobState
from tokimori.model.lanes import Pause
from tokimori.ports.planning import ALL, Share
from tokimori.stores.reading import readable
from tokimori.stores.redis.connections import RedisConnections
from tokimori.stores.redis.hashes import due_of, job_of, skip_pairs
from tokimori.stores.redis.runs import born_map
from tokimori.stores.rows import names_of
from tokimori.stores.rules.new_runs import Cursor, planned_runs, was_applied


async def add_pause(db: RedisConnections, pause: Pause) -> Pause:
    kept = await db.run("add_pause", queue=pause.queue, pause=msgspec.json.encode(pause).decode())
    return msgspec.json.decode(kept, type=Pause)


async def delete_pause(db: RedisConnections, queue: str) -> None:
    await db.run("delete_pause", queue=queue)


async def list_pauses(db: RedisConnections) -> list[Pause]:
    found = [msgspec.json.decode(text, type=Pause) for text in await db.do("HVALS", f"{db.address.prefix}pauses")]
    return sorted(found, key=lambda pause: pause.queue)


async def due(db: RedisConnections, now: Moment, limit: int, share: Share = ALL) -> list[Due]:
    async def page(after: Job | None) -> list[Due]:
        place = after and str(after.incarnation)
        found = await db.run("due", now=now, limit=limit, after=place, part=share.part, of=share.of)
        return [due_of(each) for each in found]

    return await readable(page, limit)


async def apply(db: RedisConnections, plans: Sequence[tuple[Plan, Sequence[RunId]]], now: Moment) -> list[bool]:
    answers = await db.run("apply", plans=[_plan_map(plan, ids, now) for plan, ids in plans], reason=REPLACED, now=now)
    return [_took_effect(plan, answer) for (plan, _), answer in zip(plans, answers, strict=True)]


_CURSOR = names_of("version, fired_from, fired_through, next_due, state, anchor, runs_remaining, tzdata, replaces")


def _plan_map(plan: Plan, ids: Sequence[RunId], now: Moment) -> dict[str, object]:
    return {name: getattr(plan, name) for name in _CURSOR} | {
        "job": plan.job_id,
        "inc": str(plan.incarnation),
        "runs": [born_map(run) for run in planned_runs(plan, ids, now)],
        "skips": skip_pairs(plan.skips),
    }


def _took_effect(plan: Plan, answer: int | tuple[str | None, str | None, str | None, int]) -> bool:
    """Return if the plan has taken effect, now or before."""
    if isinstance(answer, int):
        return True
    version, fired_through, state, first_run_exists = answer
    if version is None or fired_through is None or state is None:
        cursor = None
    else:
        cursor = Cursor(plan.incarnation, int(version), Moment(int(fired_through)), JobState(state))
    return was_applied(plan, cursor, first_run_exists=bool(first_run_exists))


async def outdated(db: RedisConnections, tzdata: str, limit: int) -> list[Job]:
    async def page(after: Job | None) -> list[Job]:
        place, since = (after and str(after.incarnation)), (after and after.tzdata)
        answer = await db.run("outdated", tzdata=tzdata, limit=limit, since=since, after=place)
        return [job_of(each) for each in answer]

    return await readable(page, limit)


async def promote(db: RedisConnections, now: Moment, limit: int, skip: int = 0) -> int:
    return int(await db.run("promote", now=now, limit=limit, skip=skip))
