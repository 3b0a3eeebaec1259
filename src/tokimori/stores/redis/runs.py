"""Requests, lists, orders and pruning of runs."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count

import msgspec
from msgspec.structs import replace

from tokimori.clock import MILLISECOND, Moment
from tokimori.model.ids import Incarnation, JobId, RunId
from tokimori.model.request import (
    AHEAD,
    EXPIRY,
    PLAIN,
    REMEMBERED,
    InPlaceOf,
    Manner,
    changed_meanwhile,
    expiries_of,
    shared_prefix,
)
from tokimori.model.retention import MOST_COUNTED, DailyCount, Expiry, daily_counts, day_of, rest_of
from tokimori.model.run import Attempt, Details, Output, Run, encode_details, may_hold, may_resume
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.ends import EndedRun, EndPlace, Ends
from tokimori.ports.store import MOST_TALLIED, Most, RunFilter, Tally
from tokimori.stores.redis.connections import RedisConnections, document_key
from tokimori.stores.redis.hashes import as_brief, listed_run, run_hash, run_of, skips_of
from tokimori.stores.redis.jobs import move_runs
from tokimori.stores.rows import ENDED, names_of
from tokimori.stores.rules.errors import existing, full, no_job, no_run, stopped

PAGE = 1000
"""Runs that one script looks at: other callers wait meanwhile."""
_AMONG = {"held": frozenset({RunState.HELD}), "blocked": frozenset({RunState.BLOCKED})}
_AMONG |= {"live": frozenset(RunState) - ENDS, "broken": ENDS - {RunState.SUCCEEDED}}
"""The indexes of runs of some states alone."""


async def add_run(db: RedisConnections, run: Run, now: Moment, manner: Manner = PLAIN) -> Run:
    return (await _ask(db, [run], manner))[0]


async def add_runs(db: RedisConnections, runs: Sequence[Run], now: Moment) -> list[Run]:
    return await _ask(db, runs, PLAIN)


async def _ask(db: RedisConnections, runs: Sequence[Run], manner: Manner) -> list[Run]:
    run, expected = runs[0], manner.in_place_of or InPlaceOf()
    answers = await db.run(
        "add_run",
        runs=[{**born_map(replace(each, lane=None)), **_expiry(each)} for each in runs],
        prefix=shared_prefix(run),
        since=manner.since,
        ahead=run.created + AHEAD,
        replaces=manner.replaces,
        held=dict.fromkeys(manner.held_in, True) or None,
        begun=manner.waits_for_end,
        expects=manner.in_place_of is not None,
        expected=expected.run_id,
        known=expected.payload,
        details=encode_details(run.details),
        forced_lane=run.lane if manner.forced else None,
        nominal=run.nominal,
        priority=run.priority,
        payload=run.payload,
        remembered=REMEMBERED // MILLISECOND,
    )
    match answers[0]:
        case [None, "moving"]:
            await move_runs(db, run.incarnation, count())
            return await _ask(db, runs, manner)
        case [None, "changed"]:
            raise changed_meanwhile()
        case [None, "full", most]:
            raise full(run.job_id, most)
        case [None, None]:
            raise no_job(run.job_id)
        case [None, state]:
            raise stopped(run.job_id, state)
        case _:
            return [
                run_of(found) if found is not None else replace(each, lane=more[1])
                for each, (found, *more) in zip(runs, answers, strict=True)
            ]


def _expiry(run: Run) -> dict[str, str]:
    """Return the key of the run's expiry document without the id, or nothing if the run does not expire."""
    found = expiries_of(run)
    return {"expiry": document_key(EXPIRY, found[0].name.removesuffix(run.id))} if found else {}


def born_map(run: Run) -> dict[str, object]:
    """Return a new run as the scripts store it."""
    return {
        "id": run.id,
        "job": run.job_id,
        "inc": str(run.incarnation),
        "origin": run.origin,
        "state": run.state,
        "lane": run.lane,
        "due": run.due,
        "rank": run.rank,
        "key": run.concurrency_key,
        "blocked_on": run.blocked_on,
        "row": run_hash(run),
    }


