"""What is kept of a task: a bounded number of builds and of what happened to it."""

import pytest
from msgspec.structs import replace

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, NotFound
from tokimori.model.build import check_task_name
from tokimori.model.ids import Incarnation
from tokimori.model.task import (
    MOST_BUILDS,
    MOST_DEPENDENCIES,
    MOST_EVENTS,
    BuildRecord,
    TaskEvent,
    TaskRecord,
    What,
    check_build,
    decode_task,
    earlier_build,
    encode_task,
    with_build,
    with_current,
    with_event,
)

EMPTY = TaskRecord(name="t", id="i")


def build(number: int) -> BuildRecord:
    return BuildRecord(digest=f"{number:064x}", size=1, pieces=1)


def built(*numbers: int) -> TaskRecord:
    record = EMPTY
    for number in numbers:
        record = with_build(record, build(number), Incarnation(1))
    return record


def numbers(record: TaskRecord) -> list[int]:
    return [int(each.digest, 16) for each in record.builds]


@pytest.mark.parametrize("name", ["a", "A1", "ping_google", "a.b-c", "0", "x" * 100])
def test_a_name_is_a_word(name: str) -> None:
    """It is a job's id, a folder and a part of an address, so that it is plain."""
    assert check_task_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "../a", "..", ".", ".a", "-a", "a/b", "é", "任務", "a\n", "a\0", "x" * 101, None, 7]
)
def test_another_name_is_refused(name: object) -> None:
    """The error says the field, the value and what is allowed."""
    with pytest.raises(InvalidInput) as refused:
        check_task_name(name)
    assert (refused.value.field, refused.value.value) == ("name", name)
    assert "A-Z a-z 0-9" in str(refused.value.allowed)


def test_the_newest_build_is_in_force() -> None:
    """One that is made again moves up; of too many the oldest are forgotten."""
    assert numbers(built(1, 2, 3)) == [3, 2, 1]
    assert numbers(built(1, 2, 1)) == [1, 2]
    assert built(1, 2, 1).build == build(1)
    many = built(*range(MOST_BUILDS + 5))
    assert len(many.builds) == MOST_BUILDS
    assert numbers(many)[0] == MOST_BUILDS + 4


def test_of_what_happened_the_last_is_kept() -> None:
    """A task that is disabled and enabled again and again does not grow without end."""
    record = EMPTY
    for number in range(MOST_EVENTS + 5):
        record = with_event(record, TaskEvent(at=Moment(number), what=What.DISABLED))
    assert len(record.events) == MOST_EVENTS
    assert record.events[-1].at == MOST_EVENTS + 4


def test_an_earlier_build_is_found_by_the_beginning_of_its_digest() -> None:
    """Without one it is the build that was made before the current one."""
    record = TaskRecord(
        name="t",
        id="i",
        builds=tuple(BuildRecord(digest=each * 64, size=1, pieces=1) for each in "cba"),
        current="c" * 64,
    )
    assert earlier_build(record, None).digest == "b" * 64
    assert earlier_build(replace(record, current="b" * 64), None).digest == "a" * 64
    assert earlier_build(record, "aaa").digest == "a" * 64
    assert earlier_build(record, "c" * 64).digest == "c" * 64


def test_a_build_that_is_forgotten_comes_not_in_force() -> None:
    """Others may have built since somebody looked: a record always has its current build."""
    assert with_current(built(1, 2), build(1), Incarnation(1)).build == build(1)
    with pytest.raises(NotFound, match="No build of t starts with"):
        with_current(built(*range(MOST_BUILDS + 1)), build(0), Incarnation(1))


@pytest.mark.parametrize("wanted", [None, "", "d", "aa" * 64])
def test_an_earlier_build_that_is_not_there_is_not_found(wanted: str | None) -> None:
    """The error says where they are listed."""
    builds = tuple(BuildRecord(digest=each * 64, size=1, pieces=1) for each in "cb")
    record = TaskRecord(name="t", id="i", builds=builds, current="b" * 64)
    with pytest.raises(NotFound) as refused:
        earlier_build(record, wanted)
    assert refused.value.allowed == "See `tokimori task builds t`."


def test_a_record_is_read_as_it_was_written() -> None:
    """With all its builds and all that happened."""
    record = with_event(built(1, 2), TaskEvent(at=Moment(5), what=What.BUILT, by="ada", detail="task t interval: 10"))
    assert decode_task(encode_task(record)) == record


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("digest", "x"),
        ("size", 0),
        ("size", 2**40),
        ("pieces", 0),
        ("pieces", 1000),
        ("description", "a\0"),
        ("description", "x" * 1001),
        ("dependencies", ("--index-url=http://other",)),
        ("dependencies", (" -r other.txt",)),
        ("dependencies", ("a\nb",)),
        ("dependencies", ("",)),
        ("dependencies", ("x" * 201,)),
        ("dependencies", tuple(f"p{number}" for number in range(MOST_DEPENDENCIES + 1))),
    ],
)
def test_a_build_that_can_not_be_is_refused(field: str, value: object) -> None:
    """The error names the field, and an option of pip is no dependency."""
    with pytest.raises(InvalidInput) as refused:
        check_build(replace(build(1), **{field: value}))
    assert refused.value.field == field
