"""How far notifying is, as one document."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import NEW_YEAR
from tokimori.model.document import LARGEST_TEXT
from tokimori.model.ids import JobId, RunId
from tokimori.model.notification import Occasion, begun, cause_of, joined, payload_of
from tokimori.model.notifier import Notifier, NotifyOn
from tokimori.model.notifying import (
    MOST_GATHERED,
    MOST_IDS,
    Notifying,
    Trouble,
    ZonedNotifier,
    decode_notifying,
    encode_notifying,
    gathered_with,
    newest_of,
    sending_what_is_due,
)

NOTIFIERS = {"ops": ZonedNotifier(notifier=Notifier(bundle=60)), "all": ZonedNotifier(notifier=Notifier())}


def an_occasion(number: int, error: str | None = None, job: str = "job") -> Occasion:
    """A failure."""
    run_id = RunId(f"00000000-0000-7000-8000-{number:012}")
    return Occasion(event=NotifyOn.FAILURE, job_id=JobId(job), at=NEW_YEAR, run_id=run_id, error=error)


def test_it_fits_into_a_document() -> None:
    """With as many causes as there may be, whose errors are long."""
    happened = [
        (an_occasion(n, f"{chr(0x4E00 + n)}" * 300, f"{n}{'j' * 50}"), ("ops", "all")) for n in range(500) for _ in "ab"
    ]
    state = gathered_with(Notifying(written=NEW_YEAR), happened, NOTIFIERS, NEW_YEAR)
    assert MOST_GATHERED <= len(state.gathered) <= MOST_GATHERED + 2
    assert sum(each.count for each in state.gathered) == 2_000
    text = encode_notifying(state)
    assert len(text.encode()) <= LARGEST_TEXT
    assert [each.count for each in decode_notifying(text).gathered] == [each.count for each in state.gathered]


def test_the_largest_fits_into_a_document() -> None:
    """Ids and names as long as they may be, errors that JSON makes six times as long; all that happened is counted."""
    ids = [JobId(f"{n:0255}") for n in range(1_000)]
    notifiers = {f"{n:0128}": NOTIFIERS["all"] for n in range(4)}
    runs = [an_occasion(n).run_id or RunId("") for n in range(1_000)]
    happened = [(an_occasion(n, "\1" * 300, ids[n]), tuple(notifiers)) for n in range(500)]
    state = Notifying(
        written=NEW_YEAR,
        seen=dict.fromkeys(runs[:500], NEW_YEAR),
        troubles=newest_of({job_id: Trouble(NEW_YEAR, NotifyOn.OVERDUE, parked=True) for job_id in ids}),
        overdue=dict.fromkeys(ids[: MOST_IDS // 255], f"elsewhere {NEW_YEAR}"),
        held=dict.fromkeys(runs[500:], 1),
    )
    state = gathered_with(state, happened, notifiers, NEW_YEAR)
    numbers = iter(range(1_000))
    for _ in "ab":  # first, and with what is on its way
        text = encode_notifying(state)
        assert len(text.encode()) <= LARGEST_TEXT
        read = decode_notifying(text)
        assert sum(each.count for each in read.gathered) == sum(each.count for each in state.gathered)
        assert (read.overdue, read.held, read.seen) == (state.overdue, state.held, state.seen)
        state = sending_what_is_due(state, notifiers, NEW_YEAR, lambda: str(next(numbers)))
    assert state.sending


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, "boom 1", "boom 2", "full"])), max_size=30))
def test_nothing_is_lost_on_the_way_into_messages(given_: list[tuple[int, str | None]]) -> None:
    """Each occasion is counted once for each notifier, whatever is gathered, written, read and sent."""
    happened = [(an_occasion(n, error, f"job{job}"), ("ops", "all", "gone")) for n, (job, error) in enumerate(given_)]
    state, ids, sent = Notifying(written=NEW_YEAR), iter(range(10_000)), 0
    for each in happened:
        state = decode_notifying(encode_notifying(gathered_with(state, [each], NOTIFIERS, NEW_YEAR)))
        state = sending_what_is_due(state, NOTIFIERS, NEW_YEAR, lambda: str(next(ids)))
    waiting = sum(each.count for each in state.gathered)
    sent = sum(payload.count('"run_id":"0') for payload in (each.payload for each in state.sending)) // 2
    assert (waiting, sent) == (len(happened), len(happened))


def test_a_cause_is_an_error_without_its_numbers() -> None:
    """Of what has no error it is the job; without a bundle each occasion is one."""
    errors = ("host 10.0.0.7 is away", "host 10.0.0.12 is away", "run 0197a3b2-11aa-7bbb is away")
    first, second, other = (cause_of(an_occasion(1, error), bundled=True) for error in errors)
    assert first == second != other
    assert cause_of(an_occasion(1), bundled=True) == cause_of(an_occasion(2), bundled=True)
    assert cause_of(an_occasion(1), bundled=False) != cause_of(an_occasion(2), bundled=False)


def test_a_notifier_that_is_named_twice_is_told_once() -> None:
    """As `--notify ops --notify failure=ops` does."""
    state = gathered_with(Notifying(written=NEW_YEAR), [(an_occasion(1), ("all", "all"))], NOTIFIERS, NEW_YEAR)
    assert [each.count for each in state.gathered] == [1]


def test_a_subject_is_one_short_line() -> None:
    """Whatever the template and an error bring."""
    gathered = joined(begun("ops", an_occasion(1, "a\r\nBcc: b" * 100), "", NEW_YEAR), an_occasion(2, job="other"))
    payload = payload_of(gathered, "id", Notifier(subject="{{ error }}\n{{ job_id }}"))
    assert '"job_id":null' in payload
    subject = payload.partition('"subject":"')[2].partition('"')[0]
    assert len(subject) == 200
    assert "\\" not in subject


def test_a_text_is_bounded() -> None:
    """Also where a template names its details as often as it can: a process takes 128 KiB in its environment."""
    gathered = begun("ops", an_occasion(1, "日" * 300), "", NEW_YEAR)
    for n in range(2, 6):
        gathered = joined(gathered, an_occasion(n, "日" * 300, "j" * 255))
    assert len(payload_of(gathered, "id", Notifier(text="{{details}}" * 360)).encode()) < 100_000


def test_of_trouble_the_newest_is_known() -> None:
    """As much as there is room for."""
    troubles = {JobId(f"{n:0250}"): Trouble(NEW_YEAR) for n in range(2_000)}
    kept = newest_of(dict(troubles))
    assert sum(map(len, kept)) <= 40 * 1024
    assert list(kept)[-1] == list(troubles)[-1]