async def get_run(db: RedisConnections, run_id: RunId) -> Run:
    return _run_in(await db.do("HGETALL", f"{db.address.prefix}run:{run_id}"), run_id)


def _run_in(flat: list[str] | None, run_id: RunId) -> Run:
    return run_of(existing(flat or None, no_run(run_id)))


async def list_runs(db: RedisConnections, wanted: RunFilter) -> list[Run]:
    """See `Runs.list_runs`. Read in pages, each as of its own moment; a run is looked at once."""
    runs: list[Run] = []
    before: str | None = wanted.before
    while len(runs) < wanted.limit:
        before, found = await db.run(
            "list_runs",
            job=wanted.job_id,
            states=dict.fromkeys(wanted.states, True) or None,
            among=next((name for name, states in _AMONG.items() if wanted.states and wanted.states <= states), None),
            waiting=wanted.states == {RunState.WAITING},
            before=before,
            limit=wanted.limit - len(runs),
            most=PAGE,
            **as_brief(wanted.longest),
        )
        if before is None:
            break
        runs += [listed_run(each, wanted.longest) for each in found]
    return runs


async def ended_among(db: RedisConnections, run_ids: Sequence[RunId]) -> list[RunId]:
    states = await asyncio.gather(*(db.do("HGET", f"{db.address.prefix}run:{each}", "state") for each in run_ids))
    return [each for each, state in zip(run_ids, states, strict=True) if state in ENDS]


