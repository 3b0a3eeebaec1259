"""What makes a job a notifier, and whom jobs tell."""

from typing import Any

import pytest

from tests.unit.examples import a_definition
from tokimori.errors import InvalidInput
from tokimori.model.checks import check_definition
from tokimori.model.email import Email, Tls
from tokimori.model.encoding import decode_definition, encode_definition
from tokimori.model.notifier import Notifier, NotifyOn, check_notifier

MAIL: dict[str, Any] = {"to": ("ops@example.org",), "smtp": "mail.example.org", "sender": "cron@example.org"}


@pytest.mark.parametrize(
    ("notifier", "field"),
    [
        (Notifier(subject="{{ nobody }}"), "notifier.subject"),
        (Notifier(text="{{ secret.KEY }}"), "notifier.text"),
        (Notifier(text="{{ part.subject }}"), "notifier.text"),
        (Notifier(text="x" * 5_000), "notifier.text"),
        (Notifier(bundle=90_000), "notifier.bundle"),
        (Notifier(quiet=("late",)), "notifier.quiet"),
        (Notifier(quiet=("01:00-02:00",) * 21), "notifier.quiet"),
    ],
)
def test_what_a_notifier_may_not_say(notifier: Notifier, field: str) -> None:
    """The error names the field."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(notifier=notifier))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("notify", "field"),
    [
        ({NotifyOn.FAILURE: ()}, "notify.failure"),
        ({NotifyOn.FAILURE: ("a b",)}, "notify.failure"),
        ({NotifyOn.HELD: ("a",) * 11}, "notify.held"),
    ],
)
def test_whom_a_job_may_not_tell(notify: dict[NotifyOn, tuple[str, ...]], field: str) -> None:
    """The error names the event."""
    with pytest.raises(InvalidInput) as refused:
        check_definition(a_definition(notify=notify))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("job_id", "notifier", "notify"),
    [
        ("ops", Notifier(), {}),
        ("notifier:ops", None, {}),
        ("notifier:a:b", Notifier(), {}),
        ("notifier:ops", Notifier(), {NotifyOn.FAILURE: ("others",)}),
    ],
)
def test_notifiers_and_no_others_have_their_ids(
    job_id: str, notifier: Notifier | None, notify: dict[NotifyOn, tuple[str, ...]]
) -> None:
    """And nobody is told of them."""
    with pytest.raises(InvalidInput):
        check_notifier(job_id, notifier, notify)


def test_definitions_keep_them() -> None:
    """Written and read again."""
    definition = a_definition(
        target=Email(**MAIL, tls=Tls.IMPLICIT), notify={NotifyOn.HELD: ("ops",)}, notifier=Notifier(bundle=60)
    )
    assert decode_definition(encode_definition(definition)) == definition


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"to": ()}, "email"),
        ({"to": ("ops@example.org",) * 51}, "email"),
        ({"to": ("ops@example.org, eve@example.org",)}, "email"),
        ({"to": ("ops@example.org\r\nBcc: eve@example.org",)}, "email"),
        ({"sender": "Cron <cron@example.org>"}, "sender"),
        ({"smtp": "mail.example.org:99999"}, "smtp"),
        ({"smtp": "http://mail.example.org"}, "smtp"),
        ({"user": "cron"}, "smtp_password"),
        ({"password": "MAIL"}, "smtp_user"),
        ({"user": "cron", "password": "MAIL", "tls": Tls.NONE}, "tls"),
        ({"user": "cron", "password": "{{ secret.MAIL }}"}, "smtp_password"),
        ({"subject": "{{ secret.MAIL }}"}, "mail_subject"),
        ({"text": "{{ nobody }}"}, "mail_text"),
    ],
)
def test_an_e_mail_that_no_node_could_send(changes: dict[str, Any], field: str) -> None:
    """The error names the field as people write it."""
    with pytest.raises(InvalidInput) as refused:
        Email(**{**MAIL, **changes}).check()
    assert refused.value.field == field
