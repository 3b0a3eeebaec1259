"""Evaluation of a file `schedule.py` in a process of its own. What the file prints goes to standard error.

    python -m tokimori.workspace.evaluate schedule.py ANSWER

The answer is JSON: `schedule` and `terms` of the job, or `fault` with what went wrong, the `line` and what is
`allowed`. Standard library only: this starts at once.
"""

import json
import runpy
import sys
import traceback
from pathlib import Path
from types import CoroutineType


def main(file: str, answer: str) -> None:
    """Write the answer to a file."""
    sys.path.insert(0, str(Path(file).parent))
    result: dict[str, object]
    try:
        value = _schedule(file)
        terms = getattr(value, "said", {})
        result = {"schedule": value, **({"terms": dict(terms)} if terms else {})}
        json.dumps(result)
    except BaseException as fault:
        result = _fault(fault, file)
    Path(answer).write_text(json.dumps(result))


def _schedule(file: str) -> str | None:
    found = runpy.run_path(file).get("schedule")
    value = found() if callable(found) else found
    if isinstance(value, str) or found is None:
        return value
    if isinstance(value, CoroutineType):
        value.close()
        raise TypeError("schedule() is async: write `def schedule():`, and return the schedule")
    if value is None:
        raise TypeError("schedule() returns None: return a schedule, or leave it out for a task that runs on demand")
    raise TypeError(f"the schedule is {type(value).__name__} and no text, such as every(10).seconds")


def _fault(fault: BaseException, file: str) -> dict[str, object]:
    """Return the fault in one line, with the line of the file that led to it. An error of ours says what is allowed."""
    lines = [each.lineno for each in traceback.extract_tb(fault.__traceback__) if each.filename == file]
    if isinstance(fault, SyntaxError) and fault.filename == file:
        lines = [fault.lineno]
    message = "".join(traceback.format_exception_only(fault)).strip().splitlines()[-1]
    field = getattr(fault, "field", None)
    ours = str(getattr(fault, "message", message)).removeprefix(f"{field}: ")
    return {"fault": ours, "line": lines[-1] if lines else None, "allowed": getattr(fault, "allowed", None)}


if __name__ == "__main__":
    main(*sys.argv[1:])