async def ended_since(db: RedisConnections, place: EndPlace, limit: int) -> Ends:
    fields, written = names_of(ENDED)[1:], -(-place.written // MILLISECOND)  # no millisecond that began before
    start = f"({written}-{place.tie}" if place.tie.isdecimal() else f"{written}"
    found, rest = await db.run("ended_since", start=start, limit=limit, fields=fields)
    ends = []
    for entry, values in found:
        known = {name: value for name, value in zip(fields, values, strict=True) if value is not None}
        ends.append(msgspec.convert({**known, "written": _place(entry).written}, EndedRun, strict=False))
    return Ends(found=ends, rest=_place(rest[1:]) if rest else None)


def _place(entry: str) -> EndPlace:
    """Return the place of an entry of the stream. Its id is a millisecond and a number within that."""
    written, tie = entry.split("-")
    return EndPlace(Moment(int(written) * MILLISECOND), tie)


async def last_runs(db: RedisConnections, job_ids: Sequence[JobId], limit: int, longest: Most = None) -> list[Run]:
    found = await db.run("last_runs", jobs=list(job_ids), limit=limit, **as_brief(longest))
    return sorted((listed_run(each, longest) for each in found), key=lambda run: run.id, reverse=True)


async def tallies(db: RedisConnections, job_ids: Sequence[JobId], since: RunId) -> list[Tally]:
    flat = iter(await db.run("tallies", jobs=list(job_ids), since=since, most=MOST_TALLIED))
    return [Tally(JobId(job), succeeded, failed) for job, succeeded, failed in zip(flat, flat, flat, strict=True)]


async def runs_of(
    db: RedisConnections, incarnation: Incarnation, origins: Sequence[str], longest: Most = None
) -> list[Run]:
    found = await db.run("runs_of", inc=str(incarnation), origins=list(origins), **as_brief(longest))
    return [listed_run(each, longest) for each in found]


async def attempts(db: RedisConnections, run_id: RunId) -> list[Attempt]:
    rows = await db.do("HVALS", f"{db.address.prefix}attempts:{run_id}")
    return sorted((msgspec.json.decode(row, type=Attempt) for row in rows), key=lambda attempt: attempt.number)


async def outputs_with(db: RedisConnections, text: bytes, attempts: Mapping[RunId, int]) -> list[RunId]:
    kept = await asyncio.gather(*(output(db, *each) for each in attempts.items()))
    return [each.run_id for each in kept if each and (text in each.head or text in each.tail)]


async def output(db: RedisConnections, run_id: RunId, attempt: int) -> Output | None:
    key = f"{db.address.prefix}output:{run_id}:{attempt}"
    size, *kept = await db.do("HMGET", key, "size", "head", "tail", "times", raw=True)
    if size is None:
        return None
    head, tail, times = (each or b"" for each in kept)
    return Output(run_id=run_id, attempt=attempt, size=int(size), head=head, tail=tail, times=times)


async def cancel_run(db: RedisConnections, run_id: RunId, reason: str, now: Moment, unbegun: int | None = None) -> Run:
    return _run_in(await db.run("cancel_run", id=run_id, reason=reason, now=now, unbegun=unbegun), run_id)


async def hold_run(db: RedisConnections, run_id: RunId, reason: str) -> Run:
    run = _run_in(await db.run("leave_line", id=run_id, reason=reason), run_id)
    may_hold(run)
    return run


async def hasten_run(db: RedisConnections, run: Run, due: Moment, nominal: Moment) -> None:
    await db.run("leave_line", id=run.id, was=run.due, due=due, nominal=nominal)


async def resume_run(db: RedisConnections, run_id: RunId, details: tuple[Details, Details] | None = None) -> Run:
    run = _run_in(await db.run("resume_run", id=run_id, details=details and list(map(encode_details, details))), run_id)
    may_resume(run)
    return run


_COUNTED_PAGE = 5_000
"""Runs that are counted in one script."""


async def prune(db: RedisConnections, expiries: Sequence[Expiry], limit: int) -> Sequence[Expiry]:
    old = [{**msgspec.to_builtins(expiry), "incarnation": str(expiry.incarnation)} for expiry in expiries]
    return rest_of(expiries, *await db.run("prune", old=old, limit=limit))


async def deleted_jobs(db: RedisConnections, after: Incarnation | None, limit: int) -> list[tuple[Incarnation, JobId]]:
    first = "-" if after is None else f"({after:0>19} ~"
    found = await db.do("ZRANGEBYLEX", f"{db.address.prefix}deleted", first, "+", "LIMIT", "0", str(limit))
    return [(Incarnation(int(member[:19])), JobId(member[20:])) for member in found]


async def prune_nodes(db: RedisConnections, before: Moment, limit: int) -> int:
    return int(await db.run("prune_nodes", before=before, limit=limit))


async def counts(db: RedisConnections, job_id: JobId) -> list[DailyCount]:
    """See `Pruning.counts`. Runs are counted in pages, and again if any was pruned meanwhile."""
    while True:
        seen = await db.run("counts", job=job_id, most=MOST_COUNTED)
        kept = await _kept_runs(db, job_id)
        if await db.run("counts", job=job_id, most=MOST_COUNTED) == seen:
            break
    flat, skips = seen
    kept += ((day_of(skip.last), skip.reason, skip.count, 0, 1) for skip in skips_of(skips))
    for key, number in zip(flat[::2], flat[1::2], strict=True):
        _, day, outcome = key.split(" ")
        kept.append((Moment(int(day)), outcome, 0, int(number), 0))
    return daily_counts(kept)


async def _kept_runs(db: RedisConnections, job_id: JobId) -> list[tuple[Moment, str, int, int, int]]:
    """Return the numbers of ended runs by day and state, of the newest runs up to a bound."""
    kept: list[tuple[Moment, str, int, int, int]] = []
    before: str | None = None
    for _ in range(MOST_COUNTED // _COUNTED_PAGE + 1):
        before, *flat = await db.run("count_runs", job=job_id, before=before, most=_COUNTED_PAGE)
        for key, number in zip(flat[::2], flat[1::2], strict=True):
            day, state = key.split(" ")
            kept.append((Moment(int(day)), state, int(number), 0, 0))
        if before is None:
            return kept
    return [(*each[:4], MOST_COUNTED + 1) for each in kept]
