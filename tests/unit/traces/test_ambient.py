"""Where a program stands in a trace."""

import subprocess
import sys
from contextvars import copy_context

from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider

from tests.unit.apps.tasks import a_facts
from tokimori.apps.task import Task, take_in_hand
from tokimori.traces.ambient import ambient

GIVEN, OF_ATTEMPT = (f"00-{trace * 32}-{'b' * 16}-01" for trace in "12")


def test_the_nearest_one_counts() -> None:
    """The variable, over it the attempt that the caller works on, and over both the current span."""
    place = ambient({"TRACEPARENT": GIVEN})
    assert place() == GIVEN

    def within() -> None:
        take_in_hand(Task(replace(a_facts(), traceparent=OF_ATTEMPT), lambda _: None))
        assert place() == OF_ATTEMPT
        with TracerProvider().get_tracer("test").start_as_current_span("mine") as span:
            at = span.get_span_context()
            assert place() == f"00-{at.trace_id:032x}-{at.span_id:016x}-{at.trace_flags:02x}"
        assert place() == OF_ATTEMPT

    copy_context().run(within)
    assert place() == GIVEN


def test_what_is_no_traceparent_counts_for_nothing() -> None:
    """A wrong variable, or none, is no trace."""
    assert ambient({"TRACEPARENT": "what?"})() is None
    assert ambient({})() is None


def test_opentelemetry_is_not_loaded_for_that() -> None:
    """Its users load it: a command that asks for a run starts without."""
    code = (
        "import sys; from tokimori.traces.ambient import ambient; import tokimori.traces.spans, tokimori.apps.attempt\n"
        f"assert ambient({{'TRACEPARENT': {GIVEN!r}}})() == {GIVEN!r}\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
