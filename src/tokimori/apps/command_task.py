"""The task in hand of a command, such as a build of a task: what its environment says of the run, and its report."""

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final

from tokimori.apps.endings import End, Finished
from tokimori.apps.json_text import text_of
from tokimori.apps.task import Task
from tokimori.clock import Moment, format_moment, parse_moment
from tokimori.errors import Refused
from tokimori.executors.functions.wire import Facts
from tokimori.executors.reported import ReportedEnd, ReportFailed, ReportHold, ReportRetry, ReportSucceeded, leave
from tokimori.model.outcome import Failed, Hold, RetryAt, RetryIn
from tokimori.model.trace import VARIABLE

_NO_FUNCTION: Final = "a command has no such thing: `@app.job` declares a function, which has"


class CommandTask(Task):
    """The run that a command works on. The first end that it says is reported at once, and counts when it exits."""

    def checkpoint(self, data: object) -> None:
        """Raise `Refused`: nothing is kept of a command."""
        raise Refused(f"checkpoint: {_NO_FUNCTION}", field="checkpoint", allowed="a file of its own")

    def release(self) -> None:
        """Raise `Refused`: a command can't give its run back."""
        raise Refused(f"release: {_NO_FUNCTION}", field="release", allowed="`retry`")

    def _decide(self, end: End) -> None:
        if self.end() is None:
            leave(_report(end), os.environ)
        super()._decide(end)


def _report(end: End) -> ReportedEnd:
    match end:
        case Finished(result):
            return ReportSucceeded(None if result is None else text_of(result, "result"))
        case RetryIn(seconds):
            return ReportRetry(seconds=seconds or 0)
        case RetryAt(moment):
            return ReportRetry(at=format_moment(moment))
        case Hold(reason):
            return ReportHold(reason)
        case Failed(error):
            return ReportFailed(error)
        case _:
            raise Refused(f"release: {_NO_FUNCTION}", field="release")


@lru_cache(maxsize=1)
def task_of_command() -> CommandTask | None:
    """Return the task of the command that this process is; None: no run has started it."""
    said = os.environ
    if "TOKIMORI_RUN_ID" not in said or "TOKIMORI_OUTCOME_FILE" not in said:
        return None
    facts = Facts(
        job_id=said["TOKIMORI_JOB_ID"],
        run_id=said["TOKIMORI_RUN_ID"],
        attempt=int(said["TOKIMORI_ATTEMPT"]),
        token=int(said["TOKIMORI_TOKEN"]),
        scheduled_at=_moment("TOKIMORI_NOMINAL_TIME"),
        due_at=_moment("TOKIMORI_DUE_TIME"),
        payload=_payload(),
        parent_run_id=said.get("TOKIMORI_PARENT_RUN_ID"),
        traceparent=said.get(VARIABLE),
    )
    return CommandTask(facts, _write)


def _write(text: str) -> None:
    sys.stdout.write(text)


def _moment(name: str) -> Moment:
    return parse_moment(os.environ[name], field=name)


def _payload() -> str | None:
    file = os.environ.get("TOKIMORI_PAYLOAD_FILE")
    return os.environ.get("TOKIMORI_PAYLOAD") if file is None else Path(file).read_text(encoding="utf-8")
