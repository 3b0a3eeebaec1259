"""What is said of a body that is not what it should be."""

from gzip import compress

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


@pytest.mark.parametrize(
    "body", [r'{"id":"\ud800"}', r'{"id":"\ud800a"}', r'{"id":"a longer \ud800 text"}', r'{"id":"\ud83d\ude00 \udc00"}']
)
async def test_half_of_a_surrogate_pair_is_told_as_what_it_is(door: Asker, body: str) -> None:
    """It was called truncated, though the body is whole."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    answer = await door.ask("POST", "/api/v2/jobs", headers=headers, chunks=[body.encode()])
    half = r"\udc00" if r"\udc00" in body else r"\ud800"
    assert (
        answer.error["message"] == f"the body is not JSON: {half} is half of a surrogate pair, which no text can hold"
    )
    cut = await door.ask("POST", "/api/v2/jobs", headers=headers, chunks=[rb'{"id":"\ud83d\ude00 \\ud800'])
    assert cut.error["message"] == "the body is not JSON: Input data was truncated"


@pytest.mark.parametrize(
    "body", ['{"id":"a","noop":true,"id":"b"}', '{"id":"a","noop":true,"payload":{"x":{"y":1,"y":2}}}']
)
async def test_a_body_with_a_key_twice_is_refused(door: Asker, body: str) -> None:
    """One of both would vanish without a word."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    answer = await door.ask("POST", "/api/v2/jobs", headers=headers, chunks=[body.encode()])
    assert (answer.status, answer.error["field"], answer.error["allowed"]) == (
        422,
        "body",
        "each key of an object once",
    )
    assert "stands 2 times in one object" in answer.error["message"]


async def test_a_compressed_body_is_told_to_come_as_it_is(door: Asker) -> None:
    """It was called no JSON; another header than that for it is not looked at."""
    headers = [("host", "localhost"), ("content-type", "application/json"), ("content-encoding", "gzip")]
    answer = await door.ask("POST", "/api/v2/jobs", headers=headers, chunks=[compress(b'{"id":"a","noop":true}')])
    assert (answer.status, answer.error["field"], answer.error["value"]) == (415, "Content-Encoding", "gzip")


async def test_what_is_no_utf_8_behind_another_fault_is_told_so(door: Asker) -> None:
    """The first fault ends the typed reading, so that the text behind it is read only to tell of the fault."""
    headers = [("host", "localhost"), ("content-type", "application/json")]
    answer = await door.ask("POST", "/api/v2/calls/jobs.refresh", headers=headers, chunks=[b'["args", "\xed\xa0\x80"]'])
    assert (answer.status, answer.error["field"]) == (422, "body")
    assert answer.error["message"] == "the body is not UTF-8"
