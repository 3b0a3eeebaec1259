"""What a run is given to work on."""

import pytest

from tests.unit.examples import a_definition, a_run
from tokimori.errors import InvalidInput
from tokimori.model.attempt_notes import MOST_PAYLOAD, given_to, payload_for
from tokimori.model.checks import check_definition
from tokimori.model.run import Details

WITH_PAYLOAD = a_definition(payload='{"of": "the job"}')


def test_a_run_that_brings_none_gets_that_of_its_job() -> None:
    """As the job is when the attempt starts; without a job, or where it has none, there is none."""
    assert payload_for(a_run(), WITH_PAYLOAD) == '{"of": "the job"}'
    assert payload_for(a_run(), a_definition()) is None
    assert payload_for(a_run(), None) is None


@pytest.mark.parametrize("payload", ["{}", "", "null", "no JSON"])
def test_what_a_run_brings_wins(payload: str) -> None:
    """Whatever it is: also one that is empty."""
    assert payload_for(a_run(payload=payload), WITH_PAYLOAD) == payload
    assert payload_for(a_run(payload=payload, details=Details(payload="1")), WITH_PAYLOAD) == payload


def test_what_an_attempt_has_got_stays() -> None:
    """A retry gets what the first attempt got, whatever its job says by now."""
    run = a_run(details=Details(payload="1"))
    assert payload_for(run, WITH_PAYLOAD) == payload_for(run, None) == given_to(run) == "1"


@pytest.mark.parametrize(
    "payload", ["{}", "[1, null]", '"text"', "17", "null", '"' + "é" * (MOST_PAYLOAD // 2 - 1) + '"']
)
def test_a_jobs_payload_is_any_json(payload: str) -> None:
    """Up to its bound, which is one of bytes."""
    assert check_definition(a_definition(payload=payload)).payload == payload


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ("", "is not JSON"),
        ("text", "is not JSON"),
        ("{'a': 1}", "is not JSON"),
        ("{} {}", "is not JSON"),
        ("NaN", "is not JSON"),
        ("[" * 100_00, "is not JSON"),
        ('"' + "é" * (MOST_PAYLOAD // 2) + '"', "65538 bytes are too many"),
        ('"a\0b"', "can't be kept"),
    ],
)
def test_what_is_no_payload_of_a_job_is_refused(payload: str, why: str) -> None:
    """The field is named, and what is allowed."""
    with pytest.raises(InvalidInput, match=why) as fault:
        check_definition(a_definition(payload=payload))
    assert fault.value.field == "payload"
    assert fault.value.allowed
