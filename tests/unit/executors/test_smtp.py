"""The e-mail of an attempt, whatever its payload brings."""

import json
from email import message_from_bytes
from email.policy import SMTP

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.laws import examples
from tests.unit.examples import NEW_YEAR, a_task
from tokimori.errors import InvalidInput
from tokimori.executors.smtp import letter_of
from tokimori.model.email import Email
from tokimori.model.ids import JobId

PIECES = st.one_of(
    st.sampled_from(["=?", "?=", "=?utf-8?q?a?=", "=", "?", ",", "é" * 40, "x" * 90]), st.text(max_size=9)
)


def an_email(to: str = "ops@example.org") -> Email:
    """An e-mail of a notification."""
    return Email(to=(to,), smtp="mail.example.org", sender="cron@example.org")


def content(subject: str, text: str = "text") -> bytes:
    """What is sent."""
    target = an_email()
    task = a_task(target, job_id=JobId("notifier:ops"), payload=json.dumps({"subject": subject, "text": text}))
    return letter_of(task, target, NEW_YEAR).content


@settings(max_examples=examples(30))
@given(st.lists(PIECES, max_size=30).map("".join), st.text(max_size=50))
@example("=??=,     )(@.     )><\x1b,\\\\é\\", "")
def test_any_subject_can_be_sent(subject: str, text: str) -> None:
    """It adds no header, and no line is longer than servers take."""
    sent = content(subject, text)
    assert sorted(message_from_bytes(sent, policy=SMTP)) == sorted(message_from_bytes(content("plain"), policy=SMTP))
    assert max(map(len, sent.split(b"\r\n"))) <= 998


def test_what_reads_as_an_encoded_word_stays_what_it_is() -> None:
    """Nobody's error hides in the subject what others read in the text."""
    read = message_from_bytes(content("nightly: =?utf-8?q?all_is_well?="), policy=SMTP)
    assert "utf-8?q?all_is_well" in str(read["Subject"])


@pytest.mark.parametrize("address", [".a@example.org", "a.@example.org", "a..b@example.org", "a@example..org"])
def test_an_address_that_no_header_can_say_is_refused(address: str) -> None:
    """The e-mail would name nobody in `To`."""
    with pytest.raises(InvalidInput, match="is not an address"):
        an_email(address).check()
    an_email("a.b.c@mail.example.org").check()
