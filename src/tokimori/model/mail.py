"""E-mails of notifications: subject, text and HTML that say what, where, how often and why. Pure."""

import shlex
from collections.abc import Sequence
from html import escape

import msgspec
from msgspec import Struct

from tokimori.clock import SECOND, Moment, format_moment
from tokimori.model.cause import cause_in, plain
from tokimori.model.job import Job
from tokimori.model.notification import LONGEST_SUBJECT, LONGEST_TEXT
from tokimori.model.notifier import NotifyOn
from tokimori.model.run import Output, Run
from tokimori.model.target import Build, Command, Function, Http

LINES, _LONGEST_LINE, _MOST_BYTES = 30, 300, 32 * 1024
"""Lines of output that an e-mail quotes, characters of each, and bytes of the output that are looked at."""
_DID = {
    NotifyOn.FAILURE: "failed",
    NotifyOn.PARKED: "is parked",
    NotifyOn.HELD: "is held",
    NotifyOn.OVERDUE: "is overdue",
    NotifyOn.RECOVERY: "has recovered",
    NotifyOn.SUCCESS: "succeeded",
}
_MENDS = {
    NotifyOn.FAILURE: ("run it again", "tokimori run retry {run}"),
    NotifyOn.PARKED: ("let the job go on", "tokimori job resolve {job}"),
    NotifyOn.HELD: ("let it go on", "tokimori run resume {run}"),
    NotifyOn.OVERDUE: ("see why", "tokimori job why {job}"),
}


class MailFacts(Struct, frozen=True, kw_only=True):
    """Facts about the first occasion of a notification, as far as they are known.

    `row` counts the failures in a row, this one included. `others` are lines about further occasions, and `count` is
    the number of all. `link` is the address of the run.
    """

    event: NotifyOn
    job_id: str
    at: Moment
    count: int = 1
    job: Job | None = None
    run: Run | None = None
    host: str | None = None
    row: int = 0
    said: str | None = None
    output: Output | None = None
    others: tuple[str, ...] = ()
    link: str | None = None


class Mail(Struct, frozen=True, kw_only=True):
    """Parts of an e-mail."""

    subject: str
    text: str
    html: str


def mail_of(facts: MailFacts) -> Mail:
    """Return the e-mail that says this."""
    subject = " ".join(_subject(facts).split())[:LONGEST_SUBJECT]
    rows, lines, mends = _rows(facts), last_lines(facts.output), _mends(facts)
    text = [subject, "", *(f"{name:<10} {value}" for name, value in rows)]
    text += ["", f"Last lines of its output ({len(lines)}):", *(f"    {line}" for line in lines)] if lines else []
    text += ["", f"Others of the {facts.count}:", *facts.others] if facts.others else []
    text += ["", *(f"To {why}: {command}" for why, command in mends)] if mends else []
    return Mail(
        subject=subject, text="\n".join(text)[:LONGEST_TEXT] + "\n", html=_html(facts, subject, rows, lines, mends)
    )


def _subject(facts: MailFacts) -> str:
    where = f" on {facts.host}" if facts.host else ""
    often = f", {facts.count} times" if facts.count > 1 and not facts.others else ""
    often = often or (f" and {facts.count - 1} more" if facts.count > 1 else "")
    row = f", {facts.row} times in a row" if facts.row > 1 and facts.event is not NotifyOn.RECOVERY else ""
    why = "" if facts.run is None or facts.event is NotifyOn.RECOVERY else cause_in(facts.run) or ""
    why = why or (plain(facts.said.splitlines()[0]) if facts.said and facts.event is not NotifyOn.RECOVERY else "")
    return f"{facts.job_id} {_DID[facts.event]}{where}{often or row}" + (f": {why}" if why else "")


