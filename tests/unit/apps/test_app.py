"""What an app declares, and how its functions ask for runs."""

import re
from datetime import date
from typing import Any

import pytest

from tokimori.apps.app import App
from tokimori.apps.loading import load_app
from tokimori.errors import InvalidInput
from tokimori.service.definitions.arguments import PlainRequest


def test_a_function_is_declared_as_a_job() -> None:
    """Its id is its name, its handler that below the app's; terms of the retry are keywords of their own."""
    app = App("reports")

    @app.job(
        "0 3 * * *",
        time_zone="Europe/Paris",
        attempts=3,
        retry_delay=5,
        retry_wait=300,
        lost_attempts="unlimited",
        asked_delay="1m",
    )
    def nightly(day: int = 1) -> int:
        return day + 1

    hello = app._hello(1, 2)
    assert [(job.id, job.fields) for job in hello.jobs] == [
        (
            "nightly",
            {
                "function": "reports.nightly",
                "schedule": "0 3 * * *",
                "time_zone": "Europe/Paris",
                "retry": {
                    **{"attempts": 3, "delay": 5.0, "lost_attempts": "unlimited"},
                    **{"asked_delay": 60.0, "wait": 300.0},
                },
            },
        )
    ]
    assert hello.handlers == ["reports.nightly"]
    assert nightly(4) == 5


def test_a_zone_that_is_not_said_is_that_of_the_node() -> None:
    """It is not part of what the app declares."""
    app = App("a")

    @app.job("@daily", runs_remaining=3)
    def job() -> None:
        pass

    assert app._hello(1, 2).jobs[0].fields == {"function": "a.job", "schedule": "@daily", "runs_remaining": 3}


def test_an_app_declares_so_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused, and the error says what else puts jobs in the store."""
    monkeypatch.setattr("tokimori.apps.app.MOST_JOBS", 2)
    app = App("a")

    def tick() -> None: ...

    for job_id in ("one", "two"):
        app.job(id=job_id)(tick)
    with pytest.raises(InvalidInput, match="declares 2 jobs, and 'three' is one more") as found:
        app.job(id="three")(tick)
    assert "`tokimori apply FILE` puts others" in str(found.value.allowed)


def test_handlers_are_names_and_patterns() -> None:
    """A node says both, so that lanes find it."""
    app = App("a", prune="pause")
    app.handler("lazy", "package.module:Class")

    @app.handler(re.compile("import-.*"))
    def imports(**data: Any) -> None:
        pass

    hello = app._hello(1, 2)
    assert (hello.handlers, hello.patterns, hello.vanished) == (["lazy"], ["import-.*"], "pause")


@pytest.mark.parametrize(
    "fields", [{"schedule": "61 * * * *"}, {"attempts": 0}, {"id": "a b"}, {"attemps": 3}, {"priority": 101}]
)
def test_a_bad_term_is_found_when_it_is_declared(fields: dict[str, Any]) -> None:
    """The error is raised at the decorator, where a person reads it."""

    def job() -> None:
        pass

    schedule = fields.pop("schedule", None)
    with pytest.raises(InvalidInput):
        App("a").job(schedule, **fields)(job)


def test_a_payload_is_checked_against_the_function() -> None:
    """Its names and types are checked where it is declared, and whether JSON can hold it; JSON is kept."""
    app = App("a")

    @app.job("@daily", payload={"day": date(2030, 1, 2), "names": ["x"]})
    def job(day: date, names: list[str]) -> None:
        pass

    assert app._hello(1, 2).jobs[0].fields["payload"] == '{"day":"2030-01-02","names":["x"]}'
    for payload in ({"day": 1, "names": []}, {"day": date(2030, 1, 2)}, {"dya": 1}, "no JSON", {"day": object()}, "17"):
        with pytest.raises(InvalidInput, match="payload"):
            app.job(id="other", payload=payload)(job)
    assert [each.id for each in app._hello(1, 2).jobs] == ["job"]


def test_a_scheduled_function_needs_its_arguments() -> None:
    """Each of its runs would fail: the schedule has none to give."""

    def job(number: int, more: int = 1) -> None:
        pass

    with pytest.raises(InvalidInput, match=r"payload: it does not fit .*job\(number: int"):
        App("a").job("@daily")(job)
    App("a").job("@daily", payload={"number": 1})(job)
    App("a").job()(job)


def test_two_jobs_of_one_id_are_refused() -> None:
    """The second one is named, and nothing of it is kept."""
    app = App("a")

    def job() -> None:
        pass

    app.job()(job)
    with pytest.raises(InvalidInput, match="two jobs 'job'"):
        app.job()(job)


def test_arguments_are_checked_where_they_are_asked_for() -> None:
    """`enqueue` raises before any store is touched; `at` and `asked` as well."""
    app = App("a", url="sqlite:///nonexistent/t.db")

    @app.job()
    def job(number: int) -> None:
        pass

    for ask in (job, job.at("2030-01-01T00:00:00Z"), job.asked(key="k"), job.asked(key="k").after("1m").at("2h")):
        with pytest.raises(InvalidInput, match=r"does not fit .*job\(number: int\)"):
            ask.enqueue("x")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="missing a required argument"):
            ask.enqueue()  # type: ignore[call-arg]


def test_what_is_no_app_is_named() -> None:
    """A text that is not MODULE:NAME, a name that is not there, a thing that is no app."""
    for said, why in (
        ("module", "it is not MODULE:NAME"),
        ("tests.unit.apps.test_app:nothing", "the module has no 'nothing'"),
        ("tests.unit.apps.test_app:re", "it is a module"),
        ("nowhere.py:app", "there is no such file"),
    ):
        with pytest.raises(InvalidInput, match=why):
            load_app(said)


def counted(number: int = 1) -> None:
    """Be a job."""


def test_arguments_are_the_payload() -> None:
    """It can't be said beside them."""
    with pytest.raises(InvalidInput, match="payload: the arguments are the payload"):
        App("a", url="memory:").job(counted).asked(payload="1")  # type: ignore[call-arg]


def other(text: str = "x", *, loud: bool = False) -> None:
    """Be another job."""


def bare() -> None:
    """Be a job that takes nothing."""


def test_many_requests_are_checked_where_they_are_asked_for() -> None:
    """One of another function is refused, with its number, before any store is touched."""
    app = App("a", url="sqlite:///nonexistent/t.db")
    one, two, none = app.job()(counted), app.job()(other), app.job()(bare)
    said: list[PlainRequest] = [{"payload": '{"number": "x"}'}, {"payload": {"text": 1}}]
    wrongs: list[Any] = [two.request("y"), two.request(loud=True), *said]
    for wrong in wrongs:
        with pytest.raises(InvalidInput, match=r"requests: number 1: payload: it does not fit counted\(number: int"):
            one.enqueue_many([one.request(1), wrong])
        with pytest.raises(InvalidInput, match=r"requests: number 0: payload: it does not fit bare\(\)"):
            none.enqueue_many([wrong])

    def needs(number: int) -> None: ...

    with pytest.raises(InvalidInput, match=r"requests: number 1: .* missing required field `number`"):
        app.job()(needs).enqueue_many([{"payload": {"number": 1}}, none.request()])
    with pytest.raises(InvalidInput, match="number 0: payload: JSON would change 1"):
        none.enqueue_many([{"payload": {1: 2}}])  # type: ignore[list-item]
    App("a", url="memory:").job(id="fine", payload={"number": 1})(needs).enqueue_many([{}, {"payload": "7"}])
