"""What a program finds in `tokimori`."""

import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import tokimori
from tokimori import errors
from tokimori.apps import names
from tokimori.client.client import Client
from tokimori.model.run import Run
from tokimori.service.operation import Member, members_in
from tokimori.service.service import PARTS
from tokimori.service.views.outside import type_given
from tokimori.testing import Rehearsal


def named(hint: object) -> Iterator[type]:
    """The classes of ours in an annotation."""
    for part in typing.get_args(hint):
        yield from named(part)
    if str(getattr(hint, "__module__", "")).startswith("tokimori") and not isinstance(hint, typing.TypeVar):
        yield typing.cast(type, hint)


RARE = ("audit", "events", "secrets", "tasks", "tokens")
"""Parts whose values few programs name."""


def methods() -> Iterator[Any]:
    """All that a program calls on a client or a part of it."""
    yield from (getattr(Client, name) for name in ("acting_as", "close", "mutex", "semaphore"))
    for kind in PARTS:
        if kind.noun not in RARE:
            yield from members_in(kind).values()


def hints(method: Any) -> dict[str, object]:
    """What its arguments are annotated with, and its result for programs."""
    if not isinstance(method, Member):
        return typing.get_type_hints(method)
    found = typing.get_type_hints(method.method)
    return found if method.gives is None else {**found, "return": type_given(method.gives)}


def test_what_methods_take_and_return_is_there() -> None:
    """Whatever a client's method is annotated with, and every error, has its name in `tokimori`."""
    wanted = {each for method in methods() for hint in hints(method).values() for each in named(hint)}
    wanted |= {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)}
    wanted -= {Run}  # which a node takes in `runs.summaries`; programs name runs by their ids
    assert wanted <= {getattr(tokimori, name) for name in names.__all__}


def test_a_class_is_printed_under_its_name() -> None:
    """Who prints a value sees the name by which the manual calls its class."""
    found = {name: getattr(tokimori, name) for name in names.__all__}
    assert not [name for name, each in found.items() if isinstance(each, type) and each.__name__ != name]


def held(kinds: Iterable[type]) -> set[type]:
    """These classes, and those of ours in their fields."""
    found, waiting = set[type](), [*kinds]
    while waiting:
        if (kind := waiting.pop()) not in found:
            found.add(kind)
            fields = getattr(kind, "__struct_fields__", ())
            types = typing.get_type_hints(kind) if fields else {}
            waiting += [each for name in fields for each in named(types[name])]
    return found


def test_a_value_is_called_by_what_it_is() -> None:
    """No class of what a program gets, or of what that holds, is called a view: the word is one of our rooms."""
    given = {each for kind in PARTS for member in members_in(kind).values() for each in named(hints(member)["return"])}
    assert not [kind.__name__ for kind in held(given) if kind.__name__.endswith("View")]


def test_names_are_listed() -> None:
    """In `dir`, for people at a prompt, with the version; nothing else is."""
    assert {name for name in dir(tokimori) if not name.startswith("_")} == set(names.__all__)
    assert {"__version__", "__doc__"} <= set(dir(tokimori))


def test_a_misspelt_name_is_an_error() -> None:
    """Here as in any module, to the type checker as well."""
    with pytest.raises(AttributeError, match="module 'tokimori' has no attribute 'opne'"):
        tokimori.opne  # type: ignore[attr-defined]  # noqa: B018


def test_nothing_is_imported_before_it_is_used() -> None:
    """`import tokimori` costs nothing; a star brings all names."""
    program = """
import sys, tokimori
assert [name for name in sys.modules if name.startswith("tokimori")] == ["tokimori"]
from tokimori import *
print(len({Client, NotFound, RunFilters, open}), tokimori.__version__)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=60)
    assert ended.stdout == f"4 {tokimori.__version__}\n"


def test_help_shows_the_names() -> None:
    """`help(tokimori)`, which is pydoc, lists the clients with their methods, the values and the errors."""
    ended = subprocess.run(
        [sys.executable, "-m", "pydoc", "tokimori"], capture_output=True, check=True, text=True, timeout=60
    )
    for name in ("class AsyncClient", "class Client", "trigger(", "open(", "class Refused", "class Backfill"):
        assert name in ended.stdout


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (tokimori.App, "around client handle handler job on_failure on_start on_stop run running"),
        (tokimori.JobFunction, "aenqueue aenqueue_many after asked at enqueue enqueue_many handle request result_of"),
    ],
)
def test_the_help_of_a_class_has_nothing_of_what_is_inside(kind: type, names: str) -> None:
    """What programs call, and no way by which a worker process or a node speaks to it."""
    assert [name for name in dir(kind) if not name.startswith("_")] == names.split()


def blocks(page: str) -> list[str]:
    """The examples of a page: what stands four spaces further in than its text."""
    found: list[list[str]] = [[]]
    for line in page.splitlines():
        if line.startswith(" " * 8):
            found[-1].append(line[8:])
        elif line.strip():
            found.append([])
        else:
            found[-1].append("")
    return [text for each in found if (text := "\n".join(each).strip())]


def test_the_help_of_the_package_is_a_page() -> None:
    """Apps, clients, tasks and errors, in this order, each with an example; nothing of what is inside."""
    page = pydoc.plain(pydoc.render_doc(tokimori))
    assert len(page.splitlines()) < 140
    heads = [line.strip() for line in page.splitlines() if line.strip() in {"APPS", "CLIENTS", "TASKS", "ERRORS"}]
    assert heads == ["APPS", "CLIENTS", "TASKS", "ERRORS"]
    assert not re.search(r"\b(lane|rank|incarnation)s?\b", page)
    listed = {name.strip("`,.; ") for line in re.findall(r"More: (.*)", str(tokimori.__doc__)) for name in line.split()}
    assert {"Handle", "AsyncClient", "Task", "StoreError"} <= listed & set(names.__all__)


def test_its_examples_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    """They are run one after the other in a rehearsal, and those of clients with a store in memory."""
    first, second, clients, tasks, fails = blocks(str(tokimori.__doc__))
    names_: dict[str, Any] = {}
    exec(first, names_)  # noqa: S102
    exec(tasks, names_)  # noqa: S102
    with Rehearsal(names_["app"]):
        for each in (second, fails):
            exec(each, names_)  # noqa: S102
    with tokimori.open("memory:") as client:
        client.jobs.add("backup", schedule="every day at 4:00", command="make backup", timeout="1h")
    compile(clients, "page", "exec")
    assert "ready order 7 is delivered" in capsys.readouterr().out
