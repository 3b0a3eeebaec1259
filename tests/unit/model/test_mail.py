"""E-mails of notifications say what, where, how often and why, and nothing in them is markup of a job's own."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.examples import a_definition, a_job, a_run, seconds
from tokimori.model.ids import JobId, RunId
from tokimori.model.mail import LINES, MailFacts, last_lines, mail_of, parts_in
from tokimori.model.notification import LONGEST_SUBJECT, LONGEST_TEXT, Occasion, begun, joined, payload_of
from tokimori.model.notifier import Notifier, NotifyOn
from tokimori.model.policies import Retry
from tokimori.model.run import Details, Output
from tokimori.model.target import Command, Function
from tokimori.model.transitions import RunState

RUN = a_run(
    id=RunId("01b8dac5-b400-7000-8000-000000000001"),
    state=RunState.FAILED,
    attempt=3,
    started=seconds(10),
    ended=seconds(15),
    exit_code=3,
    error="exit code 3",
    details=Details(cause="exit 3: refused by db-#"),
)
JOB = a_job(a_definition(target=Command(argv=("load", "all of it")), retry=Retry(attempts=3)))
FACTS = MailFacts(event=NotifyOn.FAILURE, job_id="etl", at=seconds(15), run=RUN, job=JOB, host="web-2", row=3)


def an_output(text: bytes) -> Output:
    """It wrote this."""
    return Output(run_id=RUN.id, attempt=3, size=len(text), head=text)


def test_it_says_what_where_how_often_and_why() -> None:
    """The subject has all of it; the text has command, attempt, times, cause, output, link and the mending command."""
    mail = mail_of(replace(FACTS, output=an_output(b"one\ntwo\n"), link="https://t.example/runs/1"))
    assert mail.subject == "etl failed on web-2, 3 times in a row: exit 3: refused by db-#"
    for part in (
        "command    load 'all of it'",
        "cause      exit 3: refused by db-#",
        "attempt    3 of 3",
        "host       web-2",
        "after 5 s",
        "    two",
        "page       https://t.example/runs/1",
        f"To run it again: tokimori run retry {RUN.id}",
    ):
        assert part in mail.text, part
    assert '<a href="https://t.example/runs/1">' in mail.html


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({"row": 1, "host": None}, "etl failed: exit 3: refused by db-#"),
        ({"count": 4, "others": ("x",)}, "etl failed on web-2 and 3 more: exit 3: refused by db-#"),
        ({"count": 4}, "etl failed on web-2, 4 times: exit 3: refused by db-#"),
        ({"event": NotifyOn.RECOVERY}, "etl has recovered on web-2"),
        ({"event": NotifyOn.OVERDUE, "run": None, "host": None, "row": 0, "said": "late\nby"}, "etl is overdue: late"),
        ({"event": NotifyOn.PARKED}, "etl is parked on web-2, 3 times in a row: exit 3: refused by db-#"),
    ],
)
def test_each_event_has_its_subject(changes: dict[str, Any], subject: str) -> None:
    """Each event has its verb, and how often it was if that was more than once."""
    assert mail_of(replace(FACTS, **changes)).subject == subject


def test_output_is_cut_and_clean() -> None:
    """The last 30 lines are quoted, without escape sequences, bidi marks and what is too long."""
    text = "".join(f"line {n}\n" for n in range(100)) + "\x1b[31mred\x1b[0m \u202eend\x07" + "x" * 5_000
    lines = last_lines(an_output(text.encode() + b"\xff"))
    assert (len(lines), lines[0]) == (LINES, "line 71")
    assert lines[-1].startswith("red endxxx")
    assert len(lines[-1]) <= 300
    assert last_lines(None) == last_lines(an_output(b"")) == []


def test_nothing_is_markup() -> None:
    """Names, causes, outputs and commands of any kind are shown as they are, within bounds."""
    evil = '<script>alert("x")</script>\r\nBcc: eve@example.org'
    job = a_job(a_definition(target=Function(name=evil)))
    run = replace(RUN, error=evil * 1_000, details=Details(cause=evil))
    facts = replace(FACTS, job_id=evil, job=job, run=run, host=evil, output=an_output(evil.encode() * 100))
    mail = mail_of(facts)
    assert "<script" not in mail.html
    assert "\n" not in mail.subject
    assert len(mail.subject) <= LONGEST_SUBJECT
    assert len(mail.text) <= LONGEST_TEXT + 1


def occasion(event: NotifyOn, at: int, since: int | None) -> Occasion:
    """Something that happened to a job."""
    return Occasion(event=event, job_id=JobId("etl"), at=seconds(at), since=None if since is None else seconds(since))


def test_a_trouble_is_one_thread() -> None:
    """The first message of a trouble begins a thread, and those after it and the recovery belong to it."""

    def told(*occasions: Occasion, notifier: str = "ops") -> Any:
        gathered = begun(notifier, occasions[0], "", seconds(0))
        for each in occasions[1:]:
            gathered = joined(gathered, each)
        return json.loads(payload_of(gathered, "id", Notifier()))

    first = told(occasion(NotifyOn.FAILURE, 1, 1))
    again, end = told(occasion(NotifyOn.FAILURE, 5, 1)), told(occasion(NotifyOn.RECOVERY, 9, 1))
    assert (first["begins"], "threads" in first) == (again["threads"][0], False)
    assert again["threads"] == end["threads"]
    assert told(occasion(NotifyOn.FAILURE, 20, 20))["begins"] != first["begins"]
    assert told(occasion(NotifyOn.FAILURE, 1, 1), notifier="other")["begins"] != first["begins"]
    both = told(occasion(NotifyOn.FAILURE, 1, 1), occasion(NotifyOn.FAILURE, 2, 1))
    assert both["threads"] == [first["begins"]]
    assert not {"begins", "threads"} & told(occasion(NotifyOn.SUCCESS, 1, None)).keys()


@pytest.mark.parametrize("payload", [None, "", "[1]", '{"threads": "x"}', '{"threads": ["a>b"]}', '{"begins": "a b"}'])
def test_what_is_no_notification_has_no_parts(payload: str | None) -> None:
    """A payload of users brings no headers."""
    found = parts_in(payload)
    assert (found.html, found.begins, found.threads) == (None, None, ())
