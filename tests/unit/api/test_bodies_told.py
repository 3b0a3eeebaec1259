"""What is said of a body that is not what it should be."""

import pytest

from tests.unit.api.asgi import Asker


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("PUT", "/semaphores/p", {"limt": 3}, ("limt", 3, "did you mean limit?")),
        ("PUT", "/semaphores/p", {"limit": "3"}, ("limit", "3", "'3' is not a whole number")),
        ("POST", "/queues/mail/pause", {"resaon": "x"}, ("resaon", "x", "did you mean reason?")),
        ("POST", "/runs", {"job": "a"}, ("job", "a", "there is no such field")),
        ("PUT", "/sets/s", {"jobs": [], "calendar": {}}, ("calendar", "{}", "did you mean calendars?")),
        ("PUT", "/secrets/s", {"valu": "hush"}, ("valu", None, "did you mean value?")),
        ("PUT", "/secrets/s", {"value": 5}, ("value", None, "is not a text")),
    ],
)
async def test_a_fault_names_field_value_and_what_is_allowed(
    door: Asker, method: str, path: str, body: object, said: tuple[str, object, str]
) -> None:
    """With a hint for a misspelt name; what may be a secret is not repeated."""
    field, value, told = said
    error = (await door.post(f"/api/v2{path}", body, method=method)).error
    assert (error["field"], error["value"]) == (field, value)
    assert told in error["message"]
    assert "Object" not in str(error)
    assert "hush" not in str(error)


async def test_what_is_no_json_is_told_so(door: Asker) -> None:
    """In words of ours, with what is wrong with it."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    answer = await door.ask("POST", "/api/v2/jobs", headers=headers, chunks=[b'{"id":'])
    assert (answer.status, answer.error["field"]) == (422, "body")
    assert answer.error["message"] == "the body is not JSON: Input data was truncated"


async def test_what_is_no_utf_8_behind_another_fault_is_told_so(door: Asker) -> None:
    """The first fault ends the typed reading, so that the text behind it is read only to tell of the fault."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    answer = await door.ask("POST", "/api/v2/calls/jobs.refresh", headers=headers, chunks=[b'["args", "\xed\xa0\x80"]'])
    assert (answer.status, answer.error["field"]) == (422, "body")
    assert answer.error["message"] == "the body is not UTF-8"
