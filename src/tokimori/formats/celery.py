"""Periodic tasks of Celery beat: from Django's tables, a `beat_schedule` as JSON or TOML, or a program's own app."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import field

from tokimori.clock import Moment
from tokimori.errors import InvalidFile
from tokimori.formats.calls import JUMPS, PARAMETERS, parameters_of
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Option, Pages, Rows
from tokimori.formats.importing import at_once, mapping_in, name_of, text_of

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_NOTES = (
    "Celery beat still sends these tasks: stop it, or they run twice",
    "what Celery calls reports.tasks.send is reports.tasks:send here; a node imports it only if its setting app.stored "
    "allows it, and it must be a plain function there: @app.task makes it an object of Celery",
    JUMPS,
)
_FILES = (".json", ".toml")
_OWN_FILE = "celerybeat-schedule"
_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")
_ERROR = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Configured)\b")
_LONGEST = 60
"""Seconds that the import of a program may take."""
_MOST_READ = 2**16
"""Bytes that are read of what it says meanwhile."""


class CeleryRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of django-celery-beat's tables, by the kind of schedule; `parameters` as of APScheduler."""

    periodictask: Rows
    crontab: Rows = ()
    interval: Rows = ()
    clocked: Rows = ()
    solar: Rows = ()
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)


def _read(said: CeleryRequest, now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.celery import OTHERS, read_celery

    others = {kind: getattr(said, kind) for kind in OTHERS}
    return read_celery(said.periodictask, others, now, said.parameters, said.time_zone)


def _source(given: Given) -> FormatSource:
    source = given.source
    if source.rpartition("/")[2].startswith(_OWN_FILE):
        message = f"{source}: beat's own file holds when tasks ran, as pickles of Celery's classes; it is not read"
        allowed = "MODULE:APP, the beat_schedule of its configuration as JSON or TOML, or django-celery-beat's tables"
        raise InvalidFile(message, field="source", value=source, allowed=allowed)
    if _APP.match(source):
        return _of_schedule(json.loads(_conf_of(source, given.options["python"] or sys.executable)), given)
    if source.lower().endswith(".py"):
        module = source[: -len(".py")].strip("./").replace("/", ".")
        message = f"{source}: a program is not read as a text, but imported by its name"
        raise InvalidFile(message, field="source", value=source, allowed=f"{module}:APP, or {module}:BEAT_SCHEDULE")
    if source == "-" or source.lower().endswith(_FILES):
        return _of_schedule(mapping_in(text_of(source), name_of(source)), given)
    return FormatSource(_of_tables(given), _NOTES)


def _of_schedule(said: Mapping[str, object], given: Given) -> FormatSource:
    from tokimori.translators.celery import beat_of, read_beat_schedule

    beat = beat_of(said)
    zone, zone_notes = (given.zone(beat.time_zone)) if beat.time_zone or not beat.is_utc else given.zone("UTC")
    names = parameters_of(given.options["parameters"])
    read: Callable[[], Iterable[Entry]] = partial(
        read_beat_schedule, beat.entries, name_of(given.source), given.now, names, zone, rates=beat.rates
    )
    return FormatSource(at_once(read), (*zone_notes, f"the times of crontab schedules are in {zone}", *_NOTES))


def _of_tables(given: Given) -> Pages:
    names, (zone, _) = parameters_of(given.options["parameters"]), given.zone("UTC")

    async def pages() -> AsyncIterator["Iterable[Entry]"]:
        from tokimori.sources.tables import check_there, opened
        from tokimori.sources.tables import pages as pages_of
        from tokimori.translators.celery import OTHERS, TASKS, read_celery

        async with opened(given.source) as tables:
            await check_there(tables, (TASKS,))
            there = await tables.names()
            others = {
                kind: [row async for rows in pages_of(tables, table) for row in rows] if table in there else []
                for kind, table in OTHERS.items()
            }
            async for rows in pages_of(tables, TASKS):
                yield read_celery(rows, others, given.now, names, zone)

    return pages


def _conf_of(app: str, python: str) -> str:
    """Return the configuration of a program's app as JSON. The program is imported in a process of its own."""
    with tempfile.TemporaryFile() as said:  # by the program, which may say anything, and much
        try:
            found = subprocess.run(
                [python, "-c", _PROGRAM, app],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                timeout=_LONGEST,
                check=False,
            ).stdout.decode()
        except subprocess.TimeoutExpired:
            message = f"{app}: {python} has not imported it after {_LONGEST} s"
            raise InvalidFile(message, field="source", value=app) from None
        except OSError as fault:
            raise InvalidFile(f"{app}: {python} could not import it: {fault}", field="source", value=app) from None
        said.seek(max(0, said.seek(0, os.SEEK_END) - _MOST_READ))
        lines = said.read().decode(errors="replace").strip().splitlines() or ["it ended without a word"]
    if not found:
        why = next((line for line in reversed(lines) if _ERROR.match(line)), lines[-1])
        allowed = "MODULE:APP that this folder can import; --python names the interpreter that has Celery"
        raise InvalidFile(f"{app}: {python} could not import it: {why}", field="source", value=app, allowed=allowed)
    return found


_PROGRAM = """
import datetime, functools, importlib, json, os, sys

found = os.dup(1)
os.dup2(2, 1)  # for whatever the program says

def end(conf):  # at once: what the program does at its end may say more, or never come to one
    with open(found, "w") as file:
        file.write(json.dumps(conf, default=repr))
    os._exit(0)

def plain(said):
    if hasattr(said, "_orig_minute"):
        names = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
        found = {name: getattr(said, "_orig_" + name) for name in names}
        return {"crontab": {name: each if isinstance(each, (int, str)) else list(each) for name, each in found.items()}}
    every = getattr(said, "run_every", said)
    if isinstance(every, datetime.timedelta):
        return every.total_seconds()
    return every if isinstance(every, (int, float)) else repr(said)

def entry(said):
    found = {**said, "schedule": plain(said.get("schedule"))}
    for name in ("args", "kwargs", "options"):
        try:
            json.dumps(found.get(name))
        except (TypeError, ValueError):
            found[name] = repr(found[name])
    return found

module, _, name = sys.argv[1].partition(":")
sys.path.insert(0, "")
module = importlib.import_module(module)
app = functools.reduce(getattr, name.split("."), module)
if isinstance(app, dict):  # a beat_schedule, in a module of settings
    names = ("timezone", "enable_utc", "CELERY_TIMEZONE", "CELERY_ENABLE_UTC")
    beside = {each: getattr(module, each) for each in names if hasattr(module, each)}
    beside["beat_schedule"] = {each: entry(said) for each, said in app.items()}
    end(beside)
conf = app.conf
zone = conf.timezone and str(conf.timezone)
tasks = getattr(app, "tasks", {})  # this ends the app's setup, which may add periodic tasks
entries = {name: entry(said) for name, said in (conf.beat_schedule or {}).items()}
rates = {name: {"rate_limit": task.rate_limit} for name, task in tasks.items() if getattr(task, "rate_limit", None)}
conf = {"timezone": zone, "enable_utc": bool(conf.enable_utc), "beat_schedule": entries, "task_annotations": rates}
end(conf)
"""

FORMAT = Format(
    what="periodic tasks of Celery beat",
    help="""SOURCE is a database with django-celery-beat's tables, a file or a URL; the app of a program, or its
    beat_schedule, as MODULE:NAME, which is imported in a process of its own; or a beat_schedule with the app's
    timezone, enable_utc and task_annotations beside it, as FILE.json, FILE.toml or JSON from standard input (-). A
    task's rate_limit becomes that of the job.""",
    request=CeleryRequest,
    example={
        "periodictask": [{"id": 1, "name": "ping", "task": "shop.tasks.ping", "interval_id": 1}],
        "interval": [{"id": 1, "every": 10, "period": "seconds"}],
    },
    read=_read,
    source=_source,
    options=(PARAMETERS, Option("python", "Import MODULE:APP by this interpreter, instead of Tokimori's.", "PROGRAM")),
)
