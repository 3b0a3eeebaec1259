"""Steps of requests, checked: runs that follow a run."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from tokimori.clock import DAY, HOUR, Moment, format_moment
from tokimori.errors import InvalidInput
from tokimori.model.attempt_notes import check_json
from tokimori.model.ids import JobId, RandomBytes, RunId, check_job_id, check_uuid, uuid7
from tokimori.model.retention import first_id_at
from tokimori.model.run import Step

MOST_STEPS, MOST_BYTES = 500, 64 * 1024
"""The most runs that may follow one, and the bytes that describe them: a claim brings them with the run."""
_VERSION = 14
"""Place of the version in a UUID."""
_ALLOWED = (
    f"objects with id, job, payload, on_failure, joins and then: at most {MOST_STEPS} of them, {MOST_BYTES} bytes"
)


def read_steps(given: object) -> tuple[Step, ...]:
    """Return the steps of a request. Raises `InvalidInput`."""
    if not given:
        return ()
    try:
        steps = msgspec.convert(given, tuple[Step, ...])
        size = len(msgspec.json.encode(steps))
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):  # the last: half of a surrogate pair
        raise InvalidInput("then: these are no steps", field="then", value=given, allowed=_ALLOWED) from None
    every = list(all_in(steps))
    if len(every) > MOST_STEPS or size > MOST_BYTES:
        raise InvalidInput(f"then: {len(every)} steps, {size} bytes", field="then", value=size, allowed=_ALLOWED)
    for step in every:
        if check_uuid(step.id, field="then.id") != step.id:  # by another spelling nobody would find the run
            raise InvalidInput(f"then.id: {step.id!r}", field="then.id", value=step.id, allowed="a UUID in lower case")
        check_job_id(step.job, field="then.job")
        if step.payload is not None:
            check_json(step.payload)
        if not 0 <= step.joins <= MOST_STEPS:
            allowed = f"0..{MOST_STEPS}"
            raise InvalidInput(f"then.joins: {step.joins}", field="then.joins", value=step.joins, allowed=allowed)
    return steps


def check_moment(step: Step, now: Moment) -> None:
    """Refuse an id that does not say when it was made: runs are listed and pruned by that. Raises `InvalidInput`."""
    earliest, latest = first_id_at(Moment(now - DAY)), first_id_at(Moment(now + HOUR))
    if step.id[_VERSION] != "7" or not earliest < step.id < latest:
        allowed = f"a UUID of version 7 made within the last day, or the next hour; it is {format_moment(now)} now"
        raise InvalidInput(f"then.id: {step.id}", field="then.id", value=step.id, allowed=allowed)


def all_in(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield these steps and all behind them."""
    for step in steps:
        yield step
        yield from all_in(step.then)


def jobs_in(requests: Iterable[object]) -> set[JobId]:
    """Return the jobs that requests name in their steps. Raises `InvalidInput`."""
    given = [each.get("then") for each in requests if isinstance(each, Mapping)]
    return {step.job for each in given if each for step in all_in(read_steps(each))}


def anew(
    steps: Iterable[Step], now: Moment, random: RandomBytes, ids: dict[RunId, RunId] | None = None
) -> tuple[Step, ...]:
    """Return the steps as new runs, for a run that succeeds once more. Those that join other runs are left out.

    With `ids` the whole family is made anew, and they are the new ids by the old ones.
    """
    wanted = [step for step in steps if ids is not None or not step.joins]
    new = {} if ids is None else ids
    return tuple(
        replace(step, id=new.setdefault(step.id, RunId(uuid7(now, random))), then=anew(step.then, now, random, ids))
        for step in wanted
    )
