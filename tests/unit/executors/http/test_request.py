"""The request that an attempt sends."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.examples import a_task, seconds
from tokimori.errors import InvalidInput
from tokimori.executors.http.request import Callback, request_of
from tokimori.model.ids import JobId, RunId, Token
from tokimori.model.parents import ParentRun
from tokimori.model.target import Http
from tokimori.model.transitions import RunState
from tokimori.ports.executor import AttemptTask

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def task(target: Http, payload: str | None = None) -> AttemptTask:
    """An attempt."""
    return a_task(
        target, run_id=RunId("r1"), token=Token(7), attempt=2, job_id=JobId("j"), due=seconds(5), payload=payload
    )


def asked(payload: str | None = None, callback: Callback | None = None, **fields: Any) -> Any:
    """The request of a target with these fields."""
    target = Http(**{"url": "http://a.example/", **fields})
    return request_of(task(target, payload), target, callback)


def test_facts_stand_in_their_places() -> None:
    """In the address, in headers and in the body; text that is no place stays as it is."""
    request = asked(
        'say "hi"',
        url="http://a.example/{{ job_id }}?run={{run_id}}&p={{payload}}",
        headers={"X-Try": "{{attempt}}/{{token}}", "X-At": "{{nominal_time}} {{due_time}}"},
        body='{"a": {"p": {{payload_json}}, "parent": "{{parent_run_id}}"}}',
    )
    assert request.url == "http://a.example/j?run=r1&p=say%20%22hi%22"
    assert request.headers["X-Try"] == "2/7"
    assert request.headers["X-At"] == "2030-01-01T00:00:00Z 2030-01-01T00:00:05Z"
    assert json.loads(request.body) == {"a": {"p": 'say "hi"', "parent": ""}}
    assert request.method == "POST"


@given(TEXTS)
def test_a_payload_stays_in_its_place(payload: str) -> None:
    """Whatever a payload holds: it is one part of the path, one string of JSON, and no place of its own."""
    try:
        request = asked(payload, url="http://a.example/{{payload}}/x", body="{{payload_json}}")
    except InvalidInput:
        assert payload in (".", "..")
        return
    assert request.url.count("/") == 4 and request.url.isascii() and "?" not in request.url
    assert json.loads(request.body) == payload
    assert asked("{{token}}", body="{{payload}}").body == b"{{token}}"


@pytest.mark.parametrize("payload", ["a\r\nX-Evil: 1", "a\nb", "\0", "x" * 9_000])
def test_a_payload_brings_no_header(payload: str) -> None:
    """A value that is more than one line is refused before anything is sent."""
    with pytest.raises(InvalidInput) as refused:
        asked(payload, headers={"X-P": "{{payload}}"})
    assert refused.value.field == "headers.X-P"


def test_the_payload_is_the_body_unless_there_is_one() -> None:
    """Where the method has a body; a body is JSON unless a header says otherwise."""
    assert asked("[1]", method="POST").body == b"[1]"
    assert asked("[1]", method="POST").headers["Content-Type"] == "application/json"
    assert asked("[1]").body is None
    assert asked("[1]", method="DELETE").body is None
    typed = asked("x", method="PUT", headers={"content-type": "text/plain"})
    assert [value for name, value in typed.headers.items() if name.casefold() == "content-type"] == ["text/plain"]


def test_no_template_multiplies_a_payload() -> None:
    """A megabyte goes into its places once or twice, as text and as JSON; a thousand times it is refused unwritten."""
    payload = json.dumps("x" * 1_000_000)
    assert len(asked(payload, body='{"a": {{payload_json}}, "b": {{payload}}}').body) > 2_000_000
    with pytest.raises(InvalidInput, match="templates of the job would have 1000002000 characters") as caught:
        asked(payload, body="{{payload}}" * 1_000)
    assert caught.value.field == "payload"


def test_headers_say_which_run_it_is() -> None:
    """As the environment of a command does; the callback is said where there is one."""
    headers = asked(callback=Callback("http://n/callbacks/r1/7", "sig")).headers
    ours = {name: value for name, value in headers.items() if name.startswith("Tokimori-")}
    assert ours == {
        "Tokimori-Job-Id": "j",
        "Tokimori-Run-Id": "r1",
        "Tokimori-Attempt": "2",
        "Tokimori-Token": "7",
        "Tokimori-Nominal-Time": "2030-01-01T00:00:00Z",
        "Tokimori-Due-Time": "2030-01-01T00:00:05Z",
        "Tokimori-Callback": "http://n/callbacks/r1/7",
        "Tokimori-Signature": "sig",
    }
    assert not [name for name in asked().headers if "Callback" in name or "Signature" in name]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "ftp://a.example/"}, "url"),
        ({"url": "http:///x"}, "url"),
        ({"url": "http://a.example:99999/"}, "url"),
        ({"url": "http://ann:secret@a.example/"}, "url"),
        ({"url": "http://{{payload}}/"}, "url"),
        ({"url": "http://a.example/a b"}, "url"),
        ({"url": "http://a.example/{{nonsense}}"}, "url"),
        ({"url": "http://a.example/{{payload"}, "url"),
        ({"method": "BREW"}, "method"),
        ({"headers": {"X Y": "1"}}, "headers"),
        ({"headers": {"Content-Length": "1"}}, "headers"),
        ({"headers": {"Host": "b.example"}}, "headers"),
        ({"headers": {"tokimori-run-id": "1"}}, "headers"),
        ({"headers": {"X": "a\nb"}}, "headers.X"),
        ({"headers": {"X": "{{ code() }}"}}, "headers.X"),
        ({"headers": {f"X-{n}": "" for n in range(101)}}, "headers"),
        ({"body": "{{payload.upper}}"}, "body"),
        ({"expect": (20,)}, "expect"),
    ],
)
def test_what_no_node_could_send_is_refused(fields: dict[str, Any], field: str) -> None:
    """By the name of its field, and without repeating a password."""
    with pytest.raises(InvalidInput) as refused:
        Http(**{"url": "http://a.example/", **fields}).check()
    assert refused.value.field == field
    assert refused.value.allowed
    assert "secret" not in refused.value.message and "secret" not in str(refused.value.value)


def test_values_of_secrets_stand_in_their_places() -> None:
    """In the path, headers and the body; what a payload or a value says is not looked into."""
    target = Http(
        url="http://a.example/{{secret.A}}",
        headers={"Authorization": "Bearer {{ secret.B }}"},
        body="{{ secret.A }} {{ payload }}",
    )
    given_task = replace(task(target, "{{ secret.B }}"), secrets={"A": "a/b", "B": "{{ payload }}"})
    request = request_of(given_task, target)
    assert request.url == "http://a.example/a%2Fb"
    assert request.headers["Authorization"] == "Bearer {{ payload }}"
    assert request.body == b"a/b {{ secret.B }}"


def test_a_value_of_several_lines_is_no_header() -> None:
    """It would be headers of its own; the error does not show it."""
    target = Http(url="http://a.example/", headers={"X-Key": "{{ secret.A }}"})
    with pytest.raises(InvalidInput) as fault:
        request_of(replace(task(target), secrets={"A": "one\r\nX-More: two"}), target)
    assert "two" not in str(fault.value.message)


def test_parts_of_a_payload_stand_in_their_places() -> None:
    """Texts as they are, or as JSON; what is not there is nothing, or null."""
    body = '{"text": {{ part_json.text }}, "n": {{ part.n }}, "no": {{ part_json.no }}, "s": "{{ part.s }}"}'
    request = asked(json.dumps({"text": 'say "hi"', "n": [1]}), body=body)
    assert json.loads(request.body) == {"text": 'say "hi"', "n": [1], "no": None, "s": ""}
    for payload in (None, "no JSON", "[1]", "[" * 100_000, '{"text": "\\ud800"}'):
        assert asked(payload, body="{{ part.text }}").body in (b"", b"?")


@pytest.mark.parametrize("key", ["a key", "whsec_YSBrZXk="])
def test_a_request_is_signed_as_standard_webhooks_say(key: str) -> None:
    """Over its id, which is the same at each attempt, its moment and its body; a key may be base64."""
    target = Http(url="http://a.example/", body="{}", sign_with="KEY")
    attempt = replace(task(target), secrets={"KEY": key})
    headers = request_of(attempt, target, None, seconds(7)).headers
    assert (headers["Webhook-Id"], headers["Webhook-Timestamp"]) == ("r1", str(seconds(7) // 1_000_000))
    signed = f"r1.{headers['Webhook-Timestamp']}.{{}}".encode()
    digest = hmac.new(b"a key", signed, hashlib.sha256).digest()
    assert headers["Webhook-Signature"] == "v1," + base64.b64encode(digest).decode()


def test_a_key_that_is_not_what_it_says() -> None:
    """Nothing is sent under another one."""
    target = Http(url="http://a.example/", sign_with="KEY")
    with pytest.raises(InvalidInput):
        request_of(replace(task(target), secrets={"KEY": "whsec_no base64"}), target)


def test_a_request_goes_on_in_the_trace_of_its_run() -> None:
    """By the header of W3C Trace Context, unless the job says one of its own."""
    place = f"00-{'a' * 32}-{'b' * 16}-01"
    for headers, sent in (({}, {"traceparent": place}), ({"Traceparent": "mine"}, {"Traceparent": "mine"})):
        target = Http(url="http://a.example/", headers=headers)
        request = request_of(replace(task(target), traceparent=place), target)
        assert {name: value for name, value in request.headers.items() if name.lower() == "traceparent"} == sent
    assert "traceparent" not in asked().headers


def child(result: str | None, **fields: Any) -> Any:
    """The request of a run whose parent has this result."""
    target = Http(**{"url": "http://a.example/", **fields})
    target.check()
    parent = ParentRun(id=RunId("p"), job_id=JobId("a"), state=RunState.SUCCEEDED, result=result)
    return request_of(replace(task(target), parents=(parent.id,), parent_runs=(parent,)), target)


@given(st.none() | st.booleans() | st.integers() | TEXTS | st.lists(TEXTS) | st.dictionaries(TEXTS, TEXTS))
def test_a_parents_result_is_a_value_of_json(result: Any) -> None:
    """Whatever it holds: alone it is that value, within a string a part of that, and it fills no place of its own."""
    body = '{"v": {{ parent.result }}, "of": {{parent.a.result}}, "t": "it was \\"{{parent.result}}\\" {{x.y}}"}'
    sent = json.loads(child(json.dumps(result), body=body.replace(" {{x.y}}", "")).body)
    plain = result if isinstance(result, str) else "" if result is None else json.dumps(result)
    assert sent == {"v": result, "of": result, "t": f'it was "{plain}"'}


def test_a_parents_result_is_encoded_for_its_place() -> None:
    """Percent-encoded in a path and a query, as forms are in a form, plain in any other text and in a header."""
    url, nasty = "http://a.example/x/{{parent.result}}?q={{parent.result}}", json.dumps('a/b ?&"{{secret.S}}')
    form = child(
        nasty, url=url, body="r={{parent.result}}", headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    quoted = "a%2Fb%20%3F%26%22%7B%7Bsecret.S%7D%7D"
    assert form.url == f"http://a.example/x/{quoted}?q={quoted}"
    assert form.body == f"r={quoted}".replace("%20", "+").encode()
    plain = child(nasty, body="{{parent.result}}", headers={"Content-Type": "text/plain", "X-R": "{{parent.result}}"})
    assert (plain.body, plain.headers["X-R"]) == (b'a/b ?&"{{secret.S}}', 'a/b ?&"{{secret.S}}')


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("url", {"url": "http://{{parent.result}}/"}),
        ("url", {"url": "http://a.example:{{parent.result}}/"}),
        ("url", {"url": "{{parent.result}}://a.example/"}),
        ("headers", {"headers": {"{{parent.result}}": "x"}}),
        ("headers", {"headers": {"X-{{parent.a.result}}": "x"}}),
        ("body", {"body": "{{parent.payload}}"}),
    ],
)
def test_a_parents_result_chooses_neither_host_nor_header(field: str, fields: Any) -> None:
    """A target that lets it do so is refused when the job is saved."""
    with pytest.raises(InvalidInput) as refused:
        child("1", **fields)
    assert refused.value.field == field


def test_a_result_of_several_lines_is_no_header() -> None:
    """Else it would be headers of its own."""
    with pytest.raises(InvalidInput, match="one line"):
        child(json.dumps("a\r\nX: y"), headers={"X-R": "{{parent.result}}"})
