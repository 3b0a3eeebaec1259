"""Who is named by MAILTO gets e-mails."""

from collections.abc import Iterable

from tests.unit.examples import a_definition
from tokimori.model.email import Email, Tls
from tokimori.model.job import Definition
from tokimori.model.notifier import TROUBLES, notifiers_in
from tokimori.translators.crontab_mail import with_mail
from tokimori.translators.entries import Entry, Moved


def a_job(name: str, mailto: str | None) -> Moved:
    return Moved(place=name, job_id=name, definition=a_definition(mailto=mailto))


def by_id(entries: Iterable[Entry]) -> dict[str, Definition]:
    return {each.job_id: each.definition for each in entries if isinstance(each, Moved)}


def test_each_address_has_one_notifier() -> None:
    """Which its jobs name; users of the machine and jobs without MAILTO are left as they are."""
    mailto = {"a": "ops@example.org", "b": "ops@example.org", "c": "x@h.org, y@h.org", "d": "root", "e": None, "f": ""}
    jobs = [a_job(name, to) for name, to in mailto.items()]
    found = by_id(with_mail(jobs, "mail.example.org", "cron@example.org", Tls.STARTTLS))
    told = {name: notifiers_in(found[name].notify) for name in mailto}
    assert told["a"] == told["b"] == ["mail-ops-example.org"]
    assert set(found["a"].notify) == set(TROUBLES)
    assert [told[name] for name in "def"] == [[], [], []]
    (name,) = told["c"]
    target = found[f"notifier:{name}"].target
    assert isinstance(target, Email)
    assert target.to == ("x@h.org", "y@h.org")
    assert len(found) == len(jobs) + 2


def test_other_addresses_have_other_notifiers() -> None:
    """Also where their words would be the same."""
    addresses = ("x+y@h.org", "x=y@h.org", "x-y@h.org", "x@y-h.org")
    found = by_id(with_mail([a_job(each, each) for each in addresses], "h", "c@h.org", Tls.NONE))
    for address in addresses:
        (name,) = notifiers_in(found[address].notify)
        target = found[f"notifier:{name}"].target
        assert isinstance(target, Email)
        assert target.to == (address,)
