"""The errors with their codes, from the one tree of errors; and what to do about each."""

from collections.abc import Iterator

import tokimori.errors
from docs.made.markdown import REFERENCE, code, table, text
from tokimori.errors import TokimoriError

PAGE = REFERENCE / "errors.md"
ADVICE = {
    "error": "Read the message. It names the thing and the next command.",
    "invalid_input": "Read `field`, `value` and `allowed`. Correct the value and ask again.",
    "invalid_schedule": "Try the text with `tokimori schedule explain`. [Schedules](schedules.md) lists all notations.",
    "invalid_file": "Go to the file and the line that the message names.",
    "invalid_config": "`tokimori config check` lists every fault, `tokimori config show` where each value came from.",
    "refused": "Read `allowed`: it names the command or the setting that opens the way.",
    "outdated": "Read the thing again, then change it.",
    "duplicate": "`value` is the run that holds the key: use it, or ask with `on_duplicate` same or replace.",
    "run_not_ended": "Wait longer, or come back with its id. `tokimori run why` says what holds it.",
    "run_failed": "Read `error` and `traceback`. `tokimori run retry` asks for the run once more.",
    "token_expired": "Make a new token: `tokimori token create`.",
    "forbidden": "Ask with a token of a higher role or a wider scope. `field` says which of them is in the way.",
    "not_found": "See the list: `tokimori job list`, `tokimori run list`. It may have been deleted or pruned.",
    "conflict": "Ask again. Somebody changed the same thing at that moment.",
    "already_exists": "Take another id, or change what is there: `tokimori job update`.",
    "family_changed": "Ask again.",
    "not_granted": "Wait longer (`--wait`), or see who holds the units: `tokimori lock list`.",
    "permit_lost": "Stop writing: others may hold the units. Take the lock again.",
    "claim_lost": "Stop this run. Another worker has it.",
    "already_finished": "Nothing. It has been finished before.",
    "overtaken": "See what the other one did, and decide anew. Asking again changes nothing.",
    "store_error": "`tokimori doctor` and `tokimori db check` say what is wrong.",
    "store_unavailable": "Ask again in a few seconds; a request with a key is safe to repeat. See `tokimori doctor`.",
    "store_too_slow": "Ask for less: a smaller `--limit`, a narrower filter.",
    "store_replaced": "Put the store's file back, or restart the nodes if it was replaced on purpose.",
    "store_refused": "Read the message of the database: a right, a quota or a bound is in the way.",
    "schema_mismatch": "`tokimori db migrate` updates the tables. If the store is newer, update this machine.",
    "permanent": "Your function raised it. Correct what it was given; a retry is of no use.",
    "bug": "Run the command again with `--debug`, and report what it prints.",
    "host_not_allowed": "Use a name of the node, or set `http.public_url` behind a proxy.",
    "origin_not_allowed": "Ask from the node's own page, or without the header `Origin`.",
    "site_not_allowed": "Open the page by its address and not from another site.",
    "too_large": "Send less, or in several requests.",
    "unsupported_media_type": "Send JSON: `Content-Type: application/json`.",
    "unauthorized": "Bring the secret or a token: `tokimori node address --header`, `tokimori token create`.",
    "too_many_requests": "Wait for the seconds in `Retry-After`. `http.rate` is the bound.",
    "method_not_allowed": "See [HTTP](http.md) for the methods of the path.",
    "too_late": "Nothing. The run has ended, and its callback is over.",
    "stopping": "Ask another node. This one stops.",
    "too_many": "Close other streams, or raise `http.streams`.",
    "range_not_satisfiable": "Ask for a part within `Tokimori-Log-Size`.",
}
OF_HTTP = {
    "host_not_allowed": (403, "The header `Host` is not a name of the node."),
    "origin_not_allowed": (403, "A page of another site asks."),
    "site_not_allowed": (403, "A page of another site asks."),
    "too_large": (413, "The body is larger than allowed."),
    "unsupported_media_type": (415, "The body is not JSON."),
    "unauthorized": (401, "The request brings neither the secret nor a token."),
    "too_many_requests": (429, "This client asks too often."),
    "method_not_allowed": (405, "The path has no such method."),
    "too_late": (410, "The run of a callback has ended."),
    "stopping": (503, "The node stops, and opens no stream any more."),
    "too_many": (503, "The node has as many streams as it takes."),
    "range_not_satisfiable": (416, "The part of a log begins behind its end."),
}


def errors() -> list[type[TokimoriError]]:
    """Return all errors, in the order of the tree."""
    found = vars(tokimori.errors).values()
    return [each for each in found if isinstance(each, type) and issubclass(each, TokimoriError)]


def page() -> str:
    """Return the page."""
    return text(_lines())


def _lines() -> Iterator[str]:
    yield from (
        "# Errors",
        "",
        "Written by `make docs` from `src/tokimori/errors.py`. The code is stable and meant for programs. The message",
        "is meant for people. `field`, `value` and `allowed` say which part is meant, what stood there and what may.",
        "",
        "* Python raises the error: `except tokimori.NotFound as error: error.code`. A web service may answer with its "
        "`error.status`.",
        "* Commands print it to standard error and end with its exit code. With `--json` it is JSON.",
        "* HTTP answers `application/problem+json` with its status.",
        "",
    )
    head = ("code", "error", "exit code", "HTTP", "meaning", "what to do")
    yield from table(head, map(_row, errors()))
    yield from ("", "## Over HTTP alone", "")
    rows = [(code(each), str(status), meaning, ADVICE[each]) for each, (status, meaning) in OF_HTTP.items()]
    yield from table(("code", "HTTP", "meaning", "what to do"), rows)


def _row(kind: type[TokimoriError]) -> tuple[str, ...]:
    meaning = (kind.__doc__ or "").partition("\n\n")[0]
    numbers = (str(kind.exit_code), str(kind.status))
    return (code(kind.code), code(kind.__name__), *numbers, meaning, ADVICE[kind.code])
