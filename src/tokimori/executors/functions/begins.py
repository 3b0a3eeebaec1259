"""Messages about an attempt that begins, and reports of one that goes on. Pure."""

import re
from collections.abc import Sequence
from typing import assert_never

from tokimori.clock import SECOND, Clock, Moment
from tokimori.errors import Bug
from tokimori.executors.functions import wire
from tokimori.model.handlers import Handler
from tokimori.model.notes import Notes
from tokimori.model.run import Output, times_since
from tokimori.model.target import Function
from tokimori.ports.executor import AttemptTask, Grew, Noted, Report


def told_of(task: AttemptTask, said: wire.FunctionGrew | wire.Noted, boot: Moment) -> Report:
    """Return the report of an attempt that goes on; `boot`: of this machine."""
    match said:
        case wire.FunctionGrew():
            output = output_of(task, said, boot)
            return Grew(run_id=task.run_id, token=task.token, output=output)
        case wire.Noted(progress=progress, text=text, checkpoint=checkpoint):
            notes = Notes(attempt=task.attempt, progress=progress, text=text, checkpoint=checkpoint)
            return Noted(run_id=task.run_id, token=task.token, notes=notes)
        case _:
            assert_never(said)


def output_of(task: AttemptTask, said: wire.FunctionGrew | wire.FunctionEnded, boot: Moment) -> Output:
    """Return what the attempt has written; `boot`: of this machine."""
    return Output(
        run_id=task.run_id,
        attempt=task.attempt,
        size=said.size,
        head=b"" if isinstance(said, wire.FunctionGrew) else said.head,
        tail=said.tail,
        times=times_since(boot, said.times),
    )


def begin_of(task: AttemptTask, number: int, clock: Clock) -> wire.Begin:
    """Return the message by which an attempt begins in a worker process. Raises `Bug`."""
    return wire.Begin(
        number=number,
        handler=handler_in(task),
        run_id=task.run_id,
        job_id=task.job_id,
        attempt=task.attempt,
        token=task.token,
        scheduled_at=task.nominal,
        due_at=task.due,
        payload=task.payload,
        is_inherited=task.is_inherited,
        checkpoint=task.checkpoint,
        deadline=None if task.timeout is None else Moment(clock.now() + int(task.timeout * SECOND)),
        parent_run_id=task.parent_id,
        returning_succeeds=task.auto_complete_success,
        traceparent=task.traceparent,
    )


def handler_in(task: AttemptTask) -> str:
    """Return the handler that a task names. Raises `Bug`."""
    if not isinstance(task.target, Function):
        raise Bug(f"a {type(task.target).__name__} was given to the executor of functions")
    return task.target.name


def handlers_of(app: wire.Hello) -> Sequence[Handler]:
    """Return the handlers that an app has."""
    return (*app.handlers, *map(re.compile, app.patterns))
