"""Asks a file `schedule.py` for its schedule, in a process of its own. What the file prints goes to standard error.

    python -m tokimori.workspace.evaluate schedule.py ANSWER

The answer is JSON: `schedule`, or `fault` with what went wrong. Standard library only: this starts at once.
"""

import json
import runpy
import sys
import traceback
from pathlib import Path


def main(file: str, answer: str) -> None:
    """Write the answer to a file."""
    sys.path.insert(0, str(Path(file).parent))
    try:
        said = {"schedule": _schedule(file)}
    except BaseException as fault:
        said = {"fault": _where(fault, file)}
    Path(answer).write_text(json.dumps(said))


def _schedule(file: str) -> str | None:
    found = runpy.run_path(file).get("schedule")
    value = found() if callable(found) else found
    if value is None or isinstance(value, str):
        return value if value is None else str(value)
    raise TypeError(f"the schedule is {type(value).__name__} and no text, such as every(10).seconds")


def _where(fault: BaseException, file: str) -> str:
    """The fault in one line, with the line of the file that led to it."""
    lines = [each.lineno for each in traceback.extract_tb(fault.__traceback__) if each.filename == file]
    if isinstance(fault, SyntaxError) and fault.filename == file:
        lines = [fault.lineno]
    said = "".join(traceback.format_exception_only(fault)).strip().splitlines()[-1]
    return f"line {lines[-1]}: {said}" if lines and lines[-1] else said


if __name__ == "__main__":
    main(*sys.argv[1:])
