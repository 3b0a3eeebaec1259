"""Jobs that are bound to one another."""

from time import process_time

from tokimori.translators.entries import Entry, Moved, Refused, moved
from tokimori.translators.families import MOST_TOGETHER, in_pages


def job(name: str, *parents: str, on_failure: str | None = None) -> Moved:
    """A job with these parents."""
    fields = {"noop": True, "parents": [{"job": each} for each in parents] or None, "on_failure_job": on_failure}
    return moved(f"row {name}", name, fields)


def test_who_has_lost_a_parent_is_refused() -> None:
    """So are those that follow him, and a job whose failure job is not there."""
    entries: list[Entry] = [
        Refused("row a", "broken"),
        job("b", "a"),
        job("c", "b"),
        job("d", on_failure="a"),
        job("e"),
    ]
    first, *rest = in_pages(entries)
    assert [each.place for each in first] == ["row a", "row b", "row d", "row c"]
    assert [each.job_id for page in rest for each in page if isinstance(each, Moved)] == ["e"]


def test_a_long_line_that_has_lost_its_first_is_refused_at_once() -> None:
    """Each job is looked at once, and not once for each that is lost before it."""
    line: list[Entry] = [job(f"j{number}", f"j{number - 1}") for number in range(5_000)]
    began = process_time()
    first, *rest = in_pages(line)
    assert process_time() - began < 1
    assert len(first) == 5_000
    assert rest == [[]]


def test_a_family_is_in_one_page() -> None:
    """Pages have a bound, and a child comes with its parent, wherever they stand."""
    crowd = [job(f"j{number}") for number in range(MOST_TOGETHER - 1)]
    pages = list(in_pages([job("child", "parent"), *crowd, job("parent")]))[1:]
    assert [len(page) for page in pages] == [MOST_TOGETHER, 1]
    assert {each.job_id for each in pages[0] if isinstance(each, Moved)} >= {"child", "parent"}