def _rows(facts: MailFacts) -> list[tuple[str, str]]:
    run, job = facts.run, facts.job
    rows = [("job", facts.job_id)]
    if job is not None:
        rows += [(name, shown(value)) for name, value in what_of(job)]
    if run is not None:
        cause = cause_in(run)
        rows += [("cause", cause)] if cause else []
        most = None if job is None else job.definition.retry.attempts
        rows += [("attempt", f"{run.attempt}" + (f" of {most}" if most is not None and most >= run.attempt else ""))]
        rows += [("host", facts.host)] if facts.host else []
        rows += [("began", format_moment(run.started))] if run.started is not None else []
        took = f", after {(run.ended - run.started) / SECOND:.3g} s" if run.ended and run.started else ""
        rows += [("ended", format_moment(run.ended) + took)] if run.ended is not None else []
        rows += [("error", shown(run.error))] if run.error else []
        rows += [("run", run.id)]
    else:
        rows += [("at", format_moment(facts.at))]
        rows += [("said", shown(facts.said))] if facts.said else []
    return [*rows, *([("page", facts.link)] if facts.link else [])]


def what_of(job: Job) -> list[tuple[str, str]]:
    """Return the command, function or request of a job."""
    match job.definition.target:
        case Command(shell=str(shell)):
            return [("command", shell)]
        case Command(argv=argv):
            return [("command", shlex.join(argv))]
        case Function(name=name):
            return [("function", name)]
        case Build(task=task):
            return [("task", task)]
        case Http(url=url, method=method):
            return [("request", f"{method or 'GET'} {url}")]
        case _:
            return []


def shown(text: str) -> str:
    """Return a text as one line, without what nobody sees."""
    return " ".join(plain(line) for line in text.splitlines() if line.strip())[: 2 * _LONGEST_LINE]


def last_lines(output: Output | None) -> list[str]:
    """Return the last lines of an output, without escape sequences of terminals."""
    if output is None:
        return []
    lines = (output.tail or output.head)[-_MOST_BYTES:].decode(errors="replace").rstrip().splitlines()[-LINES:]
    return [plain(line)[:_LONGEST_LINE].rstrip() for line in lines]


def _mends(facts: MailFacts) -> list[tuple[str, str]]:
    run, job = (None if facts.run is None else facts.run.id), shlex.quote(facts.job_id)
    found = [_MENDS[facts.event]] if facts.event in _MENDS else []
    if run is not None and facts.event is not NotifyOn.RECOVERY:
        found.append(("see all of its output", "tokimori run logs {run}"))
    return [(why, command.format(run=run, job=job)) for why, command in found if run or "{run}" not in command]


def _html(
    facts: MailFacts,
    subject: str,
    rows: Sequence[tuple[str, str]],
    lines: Sequence[str],
    mends: Sequence[tuple[str, str]],
) -> str:
    cells = "".join(f"<tr><th align=left>{escape(name)}</th><td>{_cell(name, value)}</td></tr>" for name, value in rows)
    parts = [f"<h2>{escape(subject)}</h2>", f"<table cellpadding=3>{cells}</table>"]
    if lines:
        parts += ["<p>Last lines of its output:</p>", f"<pre>{escape(chr(10).join(lines))}</pre>"]
    if facts.others:
        parts += [f"<p>Others of the {facts.count}:</p>", f"<pre>{escape(chr(10).join(facts.others))}</pre>"]
    parts += [f"<p>To {escape(why)}: <code>{escape(command)}</code></p>" for why, command in mends]
    return f"<!doctype html><html><body>{''.join(parts)}</body></html>\n"


def _cell(name: str, value: str) -> str:
    return f'<a href="{escape(value)}">{escape(value)}</a>' if name == "page" else escape(value)


class MailParts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Members of a payload that only an e-mail shows: its HTML, whose thread it `begins`, and to which it belongs."""

    html: str | None = None
    begins: str | None = None
    threads: tuple[str, ...] = ()


def parts_in(payload: str | None) -> MailParts:
    """Return the parts of an e-mail in a payload; none in one that is no notification's."""
    try:
        found = msgspec.json.decode(payload or "", type=MailParts)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return MailParts()
    return (
        found
        if all(each.isalnum() and each.isascii() for each in (*found.threads, found.begins or "x"))
        else MailParts()
    )
